"""A host in memory: processes that hold cards, hide, ignore TERM, come back, freeze or get stuck.

It passes the probe's contract tests. What it asks the world about is a function of a container's init
pid, so that it stands beside a `FakeEngine` (`FakeProbe(clock, gpus, beside(engine))`) or alone.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING

from fakes.system import FakeClock

from lxgpu.errors import LxgpuError
from lxgpu.model.gpu import DeviceNode, Gpu, GpuProcess, Reading, Readings, card_of
from lxgpu.model.instance import Limits
from lxgpu.model.slices import Slice
from lxgpu.ports import Holders, Process

if TYPE_CHECKING:
    from fakes.engine import FakeEngine

Number = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Inside:
    """A running container: its name, the card nodes in its /dev, what its rule denied from the start, its files."""

    name: str
    nodes: frozenset[DeviceNode] = frozenset()
    denied: frozenset[Number] = frozenset()
    limits: Limits = field(default_factory=Limits)
    files: Mapping[str, bytes] = field(default_factory=dict)


Look = Callable[[int], Inside | None]


def beside(engine: FakeEngine) -> Look:
    """The containers of a `FakeEngine` as a fake probe sees them."""

    def look(init: int) -> Inside | None:
        name = engine.by_pid(init)
        if name is None:
            return None
        rules = re.findall(r"cgroup\.devices\.deny = c (\d+):(\d+) rwm", engine.raw_at_start(name))
        denied = frozenset((int(major), int(minor)) for major, minor in rules)
        files = {path: file.content for path, file in engine.machines["default", name].files.items()}
        return Inside(name=name, nodes=frozenset(engine.nodes(name)), denied=denied, files=files)

    return look


@dataclass(slots=True)
class FakeProcess:
    """A process. `init` is its container's, None on the host. `kind` is NVML's list it is on, None for none.

    `ends_after_s` is how long it takes to end after TERM. `stuck` means that not even KILL ends it,
    `slips` that it hands the card round, so that only a look at a container that stands still finds it.
    """

    process: Process
    init: int | None
    nodes: frozenset[DeviceNode]
    kind: str | None = "compute"
    memory_bytes: int | None = 0
    ignores_term: bool = False
    ends_after_s: float = 0.0
    respawns: bool = False
    stuck: bool = False
    slips: bool = False
    ends_at: float | None = None


class FakeProbe:
    """`ports.HostProbe` in memory.

    To be changed by a test: `faults` and `utilization` by UUID, `error` of NVML itself, `unlisted` cards without a
    process list, `hidden` doubts by init (None: of the host), `walled` inits whose /dev lets nobody look into it,
    `terminals` by init (True takes a message), `sessions` of SSH by init,
    `listening`, `boot`, `stamp`, `own_memory` of a card by UUID, `sliced` what a `FakeSlicer` made of it. `signals`,
    `told` and `looks` (for holders: at whom, and whether they stood still) remember.
    """

    def __init__(self, clock: FakeClock, gpus: Callable[[], Sequence[Gpu]], look: Look) -> None:
        self.processes: list[FakeProcess] = []
        self.faults: dict[str, str] = {}
        self.utilization: dict[str, int | None] = {}
        self.own_memory: dict[str, int] = {}
        self.unlisted: set[str] = set()
        self.hidden: dict[int | None, str] = {}
        self.walled: set[int] = set()
        self.terminals: dict[int, list[bool]] = {}
        self.sessions: dict[int, int] = {}
        self.listening: set[int] = set()
        self.sliced: dict[str, tuple[Slice, ...]] = {}
        self.error: str | None = None
        self.boot = "boot-1"
        self.stamp = 1
        self.looks: list[tuple[tuple[int, ...] | None, bool]] = []
        self.signals: list[tuple[Process, int]] = []
        self.told: list[tuple[int, str]] = []
        self._clock = clock
        self._gpus = gpus
        self._look = look
        self._rules: dict[int, set[Number]] = {}
        self._numbers = count(50_000)

    # ---- what a test makes happen

    def run(self, init: int | None, nodes: Iterable[DeviceNode], **how: object) -> Process:
        """Start a process that opens those of the nodes that it may open, and holds them."""
        pid = next(self._numbers)
        process = Process(pid=pid, start_time=pid * 10, command=str(how.pop("command", "python3")))
        self.processes.append(FakeProcess(process, init, self._opened(init, nodes), **how))
        return process

    def end(self, process: Process) -> None:
        """The process ends by itself, also a stuck one."""
        found = self._find(process)
        if found is not None:
            found.ends_at = self._clock.monotonic()

    def alive(self, process: Process) -> bool:
        """Whether exactly this process still runs."""
        return self._find(process) is not None

    def gpus(self) -> Sequence[Gpu]:
        """The cards of the host."""
        return self._gpus()

    # ---- the port

    def boot_id(self) -> str:
        """Changes when a test says so."""
        return self.boot

    def listening_ports(self) -> frozenset[int]:
        """TCP ports on which anything of the host listens."""
        return frozenset(self.listening)

    def readings(self) -> Readings:
        """One sample of all cards."""
        if self.error is not None:
            return Readings(error=self.error)
        return Readings(items=tuple(self._reading(gpu) for gpu in self._gpus()), driver="550.54.15")

    def card_stamp(self) -> str:
        """Another one after each boot, and after `stamp` was set anew."""
        return f"{self.boot} {self.stamp}"

    def nodes_inside(self, init: int, nodes: Iterable[DeviceNode]) -> frozenset[DeviceNode]:
        """Which of the nodes exist inside, by device number."""
        inside = self._inside(init)
        if init in self.walled:
            raise LxgpuError("unavailable", f"the container of process {init} cannot be looked into")
        there = {_number(node) for node in inside.nodes}
        return frozenset(node for node in nodes if _number(node) in there)

    def read_file(self, init: int, path: str, *, most: int) -> bytes | None:
        """The first `most` bytes of a file inside."""
        found = self._inside(init).files.get(path)
        return None if found is None else found[:most]

    def openable(self, init: int, nodes: Iterable[DeviceNode]) -> frozenset[DeviceNode]:
        """Which of the nodes the rule leaves open."""
        denied = self._rule(init)
        return frozenset(node for node in nodes if _number(node) not in denied)

    def set_rule(self, init: int, *, denied: Iterable[DeviceNode], allowed: Iterable[DeviceNode]) -> None:
        """Set the device rule; it counts for what is opened from now on."""
        rule = self._rule(init) | {_number(node) for node in denied}
        self._rules[init] = rule - {_number(node) for node in allowed}

    def deny(self, init: int, nodes: Iterable[DeviceNode]) -> None:
        """More that cannot be opened from now on."""
        self.set_rule(init, denied=nodes, allowed=())

    def holders(
        self,
        inits: Collection[int] | None,
        cards: Iterable[Gpu],
        *,
        but: Collection[int] = (),
        still: bool = True,
        at_once: bool = False,
        readings: Readings | None = None,
    ) -> Mapping[str, Holders]:
        """Who has the cards open, mapped, or is on NVML's list; the world is its own sample, and hides nothing else."""
        del readings, at_once
        self.looks.append((inits if inits is None else tuple(inits), still))
        for init in inits or ():
            self._inside(init)
        return {card.uuid: self._holders(inits, card, but, still=still) for card in cards}

    def _holders(self, inits: Collection[int] | None, card: Gpu, but: Collection[int], *, still: bool) -> Holders:
        numbers = {_number(node) for node in card.nodes}
        holding = [one for one in self._running() if _touches(one, numbers) and (still or not one.slips)]
        found = [
            replace(one.process, how="open")
            for one in holding
            if one.init is not None and (one.init not in but if inits is None else one.init in inits)
        ]
        found += [
            replace(one.process, how="on NVML's compute list")
            for one in holding
            if inits is None and one.init is None and one.kind == "compute"
        ]
        hidden = [self.hidden.get(init, "") for init in (inits if inits is not None else [None])]
        doubts = [*hidden, self._no_list(card.uuid)]
        return Holders(processes=tuple(sorted(found)), unknown="; ".join(filter(None, doubts)))

    def signal(self, process: Process, number: int) -> bool:
        """Send a signal to exactly this process."""
        found = self._find(process)
        if found is None:
            return False
        self.signals.append((process, number))
        if number == signal.SIGKILL and not found.stuck:
            found.ends_at = self._clock.monotonic()
        elif number == signal.SIGTERM and not (found.ignores_term or found.stuck):
            found.ends_at = self._clock.monotonic() + found.ends_after_s
        return True

    def limits(self, init: int) -> Limits:
        """What the container was given."""
        return self._inside(init).limits

    def logins(self, init: int) -> int:
        """How many SSH sessions a test has opened inside."""
        self._inside(init)
        return self.sessions.get(init, 0)

    def tell(self, init: int, text: str) -> tuple[int, int]:
        """Write to the terminals: (delivered, missed)."""
        self._inside(init)
        self.told.append((init, text))
        takes = self.terminals.get(init, [])
        return sum(takes), len(takes) - sum(takes)

    # ---- the machinery

    def _inside(self, init: int) -> Inside:
        found = self._look(init)
        if found is None:
            raise LxgpuError("unavailable", f"process {init} runs in no container's cgroup")
        return found

    def _rule(self, init: int) -> set[Number]:
        return set(self._rules.get(init, self._inside(init).denied))

    def _opened(self, init: int | None, nodes: Iterable[DeviceNode]) -> frozenset[DeviceNode]:
        if init is None:
            return frozenset(nodes)
        inside = self._inside(init)
        if init in self.walled:
            raise LxgpuError("unavailable", f"the container of process {init} cannot be looked into")
        there = {_number(node) for node in inside.nodes}
        return frozenset(node for node in self.openable(init, nodes) if _number(node) in there)

    def _running(self) -> list[FakeProcess]:
        """The processes of this moment: those whose end has come, or whose container has ended, are gone."""
        now = self._clock.monotonic()
        gone = [one for one in self.processes if one.init is not None and self._look(one.init) is None]
        ended = [one for one in self.processes if one.ends_at is not None and one.ends_at <= now and one not in gone]
        self.processes = [one for one in self.processes if one not in gone and one not in ended]
        for one in ended:
            if one.respawns:
                how = {"command": one.process.command, "kind": one.kind, "memory_bytes": one.memory_bytes}
                how |= {"ignores_term": one.ignores_term, "respawns": True, "ends_after_s": one.ends_after_s}
                self.run(one.init, one.nodes, **how)
        return self.processes

    def _find(self, process: Process) -> FakeProcess | None:
        same = (process.pid, process.start_time)
        return next((one for one in self._running() if (one.process.pid, one.process.start_time) == same), None)

    def _no_list(self, uuid: str) -> str:
        if self.error is not None:
            return self.error
        if card_of(uuid) not in {gpu.uuid for gpu in self._gpus()}:
            return f"NVML does not show the card {uuid}"
        if uuid in self.unlisted or uuid in self.faults:
            return f"NVML has no process list of the card {uuid}"
        return ""

    def _reading(self, gpu: Gpu) -> Reading:
        now, fault = self._clock.now(), self.faults.get(gpu.uuid)
        if fault is not None:
            return Reading(uuid=gpu.uuid, sampled_at=now, index=gpu.index, fault=fault, pci=gpu.pci)
        numbers = {_number(node) for node in gpu.nodes}
        mine = [one for one in self._running() if one.kind is not None and _touches(one, numbers)]
        listed = tuple(self._listed(one) for one in mine)
        return Reading(
            uuid=gpu.uuid,
            sampled_at=now,
            index=gpu.index,
            utilization_percent=self.utilization.get(gpu.uuid, 0),
            memory_used_bytes=self.own_memory.get(gpu.uuid, 0) + sum(one.memory_bytes or 0 for one in mine),
            memory_total_bytes=gpu.memory_bytes,
            processes=None if gpu.uuid in self.unlisted else listed,
            pci=gpu.pci,
            slices=self._slices(gpu),
        )

    def _slices(self, gpu: Gpu) -> tuple[Reading, ...] | None:
        if gpu.uuid not in self.sliced:
            return None
        found = []
        for slice_ in self.sliced[gpu.uuid]:
            numbers = {_number(node) for node in slice_.nodes}
            mine = [one for one in self._running() if one.kind is not None and _touches(one, numbers)]
            used, listed = sum(one.memory_bytes or 0 for one in mine), tuple(self._listed(one) for one in mine)
            at = self._clock.now()
            found.append(Reading(slice_.uuid, at, None, None, used, slice_.memory_bytes, processes=listed))
        return tuple(found)

    def _listed(self, one: FakeProcess) -> GpuProcess:
        inside = None if one.init is None else self._look(one.init)
        name = None if inside is None else inside.name
        kind = one.kind or "compute"
        return GpuProcess(pid=one.process.pid, memory_bytes=one.memory_bytes, kind=kind, instance=name)


def _number(node: DeviceNode) -> Number:
    return node.major, node.minor


def _touches(one: FakeProcess, numbers: set[Number]) -> bool:
    return any(_number(node) in numbers for node in one.nodes)
