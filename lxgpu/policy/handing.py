"""Promised cards that are free go to whom they were promised, all at once; and what has arrived is begun; pure."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from lxgpu.model.assignment import ATTACHED, KEPT, AssignmentState
from lxgpu.model.reservation import Kind, Reservation, ReservationState
from lxgpu.policy import words
from lxgpu.policy.calendar import Skyline, capacity, promises
from lxgpu.policy.closing import busy
from lxgpu.policy.desk import Desk, Giving
from lxgpu.policy.noshow import outlasts
from lxgpu.policy.outlook import until_for_lease
from lxgpu.policy.pending import adoptable
from lxgpu.policy.placement import obstacles
from lxgpu.policy.preemption import ASAP

FAILED = "failed"
"""How an assignment ends whose card could not be attached."""
LONGEST_WAIT_S = 60


def hand_over(desk: Desk) -> None:
    """Every reservation whose cards are all free or there."""
    _lose_stuck(desk)
    ready = [row for row in desk.mine() if row.state is ReservationState.PREPARING]
    for row in sorted(ready, key=lambda item: (item.created_at, item.id)):
        if row.start is not None and row.start > desk.now:
            desk.look_again(row.start)
            continue
        _hand(desk, row)
        _begin(desk, desk.reservations[row.id])


def _lose_stuck(desk: Desk) -> None:
    """A promise of a card that is out of service now is void: another card is looked for."""
    promises = [row for row in desk.here() if row.state is AssignmentState.PLANNED]
    blocked = obstacles(desk.snapshot.records, desk.given.seen) if promises else {}
    for promise in promises:
        code = blocked[promise.slot.gpu].code if promise.slot.gpu in blocked else ""
        holder = desk.holder(promise.slot)
        stuck = holder is not None and holder.state is AssignmentState.QUARANTINED
        if stuck or code in {"closed", "quarantined", "sick", "foreign"}:
            desk.drop(promise)
            why = "quarantined" if stuck else code
            desk.note("promise_lost", promise.instance, rule=why, detail={"gpu": promise.slot.gpu})


def _hand(desk: Desk, row: Reservation) -> None:
    promises, mine = desk.planned(row.id), adoptable(desk, row)
    have = [item for item in desk.live(row.id) if item.state in KEPT]
    whole = len(promises) + len(mine) + len(have) >= row.gpus
    if not whole or busy(desk, row.instance) or any(desk.holder(item.slot) for item in promises):
        return
    if (again := _again_at(desk, row)) > desk.now:
        desk.look_again(again)
        return
    until = _until(desk, row)
    for item in mine:
        # What its owner had for longer than the booking stays theirs afterwards.
        longer = None if item.until is None else max(item.until, until)
        desk.put(replace(item, reservation=row.id, until=longer, class_name=row.class_name or item.class_name))
    for item in promises:
        desk.put(replace(item, state=AssignmentState.ATTACHING, since=desk.now, until=until))
    if promises:
        desk.givings.append(Giving(row.instance, tuple(item.slot for item in promises), row.id))


def _again_at(desk: Desk, row: Reservation) -> datetime:
    """When it may be tried again: each attach that failed doubles the wait, up to a minute."""
    failed = [item.closed_at for item in desk.given.past if item.reservation == row.id and item.outcome == FAILED]
    tries = len({at for at in failed if at is not None})
    last = max((at for at in failed if at is not None), default=desk.now)
    return last + timedelta(seconds=min(2**tries, LONGEST_WAIT_S)) if tries else desk.now


def _begin(desk: Desk, row: Reservation) -> None:
    """A reservation whose cards are all there begins; a claim is met with that."""
    there = [item for item in desk.live(row.id) if item.state in ATTACHED]
    if len(there) < row.gpus:
        return
    gpus = [item.slot.gpu for item in there]
    facts = {"reservation": row.id, "gpus": gpus, "kind": row.kind.value}
    if row.kind is Kind.RETURN:
        desk.put(replace(row, state=ReservationState.FINISHED, closed_at=desk.now, outcome="returned"))
        desk.note("returned", row.instance, rule="claim", detail={**facts, "cause": row.cause})
        until = words.instant(there[0].until)
        desk.tell("returned", row.instance, about=row.id, facts={"gpus": gpus, "until": until})
        return
    begun = replace(row, state=ReservationState.ACTIVE, kind=Kind.BOOKING)
    if row.told.get(ASAP):
        begun = replace(begun, start=desk.now, until=_whole_time(desk, row))
        for item in there:
            if not outlasts(item, row):
                desk.put(replace(item, until=begun.until))
    desk.put(begun)
    desk.note("started", row.instance, rule="booking", detail=facts)
    told = {"booking": row.id, "gpus": gpus, "until": words.instant(begun.until)}
    desk.tell("booking_ready", row.instance, about=row.id, facts=told)
    desk.look_again(begun.until)


def _whole_time(desk: Desk, row: Reservation) -> datetime:
    """When it ends that began as soon as it could: its whole time from now, as far as nobody has booked the cards.

    Only bookings count: who has a claim, or a lease that is over, waits until then.
    """
    whole = desk.now + timedelta(seconds=row.duration_s)
    spans = promises(desk.snapshot, desk.given.seen.host, row.pool, but=frozenset({row.id}))
    booked = Skyline(capacity(desk.snapshot, row.pool), spans).lasting(row.gpus, desk.now)
    return whole if booked is None else min(whole, max(booked, row.until or booked))


def _until(desk: Desk, row: Reservation) -> datetime:
    """When what is handed over ends. What comes back ends when it would have, and where others have booked it."""
    if row.until is not None and row.kind is not Kind.RETURN:
        return row.until
    until = row.until or desk.now + timedelta(seconds=row.duration_s)
    but = frozenset({row.id, *(item.id for item in desk.planned(row.id))})
    return until_for_lease(desk.snapshot, row.pool, row.instance, until, gpus=row.gpus, but=but)
