"""The inside of FakeEngine: instances as data, and the way every call takes through the injected faults."""

from __future__ import annotations

import copy
import hashlib
import json
import threading
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from fakes.faults import Fault, Injection, KilledError, Pending, When

from lxgpu.errors import LxgpuError
from lxgpu.model.gpu import DeviceNode, Gpu
from lxgpu.model.instance import Power
from lxgpu.ports import Image, Network, Ran

Program = Callable[[Sequence[str], bytes], Ran]
_PROGRAMS: dict[str, Program] = {
    "false": lambda _argv, _stdin: Ran(1, ""),
    "cat": lambda _argv, stdin: Ran(0, stdin.decode(errors="replace")),
    "echo": lambda argv, _stdin: Ran(0, " ".join(argv[1:]) + "\n"),
    "no-such-program": lambda _argv, _stdin: Ran(127, "not found\n"),
}


@dataclass(slots=True)
class File:
    """A file inside an instance."""

    content: bytes
    mode: int
    uid: int
    gid: int


@dataclass(slots=True)
class FakeInstance:
    """One instance: what LXD knows of it, and what is really inside."""

    name: str
    created_at: datetime
    config: dict[str, str]
    devices: dict[str, dict[str, str]]
    profiles: tuple[str, ...] = ("default",)
    description: str = ""
    project: str = "default"
    power: Power = Power.STOPPED
    init_pid: int | None = None
    inside: frozenset[DeviceNode] = frozenset()
    raw_at_start: str = ""
    files: dict[str, File] = field(default_factory=dict)
    snapshots: dict[str, tuple[datetime, FakeInstance]] = field(default_factory=dict)
    left: frozenset[str] = frozenset()
    left_nodes: frozenset[DeviceNode] = frozenset()

    @property
    def etag(self) -> str:
        """Over what LXD takes: not the description."""
        whole = json.dumps([self.config, self.devices, self.profiles], sort_keys=True)
        return f'"{hashlib.sha256(whole.encode()).hexdigest()}"'


class FakeCore:
    """What the fake knows, and how each call goes through the faults."""

    def __init__(self, gpus: Iterable[Gpu] = (), *, name: str = "host1") -> None:
        self.cards = list(gpus)
        self.promises: dict[str, str] = {}
        self.machines: dict[tuple[str, str], FakeInstance] = {}
        self.profiles: dict[str, dict[str, dict[str, str]]] = {
            "default": {"root": {"type": "disk", "path": "/", "pool": "default"}}
        }
        self.store: dict[str, Image] = {}
        self.disks: dict[str, dict[str, int | None]] = {"default": {}}
        self.net = Network(name="lxdbr0", gateway="10.9.7.1/24", dhcp_ranges=(("10.9.7.2", "10.9.7.254"),))
        self.logs: dict[str, tuple[str, ...]] = {}
        self.stubborn: set[str] = set()
        self.exhausted: set[str] = set()
        self.programs: dict[str, Program] = dict(_PROGRAMS)
        self.ran: list[tuple[str, tuple[str, ...]]] = []
        self.requests = 0
        self.writes = 0
        self.hook: Callable[[str, str, str], None] | None = None
        self._name = name
        self._marks = 0
        self._pids = 10_000
        self._uuids = 0
        self._now = datetime(2026, 1, 1, tzinfo=UTC)
        self._down = 0
        self._injections: list[Injection] = []
        self._pending: list[Pending] = []
        self._lock = threading.RLock()
        self.add_image("base")

    # ---- for tests

    def inject(
        self, fault: Fault, *, call: str = "", name: str = "", nth: int = 1, write: int | None = None, after: int = 1
    ) -> None:
        """Makes one call fail: the `nth` that matches `call` and `name`, or the write of that number.

        `after`: how many calls later a LATE write lands, or for how many more calls the daemon is DOWN.
        """
        self._injections.append(Injection(fault, call, name, nth, write, after))

    def kill(self, when: When, *, write: int, after: int = 1) -> None:
        """Raises KilledError at the write of that number (the first is 1)."""
        self._injections.append(Injection(when, write=write, after=after))

    def add_image(self, alias: str) -> Image:
        """Puts an image into the store."""
        fingerprint = hashlib.sha256(alias.encode()).hexdigest()
        self.store[fingerprint] = Image(fingerprint, (alias,), 1_000_000, self._tick(), description=alias)
        return self.store[fingerprint]

    def nodes(self, name: str) -> frozenset[DeviceNode]:
        """The card nodes that are really inside."""
        return self._get(name).inside | self._get(name).left_nodes

    def init(self, name: str) -> int | None:
        """The host pid of its init."""
        return self._get(name).init_pid

    def by_pid(self, pid: int) -> str | None:
        """Whose init that is."""
        return next((found.name for found in self.machines.values() if found.init_pid == pid), None)

    def raw_at_start(self, name: str) -> str:
        """`raw.lxc` as it was when the instance was started: that is the rule in force at its first process."""
        return self._get(name).raw_at_start

    def file(self, name: str, path: str) -> File | None:
        """A file inside, with its mode and owner."""
        return self._get(name).files.get(path)

    # ---- the machinery of calls

    def _enter(self) -> None:
        self.requests += 1
        due = [one for one in self._pending if one.due <= self.requests]
        self._pending = [one for one in self._pending if one.due > self.requests]
        for one in due:
            land(one)
        if self._down:
            self._down -= 1
            raise unavailable()

    def _read(self) -> None:
        self._enter()

    def _write(self, call: str, name: str, apply: Callable[[], None], *, guarded: bool = False) -> None:
        with self._lock:
            self._enter()
            self.writes += 1
            if self.hook:
                self.hook("before", call, name)
            one = next((one for one in self._injections if one.hits(call, name, self.writes)), None)
            if one is None:
                apply()
            else:
                self._injections.remove(one)
                self._fail(one, name, apply, guarded=guarded)
            if self.hook:
                self.hook("after", call, name)

    def _fail(self, one: Injection, name: str, apply: Callable[[], None], *, guarded: bool) -> None:
        if one.fault in {Fault.LATE, When.LATE}:
            self._pending.append(Pending(self.requests + one.after, name, apply, guarded))
        elif one.fault is Fault.HALF:
            self._half(name, apply)
        elif one.fault in {Fault.LOST, Fault.APPLIED_ERROR, When.AFTER}:
            apply()
        elif one.fault is Fault.DOWN:
            self._down = one.after
            raise unavailable()
        if isinstance(one.fault, When):
            raise KilledError(one.fault)
        if one.fault in {Fault.APPLIED_ERROR, Fault.ERROR}:
            raise refused("injected", "disk quota exceeded")
        if one.fault is Fault.STALE:
            raise stale("ETag doesn't match")
        raise LxgpuError("outcome_unknown", "injected: not known whether it was done")

    def _half(self, name: str, apply: Callable[[], None]) -> None:
        """Does the write and takes LXD's own record of it back; nodes and files stay."""
        found = self._get(name)
        before = copy.deepcopy((found.config, found.devices))
        known = found.inside
        apply()
        new = {key for key, device in found.devices.items() if key not in before[1] and device.get("type") == "gpu"}
        found.left, found.left_nodes = found.left | new, found.inside - known
        found.inside = known
        found.config, found.devices = before

    def _tick(self) -> datetime:
        self._now += timedelta(seconds=1)
        return self._now

    def _get(self, name: str) -> FakeInstance:
        found = self.machines.get(("default", name))
        if found is None:
            raise missing(name)
        return found

    def _expanded(self, found: FakeInstance) -> dict[str, dict[str, str]]:
        merged: dict[str, dict[str, str]] = {}
        for profile in found.profiles:
            merged |= self.profiles[profile]
        return {
            device: dict(keys) for device, keys in (merged | found.devices).items()
        }  # deepcopy takes ten times as long

    def _new(
        self,
        name: str,
        *,
        config: dict[str, str],
        devices: dict[str, dict[str, str]],
        profiles: Sequence[str],
        project: str = "default",
    ) -> FakeInstance:
        self._uuids += 1
        marks = {"volatile.uuid": str(uuid.UUID(int=self._uuids))} | config
        found = FakeInstance(name, self._tick(), marks, devices, tuple(profiles), project=project)
        self.machines[project, name] = found
        return found


def land(one: Pending) -> None:
    """A late write arrives: LXD refuses it or not, and nobody hears of it."""
    try:
        one.apply()
    except LxgpuError:
        return


def refused(what: str, text: str) -> LxgpuError:
    """LXD's no, in its words."""
    return LxgpuError("engine", f"{what}: LXD refused", why=text)


def missing(what: str) -> LxgpuError:
    """There is no such thing."""
    return LxgpuError("not_found", f"{what}: LXD knows no such thing")


def stale(text: str) -> LxgpuError:
    """A stale ETag, or a state that does not allow it."""
    return LxgpuError("conflict", "it was changed by somebody else in between", why=text)


def unavailable() -> LxgpuError:
    """The daemon is away."""
    return LxgpuError("unavailable", "LXD cannot be reached", why="injected")
