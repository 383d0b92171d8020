"""Who holds which slot, and what is known of slots and cards between holders."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from lxgpu.model.gpu import Slot


class AssignmentState(StrEnum):
    """The life of an assignment: planned → attaching → active ⇄ warned → releasing → closed."""

    PLANNED = "planned"
    ATTACHING = "attaching"
    ACTIVE = "active"
    WARNED = "warned"
    RELEASING = "releasing"
    QUARANTINED = "quarantined"
    CLOSED = "closed"

    __hash__ = str.__hash__  # the hash of Enum is Python code, and states are asked for in sets all the time


LIVE = frozenset(
    {
        AssignmentState.ATTACHING,
        AssignmentState.ACTIVE,
        AssignmentState.WARNED,
        AssignmentState.RELEASING,
        AssignmentState.QUARANTINED,
    }
)
"""What takes a slot: nobody else can have it."""

KEPT = frozenset({AssignmentState.ATTACHING, AssignmentState.ACTIVE, AssignmentState.WARNED})
"""What its holder has, or is about to have, and keeps for now: not what is being released or stuck."""

ATTACHED = frozenset({AssignmentState.ACTIVE, AssignmentState.WARNED})
"""What its holder can work on: attached, and not being released."""

GIVING_WAY = frozenset({AssignmentState.WARNED, AssignmentState.RELEASING})
"""What its holder has been told to give up, or gives up now."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """One slot held by (or promised to) one instance.

    `since` is when it was attached, `until` the end of the lease (None: open), `due_at` when the
    next thing happens to it (end of a grace). `outcome` says how a closed one ended, and by which rule a warned one
    will.
    """

    id: str
    slot: Slot
    instance: str
    state: AssignmentState
    created_at: datetime
    class_name: str = ""
    since: datetime | None = None
    until: datetime | None = None
    due_at: datetime | None = None
    reservation: str | None = None
    closed_at: datetime | None = None
    outcome: str = ""

    @property
    def live(self) -> bool:
        """Whether the slot is taken by this assignment."""
        return self.state in LIVE


@dataclass(frozen=True, slots=True)
class SlotRecord:
    """What is known of a slot between holders.

    It is free only when `proven_at` is newer than `detached_at` and `boot_id` is the host's present boot.
    """

    slot: Slot
    host: str
    detached_at: datetime | None = None
    proven_at: datetime | None = None
    boot_id: str = ""
    quarantine: str = ""
    quarantined_at: datetime | None = None

    def proven(self, boot_id: str) -> bool:
        """Whether the last fence still stands as proof that nobody holds the slot."""
        if self.proven_at is None or self.quarantine or self.boot_id != boot_id:
            return False
        return self.detached_at is None or self.proven_at >= self.detached_at


@dataclass(frozen=True, slots=True)
class Card:
    """A card as the inventory remembers it, so that one that vanishes is "missing", not forgotten.

    `closed` is the reason an admin gave for taking it out of service, empty when it is in service. `layout` says how it
    is divided now, as `model.layout` writes it; empty: it is not. `made` is what of that the card itself was told, as
    `model.slices` writes it; empty: no MIG slices.
    """

    uuid: str
    host: str
    pci: str
    model: str
    memory_bytes: int | None
    seen_at: datetime
    closed: str = ""
    closed_by: str = ""
    closed_at: datetime | None = None
    layout: str = ""
    made: str = ""
