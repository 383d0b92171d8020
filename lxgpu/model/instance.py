"""People, their containers, and what LXD shows of those."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class Limits:
    """What a container may use; None means no limit asked for (or, when read back, none found)."""

    cpu: int | None = None
    memory_bytes: int | None = None
    disk_bytes: int | None = None
    processes: int | None = None


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody with a quota. The uid and the SSH port are theirs for life."""

    name: str
    uid: int
    ssh_port: int
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Key:
    """One public key of a person: the whole authorized_keys line and its SHA256 fingerprint."""

    person: str
    fingerprint: str
    line: str
    added_at: datetime


class InstanceKind(StrEnum):
    """A person's own machine, of which there is one a host; or a throw-away container of one run (`lxgpu run`)."""

    OWN = "own"
    RUN = "run"

    __hash__ = str.__hash__


class InstanceState(StrEnum):
    """What an instance is meant to be. Whether it runs is LXD's to say."""

    CREATING = "creating"
    READY = "ready"
    SUSPENDED = "suspended"
    DELETING = "deleting"
    TRASHED = "trashed"

    __hash__ = str.__hash__  # the hash of Enum is Python code, and states are asked for in sets all the time


@dataclass(frozen=True, slots=True)
class Instance:
    """A container of a person, as it is meant to be.

    `uuid` is LXD's `volatile.uuid`, empty until the container exists; a copy has another one.
    `running` is what the owner last asked for. `engine_name` differs from `name` only in the trash.
    """

    name: str
    owner: str
    host: str
    state: InstanceState
    created_at: datetime
    uuid: str = ""
    class_name: str = ""
    profile: str = "base"
    image: str = ""
    limits: Limits = field(default_factory=Limits)
    address: str = ""
    hwaddr: str = ""
    running: bool = True
    expires: datetime | None = None
    reason: str = ""
    engine_name: str = ""
    deleted_at: datetime | None = None
    kind: InstanceKind = InstanceKind.OWN

    @property
    def throw_away(self) -> bool:
        """Whether it lives for one run: it has no home volume and no login, and is removed whole."""
        return self.kind is InstanceKind.RUN


class Power(StrEnum):
    """LXD's word for whether an instance runs, in lower case; `other` for passing states."""

    RUNNING = "running"
    STOPPED = "stopped"
    FROZEN = "frozen"
    ERROR = "error"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Sighting:
    """One instance as LXD shows it at one moment.

    `devices` and `config` are its own, `expanded_devices` those with the profiles' merged in.
    `init_pid` is the host pid of its init, None unless it runs. `etag` guards the next write;
    it is None in a sighting that came from a list. Sizes are bytes, None where LXD does not say.
    """

    name: str
    project: str
    power: Power
    config: Mapping[str, str]
    devices: Mapping[str, Mapping[str, str]]
    expanded_devices: Mapping[str, Mapping[str, str]]
    profiles: tuple[str, ...] = ()
    init_pid: int | None = None
    etag: str | None = None
    addresses: tuple[str, ...] = ()
    disk_used_bytes: int | None = None
    created_at: datetime | None = None
    location: str | None = None

    @property
    def uuid(self) -> str:
        """LXD's own identity of the instance; a copy gets a new one."""
        return self.config.get("volatile.uuid", "")

    @property
    def ours(self) -> bool:
        """Whether lxgpu made exactly this instance (a copy carries the mark, but not the identity)."""
        return bool(self.uuid) and self.config.get("user.lxgpu.uuid") == self.uuid
