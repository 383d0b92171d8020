"""Promised cards that are free go to whom they were promised, all at once; and what has arrived is begun; pure."""

from __future__ import annotations

from datetime import datetime, timedelta

from lxgpu.model.assignment import ATTACHED, KEPT, AssignmentState
from lxgpu.model.changed import changed
from lxgpu.model.gpu import is_part
from lxgpu.model.reservation import ASAP, Kind, Reservation, ReservationState
from lxgpu.policy import words
from lxgpu.policy.calendar import Skyline, capacity, promises
from lxgpu.policy.closing import busy
from lxgpu.policy.desk import Desk, Giving
from lxgpu.policy.lookup import failed_by_reservation
from lxgpu.policy.noshow import outlasts
from lxgpu.policy.outlook import until_for_lease
from lxgpu.policy.pending import adoptable
from lxgpu.policy.placement import unlendable

LONGEST_WAIT_S = 60


def hand_over(desk: Desk) -> None:
    """Every reservation whose cards are all free or there."""
    _lose_stuck(desk)
    ready = desk.mine((ReservationState.PREPARING,))
    for row in sorted(ready, key=lambda item: (item.created_at, item.id)):
        if _may_begin(desk, row):
            _hand(desk, desk.reservations[row.id])
            _begin(desk, desk.reservations[row.id])
        else:
            desk.look_again(row.start)


def _may_begin(desk: Desk, row: Reservation) -> bool:
    """Whether the time of what is got ready has come."""
    if row.start is None or row.start <= desk.now or row.kind is Kind.RETURN:
        return True
    return row.asap and _ready(desk, row) and _begins_sooner(desk, row)


def _begins_sooner(desk: Desk, row: Reservation) -> bool:
    """What was to begin at once does not wait for a clock that was set back: now is its time, if nobody booked that.

    Where others did it is in the queue again; what it has already is its own until they come.
    """
    ends, line = desk.now + timedelta(seconds=row.duration_s), _unbooked(desk, row)
    if line.free(desk.now, ends) < row.gpus:
        if not desk.live(row.id):
            _wait_again(desk, row)
            return False
        ends = line.lasting(row.gpus, desk.now) or ends
    desk.put(changed(row, start=desk.now, until=ends))
    return True


def _wait_again(desk: Desk, row: Reservation) -> None:
    for item in desk.planned(row.id):
        desk.drop(item)
    told = {name: value for name, value in row.told.items() if name != ASAP}
    line = changed(row, kind=Kind.REQUEST, state=ReservationState.WAITING, start=None, until=None, pool="", told=told)
    desk.put(line)
    why = "others have booked its time since the clock was set"
    desk.note("waiting", row.instance, rule="clock_set", detail={"reservation": row.id, "why": why})


def _ready(desk: Desk, row: Reservation) -> bool:
    """Whether it has or is promised all its cards, and nobody holds those."""
    promises, mine = desk.planned(row.id), adoptable(desk, row)
    have = [item for item in desk.live(row.id) if item.state in KEPT]
    whole = len(promises) + len(mine) + len(have) >= row.gpus
    return whole and not any(desk.holder(item.slot) for item in promises)


def _lose_stuck(desk: Desk) -> None:
    """A promise of a card that is out of service now is void: another card is looked for."""
    promises = [row for row in desk.here() if row.state is AssignmentState.PLANNED]
    if not promises:
        return
    unfit = unlendable(desk.snapshot.records, desk.given.seen)
    held = {row.slot.gpu for row in desk.here() if row.live}
    for promise in promises:
        gpu, holder = promise.slot.gpu, desk.holder(promise.slot)
        stuck = holder is not None and holder.state is AssignmentState.QUARANTINED
        twice = is_part(gpu) and any(row.slot.card == promise.slot.card for row in desk.held_by(promise.instance))
        if stuck or twice or (gpu in unfit and gpu not in held):
            desk.drop(promise)
            why = "quarantined" if stuck else "one_part" if twice else unfit[gpu].code
            desk.note("promise_lost", promise.instance, rule=why, detail={"gpu": gpu})


def _hand(desk: Desk, row: Reservation) -> None:
    if busy(desk, row.instance) or not _ready(desk, row):
        return
    if (again := _again_at(desk, row)) > desk.now:
        desk.look_again(again)
        return
    promises, until = desk.planned(row.id), _until(desk, row)
    for item in adoptable(desk, row):
        # What its owner had for longer than the booking stays theirs afterwards.
        longer = None if item.until is None else max(item.until, until)
        desk.put(changed(item, reservation=row.id, until=longer, class_name=row.class_name or item.class_name))
    for item in promises:
        desk.put(changed(item, state=AssignmentState.ATTACHING, since=desk.now, until=until))
    if promises:
        desk.givings.append(Giving(row.instance, tuple(item.slot for item in promises), row.id))


def _again_at(desk: Desk, row: Reservation) -> datetime:
    """When it may be tried again: each attach that failed doubles the wait, up to a minute."""
    ends = {item.closed_at for item in failed_by_reservation(desk.given.past).get(row.id, ())}
    failed = [at for at in ends if at is not None and at <= desk.now]  # a clock that was set back makes nobody wait
    return max(failed) + timedelta(seconds=min(2 ** len(failed), LONGEST_WAIT_S)) if failed else desk.now


def _begin(desk: Desk, row: Reservation) -> None:
    """A reservation whose cards are all there begins; a claim is met with that."""
    there = [item for item in desk.live(row.id) if item.state in ATTACHED]
    if len(there) < row.gpus:
        return
    gpus = [item.slot.gpu for item in there]
    facts = {"reservation": row.id, "gpus": gpus, "kind": row.kind.value}
    if row.kind is Kind.RETURN:
        desk.put(changed(row, state=ReservationState.FINISHED, closed_at=desk.now, outcome="returned"))
        desk.note("returned", row.instance, rule="claim", detail={**facts, "cause": row.cause})
        until = words.instant(there[0].until)
        desk.tell("returned", row.instance, about=row.id, facts={"gpus": gpus, "until": until})
        return
    begun = changed(row, state=ReservationState.ACTIVE, kind=Kind.BOOKING)
    if row.asap:
        begun = changed(begun, start=desk.now, until=_whole_time(desk, row))
        for item in there:
            if not outlasts(item, row):
                desk.put(changed(item, until=begun.until))
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
    booked = _unbooked(desk, row).lasting(row.gpus, desk.now)
    return whole if booked is None else min(whole, max(booked, row.until or booked))


def _unbooked(desk: Desk, row: Reservation) -> Skyline:
    """What others have not booked of the model that a reservation counts on."""
    spans = promises(desk.snapshot, desk.given.seen.host, row.pool, but=frozenset({row.id}))
    return Skyline(capacity(desk.snapshot, row.pool), spans)


def _until(desk: Desk, row: Reservation) -> datetime:
    """When what is handed over ends. What comes back ends when it would have, and where others have booked it."""
    if row.until is not None and row.kind is not Kind.RETURN:
        return row.until
    until = row.until or desk.now + timedelta(seconds=row.duration_s)
    but = frozenset({row.id, *(item.id for item in desk.planned(row.id))})
    return until_for_lease(desk.snapshot, row.pool, row.instance, until, gpus=row.gpus, but=but)
