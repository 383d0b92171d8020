"""Those who wait get their cards promised: free ones at once, held ones after a warning; pure.

The order is: due bookings, requests within a guarantee, claims, the queue. A promise makes sure that what becomes free
goes to whom it was taken for, and to no passer-by.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from lxgpu.model.assignment import Assignment, AssignmentState
from lxgpu.model.gpu import Slot
from lxgpu.model.reservation import Kind, Reservation, ReservationState
from lxgpu.model.snapshot import Snapshot
from lxgpu.policy import words
from lxgpu.policy.backfill import backfill
from lxgpu.policy.desk import Desk
from lxgpu.policy.pending import ahead_s, need_of
from lxgpu.policy.preemption import ASAP
from lxgpu.policy.queue import in_order
from lxgpu.policy.supply import Supply, supply
from lxgpu.policy.victims import Unit


def meet(desk: Desk) -> None:
    """Every reservation that lacks cards and may have them now, in order."""
    failed: set[tuple[object, ...]] = set()
    waiting = _waiting(desk)
    line = _Line(desk.snapshot, waiting)
    for row in waiting:
        need = need_of(desk, row)
        if need.gpus <= 0:
            _prepare(desk, row, row.pool or need.pool)
            continue
        shape = (need.gpus, need.pool, need.class_name, need.owner, row.kind, need.until and need.until - need.at)
        if shape in failed or (line.blocked and row.kind is Kind.REQUEST and not line.lets_pass(row)):
            continue
        found = supply(desk.snapshot, need)
        if isinstance(found, Supply):
            _promise_all(desk, row, found)
            continue
        failed.add(shape)
        line.blocked |= row.kind is Kind.REQUEST


def _waiting(desk: Desk) -> list[Reservation]:
    """Those whose turn can be now, in the order of their claims; bookings that are not due are looked at then."""
    due: list[Reservation] = []
    others: list[Reservation] = []
    lead = timedelta(seconds=ahead_s(desk.snapshot))
    for row in desk.snapshot.records.reservations:
        if row.state is ReservationState.SCHEDULED and row.start is not None:
            desk.look_again(row.start - lead)
            if row.start - lead <= desk.now:
                due.append(row)
        elif row.state is ReservationState.PREPARING:
            due.append(row)
        elif row.state is ReservationState.WAITING:
            others.append(row)
    due.sort(key=lambda row: (row.start or row.created_at, row.created_at, row.id))
    return [*due, *in_order(desk.snapshot, others)]


class _Line:
    """Those behind a request that cannot begin: they pass only with free cards that it will not need (EASY backfill).

    A claim waits for its own card, and a booking has its time; neither stands behind the queue.
    """

    def __init__(self, snapshot: Snapshot, waiting: Sequence[Reservation]) -> None:
        self.blocked = False
        self._snapshot, self._waiting = snapshot, waiting
        self._passing: frozenset[str] | None = None

    def lets_pass(self, row: Reservation) -> bool:
        """Whether a request may begin now all the same."""
        if self._passing is None:
            order = [item for item in self._waiting if item.kind is Kind.REQUEST]
            self._passing = frozenset(start.reservation.id for start in backfill(self._snapshot, order).starts)
        return row.id in self._passing


def _promise_all(desk: Desk, row: Reservation, found: Supply) -> None:
    """Promise the free slots, and warn those who are to yield as soon as it is time to."""
    at_once = [unit for unit in found.units if _warning_at(desk, row, unit) <= desk.now]
    row = _prepare(desk, row, found.pool, lead_s=max((unit.lead_s for unit in found.units), default=0))
    for slot in found.free:
        promise(desk, row, slot)
    for unit in found.units:
        if unit in at_once:
            warn(desk, row, [slot for slot in found.taken if slot in unit.slots], unit)
        else:
            desk.look_again(_warning_at(desk, row, unit))


def _prepare(desk: Desk, row: Reservation, pool: str, *, lead_s: float = 0) -> Reservation:
    """A reservation whose cards are being got ready; what was to begin soon begins now, or so much later at most."""
    if row.state is ReservationState.PREPARING:
        return row
    made = replace(row, state=ReservationState.PREPARING, pool=pool, host=desk.snapshot.seen.host)
    if row.kind is Kind.REQUEST:
        ends = desk.now + timedelta(seconds=lead_s + row.duration_s)
        made = replace(made, kind=Kind.BOOKING, start=desk.now, until=ends, told={**row.told, ASAP: True})
    elif row.kind is Kind.RETURN:
        made = replace(made, start=desk.now)
    desk.put(made)
    desk.note("preparing", row.instance, rule=row.kind.value, detail={"reservation": row.id, "gpus": row.gpus})
    return made


def promise(desk: Desk, row: Reservation, slot: Slot) -> Assignment:
    """The slot goes to this reservation next."""
    made = Assignment(
        id=desk.new_id("a", row.id, slot),
        slot=slot,
        instance=row.instance,
        state=AssignmentState.PLANNED,
        created_at=desk.now,
        class_name=row.class_name,
        reservation=row.id,
    )
    desk.put(made)
    return made


def warn(desk: Desk, row: Reservation, slots: Sequence[Slot], unit: Unit) -> None:
    """The holder of some of a unit's slots is told, and has its grace; they are promised to who waits."""
    held = [item for slot in slots if (item := desk.holder(slot)) is not None]
    due_at = max(_due(desk, row, item, unit) for item in held)
    for item in held:
        desk.put(replace(item, state=AssignmentState.WARNED, due_at=due_at, outcome=unit.rule))
        promise(desk, row, item.slot)
    facts: dict[str, object] = {
        "gpus": [slot.gpu for slot in slots],
        "due_at": words.instant(due_at),
        "reservation": row.id,
        "for": row.instance,
        "why": unit.why,
        "numbers": dict(unit.numbers),
    }
    desk.note("warned", unit.instance, rule=unit.rule, detail=facts)
    told = {
        **words.loss(slots, row, unit.rule, work_on=max(unit.cards, len(unit.slots))),
        "due_at": words.instant(due_at),
        "how": words.HOW.get(unit.rule, ""),
        "back_at": None if unit.rule in words.FINAL else words.back_at(row),
    }
    desk.tell("warned", unit.instance, about=held[0].id, facts=told)
    desk.look_again(due_at)


def _due(desk: Desk, row: Reservation, held: Assignment, unit: Unit) -> datetime:
    """When the grace is over; what is to expire keeps its time until then. An admin's word needs no grace."""
    if row.no_warning:
        return desk.now
    due = max(unit.due, desk.now + timedelta(seconds=unit.grace_s))
    if row.start is not None and not row.told.get(ASAP):
        due = max(due, row.start - timedelta(seconds=unit.after_s))
    return max(due, held.until) if unit.rule == "expired" and held.until else due


def _warning_at(desk: Desk, row: Reservation, unit: Unit) -> datetime:
    """When a unit's holder has to be warned so that a fixed start is kept; those without one begin now."""
    if row.start is None or row.kind is not Kind.BOOKING or row.told.get(ASAP):
        return desk.now
    return row.start - timedelta(seconds=unit.lead_s)
