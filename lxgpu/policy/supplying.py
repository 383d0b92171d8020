"""Those who wait get their cards promised: free ones at once, held ones after a warning; pure.

The order is: due bookings, requests within a guarantee, claims, the queue. A promise makes sure that what becomes free
goes to whom it was taken for, and to no passer-by.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import cache
from itertools import islice

from lxgpu.model.assignment import Assignment, AssignmentState
from lxgpu.model.changed import changed
from lxgpu.model.gpu import Slot
from lxgpu.model.request import Need
from lxgpu.model.reservation import Kind, Reservation, ReservationState
from lxgpu.policy import words
from lxgpu.policy.backfill import backfill
from lxgpu.policy.calendar import out_of_service
from lxgpu.policy.closing import last_start
from lxgpu.policy.desk import Desk
from lxgpu.policy.pending import ahead_s, need_of
from lxgpu.policy.placement import free_cards, matching
from lxgpu.policy.preemption import ASAP, soonest_warning
from lxgpu.policy.queue import Line
from lxgpu.policy.supply import Supply, longest_lead_s, no_room, supply
from lxgpu.policy.trimming import Grants
from lxgpu.policy.victims import Unit


def meet(desk: Desk, *, free_only: bool = False) -> None:
    """Every reservation that lacks cards and may have them now, in order; with `free_only` nobody has to yield."""
    turns, most = _turns(desk), _most(desk)
    failed: set[Hashable] = set()
    grants = Grants(desk)
    for row in turns:
        if grants.refused(row):
            continue
        need = need_of(desk, row)
        if need.gpus <= 0:
            if no_room(desk.snapshot, need, at=desk.now) is None:
                _prepare(desk, row, row.pool or need.pool)
            continue
        shape = _shape(desk, row, need)
        if shape in failed or need.gpus > most(need.pool) or not turns.allow(row) or not grants.allow(row, need):
            continue
        found = supply(desk.snapshot, need)
        if isinstance(found, Supply) and not (found.units and (free_only or _too_late(desk, row))):
            _promise_all(desk, row, found)
            grants.forget(row.owner)
            continue
        failed.add(shape)
        desk.look_again(soonest_warning(desk.snapshot, need))
        if _queued(row) and turns.passing is None:
            desk.first = row.id
            turns.block(_passing(desk, row, turns, grants), _provided(desk))


def _too_late(desk: Desk, row: Reservation) -> bool:
    """Whether a booking's start is given up now, unless what is free is enough."""
    limit = last_start(desk, row) if row.kind is Kind.BOOKING else None
    return limit is not None and limit <= desk.now


class _Turns:
    """Those whose turn can be now, one after the other; the end of the queue is put in order only if it gets so far."""

    def __init__(self, near: Iterable[Reservation], far: Iterator[Reservation]) -> None:
        self._near, self._far = deque(near), far
        self.passing: frozenset[str] | None = None
        """Who of the queue may begin all the same, once one in it could not; None: all in their turn."""

    def __iter__(self) -> Iterator[Reservation]:
        while self._near or self._ahead():
            yield self._near.popleft()

    def coming(self) -> list[Reservation]:
        """All that are still to come."""
        self._near.extend(self._far)
        return list(self._near)

    def block(self, passing: frozenset[str], provided: frozenset[str]) -> None:
        """Of the queue only `passing` may get cards from here on, and only `provided` may have enough already."""
        named = passing | provided
        rows = self.coming() if named else self._near
        self._near = deque(row for row in rows if not _queued(row) or row.id in named)
        self._far, self.passing = iter(()), passing

    def allow(self, row: Reservation) -> bool:
        """Whether one may get cards in its turn."""
        return self.passing is None or not _queued(row) or row.id in self.passing

    def _ahead(self) -> bool:
        self._near.extend(islice(self._far, 1))
        return bool(self._near)


def _queued(row: Reservation) -> bool:
    """A claim waits for its own card, and a booking has its time; neither stands behind the queue."""
    return row.kind is Kind.REQUEST and not row.no_warning


def _turns(desk: Desk) -> _Turns:
    """In the order of their claims; bookings that are not due are looked at then."""
    lead = timedelta(seconds=ahead_s(desk.given.policy))
    due = desk.mine((ReservationState.PREPARING,))
    for row in desk.mine((ReservationState.SCHEDULED,)):
        if row.start is not None:
            desk.look_again(row.start - lead)
            if row.start - lead <= desk.now:
                due.append(row)
    due.sort(key=lambda row: (row.start or row.created_at, row.created_at, row.id))
    claims = [row for row in desk.claims() if row.state is ReservationState.WAITING]
    claims.sort(key=lambda row: (row.created_at, row.id))
    line = Line(desk.snapshot, desk.lanes())
    return _Turns([*desk.ordered(), *due, *line.within, *claims], line.others())


def _most(desk: Desk) -> Callable[[str], int]:
    """How many cards of one model that fits a pattern are in service: who asks for more stands in nobody's way here."""

    @cache
    def most(pattern: str) -> int:
        unfit = out_of_service(desk.snapshot)
        there = Counter(gpu.model for gpu in desk.given.seen.gpus if gpu.uuid not in unfit)
        return max((there[model] for model in matching(there, pattern)), default=0)

    return most


def _shape(desk: Desk, row: Reservation, need: Need) -> Hashable:
    """All that it depends on whether a need can be met: what failed for one fails for its like from then on.

    A request may rest on its owner's guarantee and groups; a claim gets what is free or expired, whoever asks, but
    nothing of its own instance. What is begun has promises of its own, and a booking its time.
    """
    if row.state is not ReservationState.WAITING:
        return row.id
    here = any(desk.given.seen.gpu(held.slot.gpu) for held in desk.held_by(row.instance))
    who = (row.instance if here else "", "" if row.kind is Kind.RETURN else (row.owner, row.class_name))
    return (row.kind, need.gpus, need.pool, need.until, need.no_warning, who)


def _passing(desk: Desk, first: Reservation, turns: _Turns, grants: Grants) -> frozenset[str]:
    """Who of the queue may begin behind its first that cannot, with cards that it will not need (EASY backfill)."""
    if not free_cards(desk.snapshot):
        return frozenset()
    order = [first, *(row for row in turns.coming() if _queued(row))]
    here = desk.given.seen.host
    keep = desk.given.shadows.get(first.id, here) == here
    starts = [start.reservation for start in backfill(desk.snapshot, order, keep=keep).starts]
    if not all(grants.allow(row, need_of(desk, row)) for row in starts):
        order = [row for row in order if grants.allow(row, need_of(desk, row))]
        starts = [start.reservation for start in backfill(desk.snapshot, order, keep=keep).starts]
    return frozenset(row.id for row in starts)


def _provided(desk: Desk) -> frozenset[str]:
    """Requests of those who have cards here: they may have all that they ask for, and need no other."""
    holders = {row.instance for row in desk.here() if row.live}
    return frozenset(row.id for name in holders for row in desk.asked_by(name) if _queued(row))


def _promise_all(desk: Desk, row: Reservation, found: Supply) -> None:
    """Promise the free slots, and warn those who are to yield as soon as it is time to."""
    at_once = [unit for unit in found.units if _warning_at(desk, row, unit) <= desk.now]
    # The room that was asked about ends so late at most; a lease that ends meanwhile may make it later than one lead.
    row = _prepare(desk, row, found.pool, lead_s=longest_lead_s(desk.given.policy) if found.units else 0)
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
    made = changed(row, state=ReservationState.PREPARING, pool=pool, host=desk.given.seen.host)
    if row.kind is Kind.REQUEST:
        ends = desk.now + timedelta(seconds=lead_s + row.duration_s)
        made = changed(made, kind=Kind.BOOKING, start=desk.now, until=ends, told={**row.told, ASAP: True})
    elif row.kind is Kind.RETURN:
        made = changed(made, start=desk.now)
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
        desk.put(changed(item, state=AssignmentState.WARNED, due_at=due_at, outcome=unit.rule))
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
    """When the grace is over; what is to expire keeps its time until then, and what is booked that of its booking.

    An admin's word needs no grace; the unit's own has none then, and the minimum runtime stands.
    """
    if row.no_warning:
        return max(desk.now, unit.due)
    due = max(unit.due, desk.now + timedelta(seconds=unit.grace_s))
    if row.start is not None and not row.told.get(ASAP):
        due = max(due, row.start - timedelta(seconds=unit.after_s))
    booked = desk.reservations.get(held.reservation or "")
    if booked is not None and booked.open and booked.kind is Kind.BOOKING and not booked.soft and booked.until:
        due = max(due, booked.until)  # a lease that it rests on may last longer, and be idle
    return max(due, held.until) if unit.rule == "expired" and held.until else due


def _warning_at(desk: Desk, row: Reservation, unit: Unit) -> datetime:
    """When a unit's holder has to be warned so that a fixed start is kept; those without one begin now."""
    if row.start is None or row.kind is not Kind.BOOKING or row.told.get(ASAP):
        return desk.now
    return row.start - timedelta(seconds=unit.lead_s)
