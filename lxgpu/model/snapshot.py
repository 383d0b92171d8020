"""Everything one decision may look at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from lxgpu.model.assignment import Assignment, AssignmentState, Card, SlotRecord
from lxgpu.model.borrowing import Borrowing
from lxgpu.model.gpu import Gpu, Readings, Slot
from lxgpu.model.instance import Instance, Key, Person, Sighting
from lxgpu.model.operation import Identity, Operation
from lxgpu.model.quota import Policy
from lxgpu.model.reservation import Keep, Notice, Reservation
from lxgpu.model.usage import IdleVerdict

Row = Person | Key | Instance | Assignment | SlotRecord | Card | Operation | Reservation | Keep | Notice | Borrowing


@dataclass(frozen=True, slots=True)
class Records:
    """The living rows of the inventory at one version (closed assignments and operations stay behind).

    `elsewhere` are the rows of other hosts, where these are one host's (see `model.onehost`): what people have there
    counts for them, and is nobody's to touch here.
    """

    version: int
    identity: Identity | None
    persons: tuple[Person, ...] = ()
    keys: tuple[Key, ...] = ()
    instances: tuple[Instance, ...] = ()
    assignments: tuple[Assignment, ...] = ()
    slots: tuple[SlotRecord, ...] = ()
    cards: tuple[Card, ...] = ()
    operations: tuple[Operation, ...] = ()
    reservations: tuple[Reservation, ...] = ()
    keeps: tuple[Keep, ...] = ()
    notices: tuple[Notice, ...] = ()
    borrowings: tuple[Borrowing, ...] = ()
    elsewhere: tuple[Records, ...] = ()

    def person(self, name: str) -> Person | None:
        """The person of that name."""
        return next((row for row in self.persons if row.name == name), None)

    def instance(self, name: str) -> Instance | None:
        """The instance of that name."""
        return next((row for row in self.instances if row.name == name), None)

    def card(self, uuid: str) -> Card | None:
        """What is remembered of a card."""
        return next((row for row in self.cards if row.uuid == uuid), None)

    def reservation(self, identifier: str | None) -> Reservation | None:
        """The open reservation of that id."""
        return next((row for row in self.reservations if row.id == identifier), None)

    def successor(self, slot: Slot) -> Assignment | None:
        """Whom a slot is promised to next."""
        planned = (row for row in self.assignments if row.state is AssignmentState.PLANNED)
        return next((row for row in planned if row.slot == slot), None)

    def held_by(self, instance: str) -> tuple[Assignment, ...]:
        """The live assignments of an instance, oldest first."""
        mine = (row for row in self.assignments if row.instance == instance and row.live)
        return tuple(sorted(mine, key=lambda row: (row.since or row.created_at, row.id)))

    def holder(self, slot: Slot) -> Assignment | None:
        """The live assignment of a slot."""
        return next((row for row in self.assignments if row.slot == slot and row.live), None)

    def meant(self) -> frozenset[tuple[str, str]]:
        """Which instance is to have which card among its devices: holders and borrowers, with the card's UUID."""
        held = {(row.instance, row.slot.card) for row in self.assignments if row.live}
        return frozenset(held | {(row.instance, row.slot.card) for row in self.borrowings if row.live})

    def borrower(self, card: str) -> Borrowing | None:
        """Who has borrowed the card of that UUID."""
        return next((row for row in self.borrowings if row.slot.card == card and row.live), None)

    def slot(self, slot: Slot) -> SlotRecord | None:
        """What is known of a slot between holders."""
        return next((row for row in self.slots if row.slot == slot), None)


@dataclass(frozen=True, slots=True)
class Observation:
    """What one host showed at one moment. `readings` is None when NVML was not asked."""

    host: str
    boot_id: str
    at: datetime
    gpus: tuple[Gpu, ...] = ()
    sightings: tuple[Sighting, ...] = ()
    readings: Readings | None = None

    def sighting(self, name: str) -> Sighting | None:
        """The instance of that name in LXD's default project (lxgpu's own)."""
        return next((seen for seen in self.sightings if seen.name == name and seen.project == "default"), None)

    def gpu(self, uuid: str) -> Gpu | None:
        """The card of that UUID, if the host still has it."""
        return next((gpu for gpu in self.gpus if gpu.uuid == uuid), None)

    def strangers(self) -> Iterator[Sighting]:
        """Instances that are not lxgpu's; they are looked at and never touched."""
        return (seen for seen in self.sightings if not seen.ours)


@dataclass(frozen=True, slots=True)
class ClockSet:
    """Somebody set the wall clock, from `before` to `at`."""

    before: datetime
    at: datetime


@dataclass(frozen=True, slots=True)
class EndTold:
    """What a container's owner was told of its end, at `said_at` (sent at `at`; None: not yet).

    `end` is what the policy or the container's own date said then, `until` when it was said to end; both None: the end
    that was told of before is put off.
    """

    end: datetime | None
    until: datetime | None
    said_at: datetime
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One version of the inventory, what the host showed, the policy and the time.

    `unix_groups` maps a person to the host's Unix groups that they are in. `verdicts` judge the held slots by their
    samples (one that is missing is not judged). `past` are assignments closed within the time that fairness and caps
    look back, newest first. `shows` are the running bookings of which there was any sign of use (what cannot be told
    counts as one), `watched` says from when on each of the others was looked at without a gap. `heard` are the kinds
    and times of what was told about held slots, by assignment.
    `resumed_at`: a pause ended then, less than the patience with starts ago.
    `clock_set`: the clock was set less than a window of idleness ago, so that times that are over since may not be.
    `told_ends` is what owners were told of their containers' ends, oldest first, `kept_until` until when one in the
    trash was promised to be kept, both by container. For `steady_s` nobody set the clock in this boot, as far as was
    looked. `returns` is the chance of a container to work again within an hour if it is idle now, `frees` when an
    assignment without an end is expected to be over, both forecast; empty unless the policy uses forecasts.
    `shadows` says on which host cards are kept for one that waits and may go to several: the others keep none for it.
    """

    now: datetime
    records: Records
    seen: Observation
    policy: Policy
    unix_groups: dict[str, frozenset[str]] = field(default_factory=dict)
    verdicts: Mapping[Slot, IdleVerdict] = field(default_factory=dict)
    past: tuple[Assignment, ...] = ()
    shows: frozenset[str] = frozenset()
    watched: Mapping[str, datetime] = field(default_factory=dict)
    heard: Mapping[str, tuple[tuple[str, datetime], ...]] = field(default_factory=dict)
    clock_set: ClockSet | None = None
    resumed_at: datetime | None = None
    told_ends: Mapping[str, tuple[EndTold, ...]] = field(default_factory=dict)
    kept_until: Mapping[str, datetime] = field(default_factory=dict)
    steady_s: float = 0.0
    returns: Mapping[str, float] = field(default_factory=dict)
    frees: Mapping[str, datetime] = field(default_factory=dict)
    shadows: Mapping[str, str] = field(default_factory=dict)
