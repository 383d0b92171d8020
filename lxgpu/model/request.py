"""What somebody asks for, before anything is decided."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TypedDict

from lxgpu.model.gpu import Slot
from lxgpu.model.instance import InstanceKind
from lxgpu.model.quota import NOTHING, Terms
from lxgpu.model.reservation import Kind


@dataclass(frozen=True, slots=True)
class GpuRequest:
    """Cards wanted by an instance.

    `more` is how many on top of what it holds; `uuids` names exact ones (then `more` is their number);
    `model` is a shell-style pattern on the model's name, without regard to case.
    """

    instance: str
    owner: str
    more: int
    uuids: tuple[str, ...] = ()
    model: str = "*"
    class_name: str = ""


@dataclass(frozen=True, slots=True)
class CreateRequest:
    """A new container: who, what it is made from, its limits' flags, its cards and keys.

    `keys` are whole authorized_keys lines with their fingerprints. `lease_s` bounds the cards' lease, `expires` is
    when the container is suspended.
    """

    gpus: GpuRequest
    profile: str = "base"
    image: str = ""
    flags: Terms = NOTHING
    keys: tuple[tuple[str, str], ...] = field(default_factory=tuple)
    lease_s: int | None = None
    expires: datetime | None = None
    kind: InstanceKind = InstanceKind.OWN

    @property
    def name(self) -> str:
        """The container's name."""
        return self.gpus.instance

    @property
    def owner(self) -> str:
        """The person it is for."""
        return self.gpus.owner


@dataclass(frozen=True, slots=True)
class ReserveRequest:
    """Cards for a time: `at` is the start (None: as soon as it can be), `duration_s` how long from then.

    `weekly` books the same time in the weeks that follow, as far as bookings may reach. `host` is a name, `any`, or
    empty for the instance's own. `no_warning` is an admin's reason for taking cards without one.
    """

    instance: str
    owner: str
    gpus: int
    duration_s: int
    at: datetime | None = None
    weekly: bool = False
    model: str = "*"
    class_name: str = ""
    host: str = ""
    note: str = ""
    no_warning: str = ""


@dataclass(frozen=True, slots=True)
class Need:
    """Cards that must be somewhere at an instant: what is asked of the supply.

    `gpus` are those still missing; `pool` is a model's exact name or a pattern. They are wanted from `at` on, until
    `until` (None: an open lease). `reservation` is whose need it is; its own planned slots count as free for it.
    `adopted` cards are there already, as a lease, and are to be booked with those that are missing.
    """

    instance: str
    owner: str
    gpus: int
    class_name: str
    at: datetime
    until: datetime | None = None
    pool: str = "*"
    adopted: int = 0
    kind: Kind = Kind.REQUEST
    reservation: str = ""
    prefers: tuple[Slot, ...] = ()
    no_warning: bool = False


class Changes(TypedDict, total=False):
    """What is to be otherwise in a reservation; what is left out, or None, stays as it is."""

    gpus: int | None
    at: datetime | None
    until: datetime | None
    note: str | None
