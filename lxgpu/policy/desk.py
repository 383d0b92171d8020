"""The desk on which a decision is worked out: a Snapshot that changes as things are decided, and the list of what was.

Deciding stays pure: nothing outside of the desk changes, and the same Snapshot gives the same list.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain, product
from operator import attrgetter

from lxgpu.model.assignment import Assignment, AssignmentState
from lxgpu.model.changed import changed
from lxgpu.model.gpu import Slot
from lxgpu.model.instance import Instance
from lxgpu.model.layout import names
from lxgpu.model.reservation import OPEN, Notice, Reservation, ReservationState
from lxgpu.model.snapshot import Row, Snapshot
from lxgpu.policy import lookup
from lxgpu.policy.tables import Working
from lxgpu.policy.tally import Moved, recount

_OF_ASSIGNMENTS = (lookup.by_card, lookup.by_instance, lookup.by_reservation, lookup.promised_to)
_OF_RESERVATIONS = (
    lookup.bookings_by_owner,
    lookup.claims_by_host,
    lookup.open_by_instance,
    lookup.open_by_place,
    lookup.ordered,
    lookup.preparing_by_instance,
    lookup.promised_by_pool,
    lookup.queued,
)


@dataclass(frozen=True, slots=True)
class Note:
    """A line of history to be written: what happened to whom, by which rule, with the numbers."""

    kind: str
    subject: str
    rule: str = ""
    detail: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Taking:
    """Slots to be released by an instance now. `outcome` is how their assignments will end, `rule` why."""

    instance: str
    slots: tuple[Slot, ...]
    rule: str
    outcome: str
    class_name: str = ""
    reservation: str = ""


@dataclass(frozen=True, slots=True)
class Giving:
    """Slots to be attached to an instance now, for a reservation; their assignments are `attaching`."""

    instance: str
    slots: tuple[Slot, ...]
    reservation: str


@dataclass(frozen=True, slots=True)
class Agenda:
    """What is to be written and begun, in order. `next_at`: when something is to be decided next, if nothing moves.

    `first` is the first in the queue that could not begin, if there is one.
    """

    rows: tuple[Row, ...] = ()
    drops: tuple[Row, ...] = ()
    notes: tuple[Note, ...] = ()
    takings: tuple[Taking, ...] = ()
    givings: tuple[Giving, ...] = ()
    next_at: datetime | None = None
    first: str = ""

    @property
    def empty(self) -> bool:
        """Whether nothing is to be written."""
        return not (self.rows or self.drops or self.notes or self.takings or self.givings)


class Desk:
    """A working copy of a Snapshot: `given` is as it was, `snapshot` as it is by now.

    Asking for `snapshot` after a change costs a copy of the table that changed; the other questions cost their answer.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self.given = self._shown = snapshot
        self._stale = False
        records = snapshot.records
        self._assignments = Working(records.assignments, lookup.assignments_by_id, _OF_ASSIGNMENTS)
        self._reservations = Working(
            records.reservations, lookup.reservations_by_id, _OF_RESERVATIONS, living=lambda row: row.state in OPEN
        )
        self._changed: dict[tuple[type[Row], str], Row] = {}
        self._dropped: dict[str, Assignment] = {}
        self._notes: list[Note] = []
        self.takings: list[Taking] = []
        self.givings: list[Giving] = []
        self.first = ""
        self._next: list[datetime] = []
        self._moved: list[Moved] = []
        self._here: tuple[Assignment, ...] | None = None
        remembered = lookup.cards_by_host(records.cards).get(snapshot.seen.host, ())
        here = {gpu.card for gpu in snapshot.seen.gpus}.union(card.uuid for card in remembered)
        parts = chain(*lookup.parts_by_instance(records.assignments).values())
        self._cards = {gpu.uuid for gpu in snapshot.seen.gpus}.union(
            *(names(card.uuid, card.layout) for card in remembered),
            (row.slot.gpu for row in parts if row.slot.card in here),  # of a card that is divided otherwise by now, too
        )

    @property
    def now(self) -> datetime:
        """The time of the decision."""
        return self.given.now

    @property
    def reservations(self) -> Mapping[str, Reservation]:
        """All reservations by id, those of other hosts and those that were closed here as well."""
        return self._reservations.rows

    @property
    def snapshot(self) -> Snapshot:
        """Everything as it is by now."""
        if self._stale:
            records = changed(
                self.given.records,
                assignments=self._assignments.shown(),
                reservations=self._reservations.shown(),
            )
            if self._moved:
                recount(self._shown.records, records, self._moved)
            self._shown, self._stale, self._moved = changed(self.given, records=records), False, []
        return self._shown

    def put(self, row: Assignment | Reservation | Notice) -> None:
        """A row as it is to be."""
        if isinstance(row, Assignment):
            self._moved.append((self._assignments.rows.get(row.id), row))
            self._here = None
            self._assignments.put(row)
            self._dropped.pop(row.id, None)
        elif isinstance(row, Reservation):
            self._reservations.put(row)
        self._changed[type(row), row.id] = row
        self._stale |= not isinstance(row, Notice)

    def drop(self, row: Assignment) -> None:
        """A promise that is taken away."""
        self._moved.append((self._assignments.rows.get(row.id), None))
        self._here = None
        self._assignments.drop(row.id)
        self._changed.pop((Assignment, row.id), None)
        if row.id in lookup.assignments_by_id(self.given.records.assignments):
            self._dropped[row.id] = row
        self._stale = True

    def note(self, kind: str, subject: str, *, rule: str = "", detail: Mapping[str, object] | None = None) -> None:
        """A line of history."""
        self._notes.append(Note(kind, subject, rule, detail or {}))

    def tell(self, kind: str, instance: str, *, about: str, facts: Mapping[str, object]) -> None:
        """Something that an instance's owner is to be told."""
        row = self.instance(instance)
        person = row.owner if row else instance
        new = self.new_id("n", kind, instance, about)
        self.put(Notice(new, kind, instance, person, self.now, about=about, facts=facts))

    def look_again(self, at: datetime | None) -> None:
        """An instant at which there will be something to decide."""
        if at is not None and at > self.now:
            self._next.append(at)

    def new_id(self, *parts: object) -> str:
        """An id that follows from what it is for and from this decision, so that deciding twice gives the same."""
        text = "\0".join(map(str, (*parts, self.given.records.version, self.now.isoformat())))
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def instance(self, name: str) -> Instance | None:
        """The instance of that name."""
        return lookup.instances_by_name(self.given.records.instances).get(name)

    def mine(self, states: Collection[ReservationState] = OPEN) -> list[Reservation]:
        """The open reservations to decide on here, by id: those of this host, and those that no host has taken."""
        found = list(self._open(states))
        if len(found) > 1:
            found.sort(key=attrgetter("id"))
        return found

    def lanes(self) -> dict[tuple[str, str], list[Reservation]]:
        """The requests that wait and may have cards of this host, by person and class, oldest first."""
        found: defaultdict[tuple[str, str], list[Reservation]] = defaultdict(list)
        for (host, owner, class_name), rows in self._reservations.found(lookup.queued).items():
            if host in {self.given.seen.host, ""}:
                found[owner, class_name] += rows
        for lane in found.values():
            lane.sort(key=attrgetter("created_at", "id"))
        return found

    def claims(self) -> list[Reservation]:
        """The open claims to decide on here, by id."""
        found = (self._reservations.of(lookup.claims_by_host, host) for host in (self.given.seen.host, ""))
        return sorted(chain(*found), key=attrgetter("id"))

    def ordered(self) -> list[Reservation]:
        """What admins ordered to be met without a warning and what waits for that, by id; it stands in no queue."""
        rows = chain(*(self._reservations.of(lookup.ordered, host) for host in (self.given.seen.host, "")))
        return sorted(rows, key=attrgetter("id"))

    def unmet(self) -> list[Reservation]:
        """The open reservations to decide on here whose containers are gone, or not meant to run, by id."""
        ready = lookup.ready_instances(self.given.records.instances)
        return sorted((row for row in self._open(OPEN) if row.instance not in ready), key=attrgetter("id"))

    def here(self) -> Sequence[Assignment]:
        """What is held and promised of this host's cards, by id."""
        if self._here is None:
            rows = chain(*(self._assignments.of(lookup.by_card, uuid) for uuid in self._cards))
            self._here = tuple(sorted(rows, key=attrgetter("id")))
        return self._here

    def live(self, reservation: str) -> list[Assignment]:
        """The assignments that hold slots for a reservation, in the order of their slots."""
        return self._of(reservation, live=True)

    def planned(self, reservation: str) -> list[Assignment]:
        """The slots promised to a reservation and not attached yet."""
        return self._of(reservation, live=False)

    def kept_for(self, reservation: str) -> Collection[Assignment]:
        """The assignments that hold slots for a reservation, or promise them to it, in no order."""
        return self._assignments.of(lookup.by_reservation, reservation)

    def held_by(self, instance: str) -> Collection[Assignment]:
        """The live assignments of an instance."""
        return self._assignments.of(lookup.by_instance, instance)

    def asked_by(self, instance: str) -> Collection[Reservation]:
        """The open reservations of an instance."""
        return self._reservations.of(lookup.open_by_instance, instance)

    def preparing(self, instance: str) -> Collection[Reservation]:
        """The bookings of an instance whose cards are being got ready here."""
        mine = self._reservations.of(lookup.preparing_by_instance, instance)
        return [row for row in mine if row.host in {"", self.given.seen.host}]

    def successor(self, slot: Slot) -> Assignment | None:
        """Whom a slot is promised to."""
        return next((row for row in self._on(slot) if row.state is AssignmentState.PLANNED), None)

    def holder(self, slot: Slot) -> Assignment | None:
        """Who holds a slot."""
        return next((row for row in self._on(slot) if row.live), None)

    def agenda(self) -> Agenda:
        """All that was decided."""
        return Agenda(
            rows=tuple(self._changed.values()),
            drops=tuple(self._dropped.values()),
            notes=tuple(self._notes),
            takings=tuple(self.takings),
            givings=tuple(self.givings),
            next_at=min(self._next, default=None),
            first=self.first,
        )

    def _open(self, states: Iterable[ReservationState]) -> Iterator[Reservation]:
        places = product((self.given.seen.host, ""), states)
        return chain.from_iterable(self._reservations.of(lookup.open_by_place, place) for place in places)

    def _on(self, slot: Slot) -> Iterator[Assignment]:
        return (row for row in self._assignments.of(lookup.by_card, slot.gpu) if row.slot == slot)

    def _of(self, reservation: str, *, live: bool) -> list[Assignment]:
        found = [row for row in self._assignments.of(lookup.by_reservation, reservation) if row.live is live]
        return sorted(found, key=lambda row: row.slot) if len(found) > 1 else found
