"""The seam to LXD or Incus."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from lxgpu.model.gpu import Gpu
from lxgpu.model.instance import Sighting


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
    """A managed bridge: its own address with prefix length, the range its DHCP server hands out, and what it has out.

    `leased` are the addresses that somebody else's network card has for some time yet, running or not.
    """

    name: str
    gateway: str
    dhcp_ranges: tuple[tuple[str, str], ...]
    leased: frozenset[str] = frozenset()


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

    def instance(self, name: str, *, with_state: bool = True) -> Sighting | None:
        """One instance with its ETag; None if there is none.

        Its state (`init_pid`, addresses, disk) costs ten times what the rest does; without it these are None.
        """

    def glimpse(self, name: str) -> Sighting | None:
        """One instance with its ETag and, of its state, at least `init_pid`: five times as fast where that is known."""

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

    def has_volume(self, pool: str, name: str) -> bool:
        """Whether there is a custom volume of that name; one request."""

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

    def import_image(self, path: str, *, alias: str | None) -> Image:
        """Import a tarball (metadata.yaml and rootfs/) and point `alias` at it, if one is given."""

    def name_image(self, fingerprint: str, alias: str) -> None:
        """Point an alias at an image; one that is there is moved."""

    def delete_image(self, fingerprint: str) -> None:
        """Delete an image."""

    def pool(self, name: str) -> Pool:
        """A storage pool with its use."""

    def network(self, name: str) -> Network:
        """A managed bridge."""

    def profile_devices(self) -> Mapping[str, Mapping[str, Mapping[str, str]]]:
        """The devices of every profile of every project, by `NAME` or `PROJECT/NAME`."""

    def proxy_ports(self) -> Mapping[int, str]:
        """Every port that a proxy device of any instance or profile listens on, stopped ones too."""

    def log_errors(self, name: str) -> tuple[str, ...]:
        """The ERROR lines of the newest log of an instance."""

    def left_nodes(self, name: str) -> tuple[str, ...]:
        """Node files of GPU devices left on the host by an interrupted attach (LXD_DIR/devices/NAME)."""

    def clear_left_nodes(self, name: str) -> None:
        """Remove those files, and the nodes inside that came with them; may run a program inside."""
