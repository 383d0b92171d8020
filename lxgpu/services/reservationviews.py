"""What `reservations` and others show: the fields of the JSON schema `lxgpu.reservations/v1`, no more; pure.

Unknown is None everywhere, never zero. Times are UTC.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from lxgpu.model.assignment import GIVING_WAY, Assignment, AssignmentState
from lxgpu.model.operation import Event
from lxgpu.model.reservation import Kind, Reservation, ReservationState
from lxgpu.model.snapshot import Records
from lxgpu.services.traces import claim_of, reservation_of, rule_of, slots_of


@dataclass(frozen=True, slots=True)
class DisplacedView:
    """Whose card went to a reservation, by which rule. `owed`: they have a claim to it; None: it is not taken yet."""

    instance: str
    uuid: str
    reason: str | None
    owed: bool | None


@dataclass(frozen=True, slots=True)
class ReservationView:
    """One reservation.

    `slots` are those it has or is promised. `start` and `end` are None until they are known. `position` (1 is next)
    and `estimate` (when it may begin, no promise) are of those that wait; `foreseen`: the estimate rests on a forecast.
    """

    id: str
    instance: str
    kind: str
    gpus: int
    model: str
    host: str | None
    start: datetime | None
    end: datetime | None
    state: str
    class_: str | None
    slots: tuple[str, ...] = ()
    displaced: tuple[DisplacedView, ...] = ()
    note: str | None = None
    position: int | None = None
    estimate: datetime | None = None
    foreseen: bool = False


@dataclass(frozen=True, slots=True)
class InLine:
    """Where a waiting reservation stands: its `position` in the line, when it may begin, and what it waits for.

    `foreseen`: the estimate rests on a forecast.
    """

    position: int | None = None
    estimate: datetime | None = None
    why: str = ""
    foreseen: bool = False


@dataclass(frozen=True, slots=True)
class Ledger:
    """Everything there is to show of reservations: the living rows, those to list, what was told of them."""

    records: Records
    rows: tuple[Reservation, ...]
    events: tuple[Event, ...] = ()
    line: Mapping[str, InLine] = field(default_factory=dict)


_ORDER = (
    ReservationState.ACTIVE,
    ReservationState.PREPARING,
    ReservationState.SCHEDULED,
    ReservationState.WAITING,
)
_LAST = len(_ORDER)


def reservation_views(ledger: Ledger) -> tuple[ReservationView, ...]:
    """All of them: the running ones first, then as they come, then as they wait; those that are over last."""
    index = _Index(ledger)
    views = [(row, _view(index, row)) for row in ledger.rows]

    def order(item: tuple[Reservation, ReservationView]) -> tuple[object, ...]:
        row, view = item
        rank = _ORDER.index(row.state) if row.state in _ORDER else _LAST
        late = row.closed_at or view.start or view.estimate or row.created_at
        back = -late.timestamp() if rank == _LAST else late.timestamp()
        return (rank, view.position or 0, back, view.id)

    return tuple(view for _, view in sorted(views, key=order))


def waiting_views(ledger: Ledger) -> tuple[ReservationView, ...]:
    """Those that wait, in the order of the line; where there is no order yet, the oldest first."""
    return tuple(view for view in reservation_views(ledger) if view.state == ReservationState.WAITING.value)


def view_of(ledger: Ledger, row: Reservation) -> ReservationView:
    """One of them."""
    return _view(_Index(ledger), row)


def bound(records: Records, row: Reservation) -> tuple[Assignment, ...]:
    """The slots that a reservation has or is promised."""
    return tuple(one for one in records.assignments if one.reservation == row.id and _counts(one))


class _Index:
    """A ledger by reservation, so that a long line costs no more for each one in it."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.open = frozenset(row.id for row in ledger.records.reservations)
        self.holders = {row.slot: row for row in ledger.records.assignments if row.live}
        self.bound: defaultdict[str, list[Assignment]] = defaultdict(list)
        self.claims: defaultdict[str, list[Reservation]] = defaultdict(list)
        self.displaced: defaultdict[str, list[Event]] = defaultdict(list)
        for one in ledger.records.assignments:
            if _counts(one):
                self.bound[one.reservation or ""].append(one)
        for claim in ledger.records.reservations:
            if claim.kind is Kind.RETURN:
                self.claims[claim.cause].append(claim)
        for event in ledger.events:
            if event.kind == "displaced":
                self.displaced[reservation_of(event)].append(event)


def _counts(row: Assignment) -> bool:
    return row.live or row.state is AssignmentState.PLANNED


def _view(index: _Index, row: Reservation) -> ReservationView:
    place = index.ledger.line.get(row.id, InLine())
    return ReservationView(
        id=row.id,
        instance=row.instance,
        kind=row.kind.value,
        gpus=row.gpus,
        model=row.pool or row.model,
        host=row.host or None,
        start=row.start,
        end=_end(row),
        state=row.state.value,
        class_=row.class_name or None,
        slots=tuple(sorted(str(one.slot) for one in index.bound.get(row.id, ()))),
        displaced=_displaced(index, row),
        note=row.note or None,
        position=place.position,
        estimate=place.estimate,
        foreseen=place.foreseen,
    )


def _end(row: Reservation) -> datetime | None:
    """When it ends; when it really ended, where it ended in the midst of its time."""
    begun = row.start is not None and row.closed_at is not None and row.closed_at > row.start
    return min(row.until, row.closed_at) if begun and row.until and row.closed_at else row.until


def _displaced(index: _Index, row: Reservation) -> tuple[DisplacedView, ...]:
    """Who gave way to a reservation, or is giving way now, a card each; nobody twice."""
    found: dict[tuple[str, str], DisplacedView] = {}
    for event in index.displaced.get(row.id, ()):
        owed = claim_of(event) in index.open
        for slot in slots_of(event):
            found[event.subject, slot.gpu] = DisplacedView(event.subject, slot.gpu, event.rule or None, owed)
    for claim in index.claims.get(row.id, ()):
        for slot in claim.preferred:
            found.setdefault((claim.instance, slot.gpu), DisplacedView(claim.instance, slot.gpu, None, owed=True))
    for promise in index.bound.get(row.id, ()):
        holder = index.holders.get(promise.slot)
        if promise.state is AssignmentState.PLANNED and holder is not None and holder.state in GIVING_WAY:
            rule = holder.outcome or rule_of(index.ledger.events, holder.instance, promise.slot, row.id)
            view = DisplacedView(holder.instance, promise.slot.gpu, rule, owed=None)
            found.setdefault((holder.instance, promise.slot.gpu), view)
    return tuple(found[key] for key in sorted(found))


def likely(when: str, *, foreseen: bool) -> str:
    """An estimate for people: `from 18:00 (an estimate, no promise)`."""
    return f"from {when} ({'a forecast' if foreseen else 'an estimate'}, no promise)"


def claims_of(records: Records, instance: str) -> tuple[Reservation, ...]:
    """The open claims of an instance to get cards back, oldest first."""
    mine = (row for row in records.reservations if row.kind is Kind.RETURN and row.instance == instance)
    return tuple(sorted(mine, key=lambda row: (row.created_at, row.id)))
