"""The seams: what the services ask of the world outside, in the words of the model.

Each port has a real driver and a fake, and both pass the same contract tests. No driver lets an
object or an exception of its library out: answers are model values, errors are `LxgpuError`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from lxgpu.model.gpu import DeviceNode, Gpu, Readings
from lxgpu.model.instance import Limits, Sighting
from lxgpu.model.operation import Event, Identity, Operation
from lxgpu.model.snapshot import Records, Row

Progress = Callable[[str], None]


# ---- LXD or Incus


@dataclass(frozen=True, slots=True)
class Server:
    """The engine's own facts. `promises` are the `user.lxgpu.*` keys of its configuration, prefix included."""

    name: str
    kind: str
    version: str
    extensions: frozenset[str]
    promises: Mapping[str, str]
    etag: str | None


@dataclass(frozen=True, slots=True)
class Pool:
    """A storage pool. `enforces_quota` is False where a size would only be a wish (driver `dir`)."""

    name: str
    driver: str
    size_bytes: int | None
    used_bytes: int | None
    enforces_quota: bool


@dataclass(frozen=True, slots=True)
class Network:
    """A managed bridge: its own address with prefix length, and the range its DHCP server hands out."""

    name: str
    gateway: str
    dhcp_ranges: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Image:
    """An image in the engine's store."""

    fingerprint: str
    aliases: tuple[str, ...]
    size_bytes: int
    created_at: datetime | None
    description: str = ""


@dataclass(frozen=True, slots=True)
class Change:
    """What an instance is to become: whole values for the keys named, everything else as it is.

    A value of None removes a config key or a device.
    """

    config: Mapping[str, str | None] = field(default_factory=dict)
    devices: Mapping[str, Mapping[str, str] | None] = field(default_factory=dict)
    description: str | None = None


@dataclass(frozen=True, slots=True)
class Ran:
    """The end of a program run inside an instance."""

    status: int
    output: str


class Engine(Protocol):
    """An LXD or Incus server. Every call has a deadline.

    Errors: `unavailable` (no answer at all), `not_found`, `exists`, `conflict` (stale ETag or busy for
    too long), `outcome_unknown` (sent, no answer in time), `engine` (refused; `why` carries its words and
    the ERROR lines of its log). After `engine` and `outcome_unknown` of a write: barrier, re-read, judge.
    """

    def server(self) -> Server:
        """Facts and promises; one request."""

    def put_promises(self, promises: Mapping[str, str | None], *, etag: str | None) -> None:
        """Write `user.lxgpu.*` keys of the server's configuration (None removes), guarded by `etag`."""

    def gpus(self) -> tuple[Gpu, ...]:
        """The NVIDIA cards the engine sees, in PCI order; one request, never cached."""

    def instances(self, *, with_state: bool = True) -> tuple[Sighting, ...]:
        """All instances of all projects in one request; without state: no pid, addresses, disk use, 20 times faster."""

    def instance(self, name: str) -> Sighting | None:
        """One instance with its ETag and state; None if there is none."""

    def create(self, name: str, *, source: str, change: Change, profiles: Sequence[str]) -> None:
        """Make a stopped instance from an image (`image:FINGERPRINT`) or as a copy of another (`copy:NAME`).

        `change` is applied over what the source brings. Returns when it exists.
        """

    def update(self, name: str, change: Change, *, etag: str | None) -> None:
        """Make all of `change` true in one write, guarded by `etag` (None: whatever is there now)."""

    def barrier(self, name: str) -> None:
        """Wait until no earlier write to the instance can land any more."""

    def start(self, name: str) -> None:
        """Start; nothing to do when it runs."""

    def stop(self, name: str, *, timeout_s: float, force: bool) -> None:
        """Stop; nothing to do when it is stopped. Without `force` it may end in `outcome_unknown`."""

    def freeze(self, name: str) -> None:
        """Freeze all processes."""

    def unfreeze(self, name: str) -> None:
        """Thaw."""

    def rename(self, name: str, new: str) -> None:
        """Rename a stopped instance."""

    def delete(self, name: str) -> None:
        """Delete a stopped instance; nothing to do when it is gone."""

    def rebuild_root(self, name: str, *, source: str) -> None:
        """Replace the root file system of a stopped instance; configuration and volumes stay."""

    def run(
        self, name: str, argv: Sequence[str], *, environment: Mapping[str, str], timeout_s: float, stdin: bytes = b""
    ) -> Ran:
        """Run a program as root inside a running instance and wait for its end."""

    def push(self, name: str, path: str, content: bytes, *, mode: int, uid: int = 0, gid: int = 0) -> None:
        """Write a file inside an instance."""

    def pull(self, name: str, path: str) -> bytes | None:
        """Read a file inside an instance; None if there is none."""

    def ensure_volume(self, pool: str, name: str, *, size_bytes: int | None) -> None:
        """Make a custom file system volume, or set the size of the one there."""

    def delete_volume(self, pool: str, name: str) -> None:
        """Delete a custom volume; nothing to do when it is gone."""

    def volumes(self, pool: str) -> Mapping[str, int | None]:
        """Custom volumes and the bytes each uses."""

    def snapshots(self, name: str) -> tuple[tuple[str, datetime | None], ...]:
        """Snapshots of an instance, oldest first."""

    def snapshot(self, name: str, snapshot: str) -> None:
        """Take a snapshot (without memory)."""

    def restore(self, name: str, snapshot: str) -> None:
        """Bring a stopped instance back to a snapshot; its configuration comes back too."""

    def delete_snapshot(self, name: str, snapshot: str) -> None:
        """Delete a snapshot; nothing to do when it is gone."""

    def images(self) -> tuple[Image, ...]:
        """The image store."""

    def import_image(self, path: str, *, alias: str) -> Image:
        """Import a tarball (metadata.yaml and rootfs/) and point `alias` at it."""

    def delete_image(self, fingerprint: str) -> None:
        """Delete an image."""

    def pool(self, name: str) -> Pool:
        """A storage pool with its use."""

    def network(self, name: str) -> Network:
        """A managed bridge."""

    def proxy_ports(self) -> Mapping[int, str]:
        """Every port that a proxy device of any instance or profile listens on, stopped ones too."""

    def log_errors(self, name: str) -> tuple[str, ...]:
        """The ERROR lines of the newest log of an instance."""

    def left_nodes(self, name: str) -> tuple[str, ...]:
        """Node files of GPU devices left on the host by an interrupted attach (LXD_DIR/devices/NAME)."""

    def clear_left_nodes(self, name: str) -> None:
        """Remove those files, and the nodes inside that came with them; may run a program inside."""


# ---- the host: NVML, /proc, cgroups, signals


@dataclass(frozen=True, slots=True, order=True)
class Process:
    """A process that cannot be confused with a later one of the same pid."""

    pid: int
    start_time: int
    command: str = ""
    how: str = ""


@dataclass(frozen=True, slots=True)
class Holders:
    """Who holds a card's nodes. `unknown` says why the list may be incomplete, empty when it is whole."""

    processes: tuple[Process, ...] = ()
    unknown: str = ""

    @property
    def free(self) -> bool:
        """Proven: nobody holds it and nothing was hidden."""
        return not self.processes and not self.unknown


class HostProbe(Protocol):
    """What is asked of the host an engine runs on. `init` is the host pid of an instance's init."""

    def boot_id(self) -> str:
        """Changes at every boot of the host."""

    def listening_ports(self) -> frozenset[int]:
        """TCP ports on which anything of the host listens."""

    def readings(self) -> Readings:
        """One NVML sample of all cards, in a child with a deadline; never raises for a sick card."""

    def nodes_inside(self, init: int, nodes: Iterable[DeviceNode]) -> frozenset[DeviceNode]:
        """Which of the nodes exist under the instance's /dev, by device number."""

    def openable(self, init: int, nodes: Iterable[DeviceNode]) -> frozenset[DeviceNode]:
        """Which of the nodes a process of the instance may open (tried, from within its cgroups)."""

    def read_file(self, init: int, path: str, *, most: int) -> bytes | None:
        """The first `most` bytes of a regular file inside the instance; None if there is none, or something else.

        Unlike `Engine.pull` it cannot be held up, or made to read without end, by what a user puts there.
        """

    def set_rule(self, init: int, *, denied: Iterable[DeviceNode], allowed: Iterable[DeviceNode]) -> None:
        """Set the device rule of a running instance: `denied` cannot be opened, `allowed` can. Both whole lists."""

    def holders(self, init: int | None, nodes: Iterable[DeviceNode], *, uuid: str) -> Holders:
        """Processes with the card open or mapped, or on NVML's list.

        With `init`, those of that instance; with None, those of every container and every compute
        process of the host (a display server's or a monitor's open node does not count).
        """

    def signal(self, process: Process, number: int) -> bool:
        """Send a signal by pidfd after checking the start time; a frozen process is thawed for KILL.

        False when the process is gone.
        """

    def limits(self, init: int) -> Limits:
        """CPU, memory and process limits as the host's cgroups have them (disk is the pool's)."""

    def tell(self, init: int, text: str) -> tuple[int, int]:
        """Write to every terminal of the instance without ever blocking: (delivered, missed)."""


# ---- the inventory


class Tx(Protocol):
    """One write transaction on the inventory."""

    @property
    def records(self) -> Records:
        """The living rows as this transaction found them."""

    def put(self, *rows: Row) -> None:
        """Insert rows or replace those of the same key. Error `conflict`: a unique rule was broken."""

    def drop(self, row: Row) -> None:
        """Remove a row."""

    def event(self, kind: str, subject: str, *, rule: str = "", detail: Mapping[str, object] | None = None) -> None:
        """Write a line of history, with this transaction's actor and time."""

    def identify(self, identity: Identity) -> None:
        """Set which inventory this is, and its epoch."""


class VersionMovedError(Exception):
    """Somebody wrote between the reading and the writing: observe and decide again."""


class Inventory(Protocol):
    """What is meant to be. Writers never wait for LXD inside a transaction."""

    def read(self) -> Records:
        """All living rows at one version."""

    def write(self, *, actor: str, now: datetime, expected: int | None = None) -> AbstractContextManager[Tx]:
        """A write transaction; all or nothing.

        `expected` is the version the decision was made on: `VersionMovedError` if it is no longer that.
        """

    def operation(self, identifier: str) -> Operation | None:
        """One operation, closed ones too."""

    def events(self, *, subject: str | None = None, since: datetime | None = None, limit: int = 1000) -> list[Event]:
        """History, newest first."""

    def assignments_at(self, at: datetime) -> Records:
        """Who held what at an instant of the past (only `assignments` and `instances` are filled)."""


# ---- the small ones


class Clock(Protocol):
    """Time, so that tests and the simulator can have their own."""

    def now(self) -> datetime:
        """The time, in UTC."""

    def monotonic(self) -> float:
        """Seconds that never jump."""

    def sleep(self, seconds: float) -> None:
        """Wait."""


class Locks(Protocol):
    """One lock an instance, held by whoever runs its steps, gone with its process."""

    def hold(self, name: str, *, wait_s: float) -> AbstractContextManager[bool]:
        """Hold the lock; gives False when another process had it all the while."""


class Login(Protocol):
    """An SSH client, to prove that a container can be used."""

    def check(self, *, host: str, port: int, user: str, private_key: str, timeout_s: float, command: str) -> Ran:
        """Log in, run a command, return its end. Errors: `unavailable` with the real cause."""

    def new_key(self, comment: str) -> tuple[str, str]:
        """A fresh ed25519 pair: (private key in OpenSSH form, public line)."""


class Texts(Protocol):
    """The templates: what is written into containers and to people."""

    def render(self, template: str, **values: object) -> str:
        """A template filled in. Error `bad_file`: the template is missing or broken."""
