"""The desk on which a decision is worked out: a Snapshot that changes as things are decided, and the list of what was.

Deciding stays pure: nothing outside of the desk changes, and the same Snapshot gives the same list.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from lxgpu.model.assignment import Assignment, AssignmentState
from lxgpu.model.gpu import Slot
from lxgpu.model.reservation import Notice, Reservation
from lxgpu.model.snapshot import Row, Snapshot


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
    """What is to be written and begun, in order. `next_at`: when something is to be decided next, if nothing moves."""

    rows: tuple[Row, ...] = ()
    drops: tuple[Row, ...] = ()
    notes: tuple[Note, ...] = ()
    takings: tuple[Taking, ...] = ()
    givings: tuple[Giving, ...] = ()
    next_at: datetime | None = None

    @property
    def empty(self) -> bool:
        """Whether nothing is to be written."""
        return not (self.rows or self.drops or self.notes or self.takings or self.givings)


class Desk:
    """A working copy of a Snapshot. `snapshot` shows it as it is by now."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._first = snapshot
        self._shown: Snapshot | None = snapshot
        self.assignments = {row.id: row for row in snapshot.records.assignments}
        self.reservations = {row.id: row for row in snapshot.records.reservations}
        self._known = frozenset(self.assignments)
        self._changed: dict[tuple[type[Row], str], Row] = {}
        self._dropped: dict[str, Assignment] = {}
        self._notes: list[Note] = []
        self.takings: list[Taking] = []
        self.givings: list[Giving] = []
        self._next: list[datetime] = []

    @property
    def now(self) -> datetime:
        """The time of the decision."""
        return self._first.now

    @property
    def snapshot(self) -> Snapshot:
        """Everything as it is by now."""
        if self._shown is None:
            records = replace(
                self._first.records,
                assignments=tuple(self.assignments.values()),
                reservations=tuple(row for row in self.reservations.values() if row.open),
            )
            self._shown = replace(self._first, records=records)
        return self._shown

    def put(self, row: Assignment | Reservation | Notice) -> None:
        """A row as it is to be."""
        if isinstance(row, Assignment):
            self.assignments[row.id] = row
            self._dropped.pop(row.id, None)
        elif isinstance(row, Reservation):
            self.reservations[row.id] = row
        self._changed[type(row), row.id] = row
        self._shown = None

    def drop(self, row: Assignment) -> None:
        """A promise that is taken away."""
        self.assignments.pop(row.id, None)
        self._changed.pop((Assignment, row.id), None)
        if row.id in self._known:
            self._dropped[row.id] = row
        self._shown = None

    def note(self, kind: str, subject: str, *, rule: str = "", detail: Mapping[str, object] | None = None) -> None:
        """A line of history."""
        self._notes.append(Note(kind, subject, rule, detail or {}))

    def tell(self, kind: str, instance: str, *, about: str, facts: Mapping[str, object]) -> None:
        """Something that an instance's owner is to be told."""
        row = self._first.records.instance(instance)
        person = row.owner if row else instance
        new = self.new_id("n", kind, instance, about)
        self.put(Notice(new, kind, instance, person, self.now, about=about, facts=facts))

    def look_again(self, at: datetime | None) -> None:
        """An instant at which there will be something to decide."""
        if at is not None and at > self.now:
            self._next.append(at)

    def new_id(self, *parts: object) -> str:
        """An id that follows from what it is for and from this decision, so that deciding twice gives the same."""
        text = "\0".join(map(str, (*parts, self._first.records.version, self.now.isoformat())))
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def live(self, reservation: str) -> list[Assignment]:
        """The assignments that hold slots for a reservation, in the order of their slots."""
        return self._of(reservation, lambda row: row.live)

    def planned(self, reservation: str) -> list[Assignment]:
        """The slots promised to a reservation and not attached yet."""
        return self._of(reservation, lambda row: row.state is AssignmentState.PLANNED)

    def successor(self, slot: Slot) -> Assignment | None:
        """Whom a slot is promised to."""
        planned = (row for row in self.assignments.values() if row.state is AssignmentState.PLANNED)
        return next((row for row in planned if row.slot == slot), None)

    def holder(self, slot: Slot) -> Assignment | None:
        """Who holds a slot."""
        return next((row for row in self.assignments.values() if row.slot == slot and row.live), None)

    def agenda(self) -> Agenda:
        """All that was decided."""
        return Agenda(
            rows=tuple(self._changed.values()),
            drops=tuple(self._dropped.values()),
            notes=tuple(self._notes),
            takings=tuple(self.takings),
            givings=tuple(self.givings),
            next_at=min(self._next, default=None),
        )

    def _of(self, reservation: str, wanted: Callable[[Assignment], bool]) -> list[Assignment]:
        found = (row for row in self.assignments.values() if row.reservation == reservation and wanted(row))
        return sorted(found, key=lambda row: row.slot)
