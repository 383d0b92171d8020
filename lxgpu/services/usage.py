"""What became of the cards over a time: who held them, used them, waited and was refused; pure.

Hours of holding come from the assignments, hours of use from the samples; where nobody looked the use is not known.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from statistics import median

from lxgpu.model.assignment import Assignment
from lxgpu.model.operation import Event
from lxgpu.model.reservation import Kind, Reservation, ReservationState
from lxgpu.model.rules import IdleRules
from lxgpu.model.snapshot import Records
from lxgpu.model.usage import Sample
from lxgpu.services.cardhours import HOUR_US, Had, Piece, pieces
from lxgpu.services.oldnames import Names

USER, GROUP, GPU = "user", "group", "gpu"
TOTAL = "total"
WANT = frozenset({"booked", "no_capacity", "no_room", "not_free", "too_few_gpus"})
"""Refusals for want of cards; of all others it is a rule's doing."""
REFUSED, RENAMED = "refused", "renamed"
_MADE = frozenset({"adopted", "created"})
NAMING = (RENAMED, *sorted(_MADE))
"""Lines of history that say whose a container of the past was."""
BORROWED = ("borrow_stopped", "borrow_ending")
"""Lines of history that say for how long a borrower has worked."""
_HAD = frozenset({ReservationState.ACTIVE, ReservationState.FINISHED})
_BEGUN = _HAD | {ReservationState.MISSED}


@dataclass(frozen=True, slots=True)
class WasteView:
    """A container that held cards and did not use them."""

    instance: str
    idle_gpu_hours: float


@dataclass(frozen=True, slots=True)
class UsageView:
    """One user, group, card, time or wait (`by` says which), or all (`total`). What it cannot have is None there.

    Of the hours held, `unknown_gpu_hours` are those in which nobody looked; used, idle and unknown together are held,
    to the last digit. `bookings` are all of that time, those to come and those given up too. `missed` bookings are
    those that nobody came to, `failed` those that the host could not keep. Waits are of requests that began in that
    time; `waiting` still do, and `waited_gpu_hours` are those of both, times the cards that they waited for. Of the
    `refused`, `refused_full` were for want of cards and by no rule, and `refused_gpu_hours` is what these asked for,
    where they said for how long. `borrowed_gpu_hours` are those on cards that others left idle, which these hold and
    not they. `period_hours` is how much of the time asked for lies in a row's hour or day.
    """

    by: str
    name: str
    held_gpu_hours: float | None = None
    used_gpu_hours: float | None = None
    idle_gpu_hours: float | None = None
    unknown_gpu_hours: float | None = None
    bookings: int | None = None
    bookings_honoured: int | None = None
    bookings_missed: int | None = None
    bookings_failed: int | None = None
    waits: int | None = None
    wait_median_s: int | None = None
    wait_longest_s: int | None = None
    waiting: int | None = None
    waited_gpu_hours: float | None = None
    refused: int | None = None
    refused_full: int | None = None
    refused_gpu_hours: float | None = None
    period_hours: float | None = None
    wasted: tuple[WasteView, ...] = ()
    borrowed_gpu_hours: float | None = None


@dataclass(frozen=True, slots=True)
class Ground:
    """What a report is made of. `groups_of` gives a person's groups of the policy; `past` are closed assignments.

    Of `events`, newest first, the kinds `REFUSED`, `BORROWED` and `NAMING` count, the last from before the time too.
    """

    records: Records
    past: Sequence[Assignment]
    samples: Sequence[Sample]
    reservations: Sequence[Reservation]
    events: Sequence[Event]
    rules: IdleRules
    groups_of: Callable[[str], tuple[str, ...]]


@dataclass(slots=True)
class Count:
    """What is counted for a row; hours in microseconds, waits in seconds."""

    hours: dict[Had, int] = field(default_factory=lambda: dict.fromkeys(Had, 0))
    states: list[ReservationState] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    waiting: int = 0
    waited_s: float = 0.0
    refused: int = 0
    full: int = 0
    wanted_s: float = 0.0
    borrowed_s: float = 0.0
    waste: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def add(self, had: Had, gpu_us: int, instance: str = "") -> None:
        """Time of holding; that of a container without work is its waste."""
        self.hours[had] += gpu_us
        if had is Had.IDLE and instance:
            self.waste[instance] += gpu_us


class Tally:
    """One pass over everything of a time, counted by users, groups and cards at once."""

    def __init__(self, ground: Ground, *, since: datetime, now: datetime) -> None:
        self.total = Count()
        self.rows: dict[str, dict[str, Count]] = {by: defaultdict(Count) for by in (USER, GROUP, GPU)}
        self._ground, self._since, self._now = ground, since, now
        self._names = Names(ground.events)
        self._groups: dict[str, tuple[str, ...]] = {}
        self._owners = _owners(ground, self._names)
        held = (*ground.records.assignments, *ground.past)
        self.pieces = tuple(pieces(held, ground.samples, ground.rules, since=since, now=now, names=self._names))
        for piece in self.pieces:
            self._piece(piece)
        for wish in ground.reservations:
            self._wish(wish)
        for event in ground.events:
            self._event(event)

    def _people(self, instance: str) -> Iterator[Count]:
        """The rows that something of a container counts in, but for cards: its owner, their groups, and all."""
        person = self._owners.get(instance, instance)
        if person not in self._groups:
            self._groups[person] = self._ground.groups_of(person) or ("",)
        yield self.total
        yield self.rows[USER][person]
        yield from (self.rows[GROUP][name] for name in self._groups[person])

    def _piece(self, piece: Piece) -> None:
        for count in (*self._people(piece.instance), self.rows[GPU][piece.card]):
            count.add(piece.had, piece.gpu_us, piece.instance)

    def _wish(self, row: Reservation) -> None:
        """Bookings by how they ended, and how long a request waited for its cards, which made a booking of it."""
        booked = row.kind is Kind.BOOKING and (row.closed_at is None or row.closed_at >= self._since)
        soon = row.kind is Kind.REQUEST or row.asap
        begun = row.start is not None and row.start >= self._since and row.state in _BEGUN
        if not booked and not (soon and (row.pending or begun)):
            return
        waited_s = max(0.0, ((row.start if begun and row.start else self._now) - row.created_at).total_seconds())
        for count in self._people(self._names.now(row.instance, row.closed_at or self._now)):
            if booked:
                count.states.append(row.state)
            if soon and (row.pending or begun):
                count.waiting += row.pending
                count.waits += [] if row.pending else [waited_s]
                count.waited_s += waited_s * row.gpus

    def _event(self, event: Event) -> None:
        if event.at < self._since:
            return
        if event.kind in BORROWED:
            for count in self._people(self._names.now(event.subject, event.at)):
                count.borrowed_s += _number(event.detail.get("worked_s"))
        if event.kind != REFUSED:
            return
        full = event.rule in WANT
        for count in self._people(self._names.now(event.subject, event.at)):
            count.refused += 1
            count.full += full
            count.wanted_s += _wanted_s(event) if full else 0.0


def views(by: str, counts: Mapping[str, Count]) -> tuple[UsageView, ...]:
    """The rows of users, groups or cards, whoever held most first."""
    made = [view(by, name, count, of_people=by != GPU) for name, count in counts.items()]
    return tuple(sorted(made, key=lambda row: (-(row.held_gpu_hours or 0), row.name)))


def view(by: str, name: str, count: Count, *, of_people: bool) -> UsageView:
    """A row; its hours are rounded so that the parts are the whole."""
    held, idle = _cents(sum(count.hours.values())), _cents(count.hours[Had.IDLE])
    used = min(_cents(count.hours[Had.USED]), held - idle)
    waste = sorted(count.waste.items(), key=lambda one: (-one[1], one[0]))
    hours = UsageView(
        by=by,
        name=name,
        held_gpu_hours=held / 100,
        used_gpu_hours=used / 100,
        idle_gpu_hours=idle / 100,
        unknown_gpu_hours=(held - used - idle) / 100,
        wasted=tuple(WasteView(instance, _cents(gpu_us) / 100) for instance, gpu_us in waste if _cents(gpu_us)),
    )
    return _with_people(hours, count) if of_people else hours


def _cents(gpu_us: int) -> int:
    """Hundredths of an hour; more time is never fewer of them."""
    return round(100 * gpu_us / HOUR_US)


def _with_people(row: UsageView, count: Count) -> UsageView:
    return replace(
        row,
        bookings=len(count.states),
        bookings_honoured=sum(state in _HAD for state in count.states),
        bookings_missed=count.states.count(ReservationState.MISSED),
        bookings_failed=count.states.count(ReservationState.FAILED),
        waits=len(count.waits),
        wait_median_s=int(median(count.waits)) if count.waits else None,
        wait_longest_s=int(max(count.waits)) if count.waits else None,
        waiting=count.waiting,
        waited_gpu_hours=round(count.waited_s / 3600, 2),
        refused=count.refused,
        refused_full=count.full,
        refused_gpu_hours=round(count.wanted_s / 3600, 2),
        borrowed_gpu_hours=round(count.borrowed_s / 3600, 2),
    )


def _number(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0


def _wanted_s(event: Event) -> float:
    """What was asked for in vain: seconds times cards, as far as it was said."""
    gpus, seconds = event.detail.get("asked_gpus"), event.detail.get("asked_s")
    return float(gpus * seconds) if isinstance(gpus, int) and isinstance(seconds, int) else 0.0


def _owners(ground: Ground, names: Names) -> dict[str, str]:
    """Whose a container is or was, by its name of now; of a deleted one the history tells."""
    found: dict[str, str] = {}
    for event in reversed(ground.events):  # newest first as they come: the oldest is overruled
        owner = event.detail.get("owner") if event.kind in _MADE else None
        if isinstance(owner, str):
            found[names.now(event.subject, event.at)] = owner
    found |= {row.instance: row.owner for row in ground.reservations}
    return found | {row.name: row.owner for row in ground.records.instances}
