"""The seam to the set-up of a host: what `lxgpu doctor` reads, and the little that it may mend."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol


class Door(StrEnum):
    """What happened when the engine's socket was opened."""

    OPEN = "open"
    MISSING = "missing"
    REFUSED = "refused"
    DENIED = "denied"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class IdRange:
    """One line of /etc/subuid or /etc/subgid: `count` ids from `first` on."""

    first: int
    count: int


@dataclass(frozen=True, slots=True)
class FileMode:
    """A file or folder that is there, with its permission bits. `secret`: nobody but its owner may read it."""

    path: str
    mode: int
    uid: int
    secret: bool


@dataclass(frozen=True, slots=True)
class Places:
    """What of a host is to be looked at: `listen` is the published address, `keys_made` the folder of private keys."""

    socket: str
    listen: str
    state_dir: Path
    secret: tuple[Path, ...]
    public: tuple[Path, ...]
    keys_made: Path


@dataclass(frozen=True, slots=True)
class HostFacts:
    """How a host is set up. None everywhere means "could not be read", never zero.

    `lab` names the lab that this process was pointed at; empty outside one. `packages` are Python distributions and
    their versions (None: not installed). `driver` is the version of the loaded kernel module, `library` that of
    libnvidia-ml's file. `nodes` says of each path below /dev whether it is there. `rules` says of each way to deny
    a device (`v1`, `bpf`) why it does not work here, empty when it does. `state_free` and `state_size` are bytes of
    the inventory's file system, `state_kind` its type.
    """

    root: bool = True
    may_raise: bool = True
    packages: Mapping[str, str | None] = field(default_factory=dict)
    socket: str = ""
    door: Door = Door.OPEN
    lab: str = ""
    driver: str | None = None
    library: str | None = None
    nodes: Mapping[str, bool] = field(default_factory=dict)
    cgroups: str = "v2"
    rules: Mapping[str, str] = field(default_factory=dict)
    shadow: bool = True
    subuid: tuple[IdRange, ...] = ()
    subgid: tuple[IdRange, ...] = ()
    sysctls: Mapping[str, int | None] = field(default_factory=dict)
    local_ports: tuple[int, int] | None = None
    listen: str = ""
    listen_error: str = ""
    files: tuple[FileMode, ...] = ()
    private_keys: tuple[str, ...] = ()
    state_kind: str | None = None
    state_free: int | None = None
    state_size: int | None = None


class HostSetup(Protocol):
    """Reads how a host is set up, and changes it where that is safe."""

    def facts(self, places: Places, sysctls: tuple[str, ...]) -> HostFacts:
        """Everything at once; what cannot be read is None, nothing is raised for it."""

    def set_sysctl(self, name: str, value: int) -> None:
        """Set a kernel parameter now and for the boots to come. Error `not_allowed`, `usage`."""

    def set_mode(self, path: str, mode: int) -> None:
        """Set the permission bits of a file. Error `not_allowed`."""

    def make_nodes(self) -> None:
        """Let NVIDIA's own program load the driver and make its nodes. Error `unavailable`."""
