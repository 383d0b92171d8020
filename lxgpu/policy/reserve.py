"""A request for a time: what it would come to, and the rows that write it down; pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from lxgpu.instants import show_instant
from lxgpu.model.cardnames import n_asked, n_cards
from lxgpu.model.plan import Plan, PlannedStep, Reason, Verdict
from lxgpu.model.request import ReserveRequest
from lxgpu.model.reservation import Kind, Reservation, ReservationState
from lxgpu.model.snapshot import Snapshot
from lxgpu.policy.admission import entitlement
from lxgpu.policy.booking import (
    admit_booking,
    admit_series,
    is_soft,
    need_at,
    next_room,
    occurrences,
    room_for_all,
    series_room,
    who_has,
)
from lxgpu.policy.calendar import pools
from lxgpu.policy.desk import Desk
from lxgpu.policy.pending import ahead_s
from lxgpu.policy.preemption import lead_s
from lxgpu.policy.stayers import left, who_stays
from lxgpu.policy.supplying import meet

_FULL = frozenset({"no_room", "no_capacity"})
"""Why another time may be better."""


@dataclass(frozen=True, slots=True)
class Decided:
    """The plan for people, and the rows to write when it is not refused."""

    plan: Plan
    rows: tuple[Reservation, ...] = ()


def decide_reserve(snapshot: Snapshot, request: ReserveRequest, *, identifier: str) -> Decided:
    """What a request comes to. A booking for a time is written or refused; one for now may wait in the queue.

    `identifier` is the id of the (first) reservation; those of a series have `-2`, `-3` … behind it.
    """
    if request.at is None or request.at <= snapshot.now:
        return _soon(snapshot, replace(request, at=None), identifier)
    return _booked(snapshot, request, request.at, identifier)


def _soon(snapshot: Snapshot, request: ReserveRequest, identifier: str) -> Decided:
    start = snapshot.now
    asked_until = start + timedelta(seconds=request.duration_s)
    reasons = admit_booking(snapshot, request, start=start, until=asked_until)
    if not reasons and not pools(snapshot, request.model):
        reasons = (_no_model(snapshot, request),)
    if reasons:
        return Decided(Plan(Verdict.REFUSED, tuple(reasons)))
    row = _row(snapshot, request, identifier, Kind.REQUEST, ReservationState.WAITING)
    desk = Desk(snapshot)
    desk.put(row)
    meet(desk)
    found = desk.reservations[identifier]
    if found.state is ReservationState.PREPARING:
        return Decided(_granted(desk, found), (row,))
    if request.no_warning:
        text = "no card can be taken for it now: the holders need not yield, and an admin's word changes no class"
        return Decided(Plan(Verdict.REFUSED, (Reason("no_capacity", text),)))
    why = Reason(
        "no_capacity",
        f"{n_asked(request.gpus, request.model)} cannot be had now; it waits in the queue and takes nothing yet",
    )
    return Decided(Plan(Verdict.WAITING, (why,)), (row,))


def _granted(desk: Desk, row: Reservation) -> Plan:
    """The steps by which a reservation that begins now gets its cards."""
    steps: list[PlannedStep] = []
    victims: dict[str, None] = {}
    ready = desk.now
    for promise in desk.planned(row.id):
        held = desk.holder(promise.slot)
        if held is None:
            continue
        due = held.due_at or desk.now
        wait = lead_s(desk.snapshot.policy, held.class_name)
        ready = max(ready, due + timedelta(seconds=wait))
        victims[held.instance] = None
        gpu = promise.slot.gpu
        steps.append(PlannedStep("warn", held.instance, gpu, desk.now, f"rule {held.outcome}, for {row.instance}"))
        steps.append(PlannedStep("release", held.instance, gpu, due, "grace is over: TERM, detach, KILL, fence"))
    steps.sort(key=lambda step: (step.at or desk.now, step.do != "warn"))
    until = ready + timedelta(seconds=row.duration_s)
    steps += _arrival(desk, row, at=ready, until=until)
    steps += [PlannedStep("return", name, None, until, "its claim: the cards come back") for name in victims]
    decision = Verdict.AFTER_PREEMPTION if victims else Verdict.GRANTED
    return Plan(
        decision=decision,
        steps=tuple(steps),
        slots=tuple(promise.slot for promise in desk.planned(row.id)),
        victims=tuple(victims),
        when=ready,
    )


def _arrival(desk: Desk, row: Reservation, *, at: datetime, until: datetime) -> list[PlannedStep]:
    cards = [promise.slot.gpu for promise in desk.planned(row.id)]
    steps = [PlannedStep("attach", row.instance, gpu, at, "proven free") for gpu in cards]
    steps.append(PlannedStep("start", row.instance, None, at, n_asked(row.gpus, row.pool)))
    steps.append(PlannedStep("finish", row.instance, None, until, "kept until somebody waits"))
    return steps


def _booked(snapshot: Snapshot, request: ReserveRequest, at: datetime, identifier: str) -> Decided:
    length = timedelta(seconds=request.duration_s)
    bookings = snapshot.policy.rules.bookings
    horizon = snapshot.now + timedelta(seconds=bookings.horizon_s)
    times: Sequence[tuple[datetime, datetime]] = ((at, at + length),)
    if request.weekly:
        times = occurrences(at, at + length, horizon, snapshot.policy.zone)
    reasons = list(admit_series(snapshot, request, times))
    if not pools(snapshot, request.model):
        reasons.append(_no_model(snapshot, request))
    if reasons:
        return Decided(Plan(Verdict.REFUSED, tuple(reasons)))
    refusals: list[Reason] = []
    for pool in pools(snapshot, request.model):
        why = list(room_for_all(snapshot, request, times, pool=pool))
        if not why:
            why = [item for start, until in times for item in no_place(snapshot, request, pool, start, until)]
        if not why:
            rows = _series(snapshot, request, pool, times, identifier)
            return Decided(scheduled(snapshot, rows), rows)
        refusals += why
    first = _fits(snapshot, request, at) if all(reason.code in _FULL for reason in refusals) else None
    if request.weekly:
        refusals[0] = replace(refusals[0], text=f"{refusals[0].text}; {_all_weeks(snapshot, first)}")
    return Decided(Plan(Verdict.REFUSED, tuple(refusals), when=first))


def _all_weeks(snapshot: Snapshot, first: datetime | None) -> str:
    """When a series would fit that did not."""
    if first is None:
        return "nothing tells of a time within a week from it at which all its weeks would fit"
    return f"all its weeks would fit from {show_instant(first, now=snapshot.now, zone=snapshot.policy.zone)}"


def _fits(snapshot: Snapshot, request: ReserveRequest, after: datetime) -> datetime | None:
    """When a booking that has no room at its time would have it first; in a whole minute, as people write times."""
    fit = series_room if request.weekly else next_room
    times = (
        fit(snapshot, request, pool=pool, after=after, duration_s=request.duration_s)
        for pool in pools(snapshot, request.model)
        if sum(gpu.model == pool for gpu in snapshot.seen.gpus) >= request.gpus
    )
    first = min((time for time in times if time is not None), default=None)
    return None if first is None else first + timedelta(seconds=-first.timestamp() % 60)


def no_place(
    snapshot: Snapshot,
    request: ReserveRequest,
    pool: str,
    start: datetime,
    until: datetime,
    *,
    but: frozenset[str] = frozenset(),
) -> tuple[Reason, ...]:
    """Why a pool that is not booked cannot hold a booking all the same: holders who need not yield by then.

    `but` are bookings that this one takes the place of (an edit).
    """
    need = need_at(snapshot, request, pool, start, until)
    free = left(snapshot, need, but=but).free(start, until)
    if free >= request.gpus:
        return ()
    text = f"{n_cards(request.gpus, pool)} asked for, {max(free, 0)} can be had {_when(snapshot, request, start)}"
    others = [who for who in (who_has(snapshot, pool, start, until, but), who_stays(snapshot, need)) if who]
    text += f": {', '.join(others)}" if others else ""
    if request.weekly:
        return (Reason("no_capacity", text),)
    seconds = (until - start).total_seconds()
    at = next_room(snapshot, request, pool=pool, after=start, duration_s=seconds, but=but)
    if at is None:
        return (Reason("no_capacity", f"{text}; nothing tells when it would fit"),)
    shown = show_instant(at, now=snapshot.now, zone=snapshot.policy.zone)
    return (Reason("no_capacity", f"{text}; it would fit from {shown}"),)


def _when(snapshot: Snapshot, request: ReserveRequest, start: datetime) -> str:
    return f"on {start.astimezone(snapshot.policy.zone):%Y-%m-%d}" if request.weekly else "then"


def _series(
    snapshot: Snapshot,
    request: ReserveRequest,
    pool: str,
    times: Sequence[tuple[datetime, datetime]],
    identifier: str,
) -> tuple[Reservation, ...]:
    first = _row(snapshot, request, identifier, Kind.BOOKING, ReservationState.SCHEDULED)
    series = identifier if request.weekly else ""
    return tuple(
        replace(
            first,
            id=identifier if number == 1 else f"{identifier}-{number}",
            pool=pool,
            host=snapshot.seen.host,
            start=start,
            until=until,
            series=series,
        )
        for number, (start, until) in enumerate(times, start=1)
    )


def scheduled(snapshot: Snapshot, rows: Sequence[Reservation]) -> Plan:
    """The steps of bookings ahead. Who will have to yield is not known before the time: cards are bound late."""
    steps: list[PlannedStep] = []
    bind = timedelta(seconds=ahead_s(snapshot.policy))
    for row in rows:
        start, until = row.start or snapshot.now, row.until or snapshot.now
        why = f"{n_cards(row.gpus, row.pool)}: free ones are bound, who must yield is warned in time"
        steps.append(PlannedStep("prepare", row.instance, None, max(snapshot.now, start - bind), why))
        steps.append(PlannedStep("attach", row.instance, None, start, n_asked(row.gpus, row.pool)))
        soft = f"; a booking in class {row.class_name} may be displaced" if row.soft else ""
        steps.append(PlannedStep("start", row.instance, None, start, f"{n_asked(row.gpus, row.pool)}{soft}"))
        steps.append(PlannedStep("finish", row.instance, None, until, "kept until somebody waits"))
    return Plan(Verdict.GRANTED, steps=tuple(steps), when=rows[0].start)


def _row(
    snapshot: Snapshot, request: ReserveRequest, identifier: str, kind: Kind, state: ReservationState
) -> Reservation:
    return Reservation(
        id=identifier,
        instance=request.instance,
        owner=request.owner,
        kind=kind,
        gpus=request.gpus,
        state=state,
        created_at=snapshot.now,
        duration_s=request.duration_s,
        class_name=_class(snapshot, request),
        model=request.model,
        host=snapshot.seen.host,
        note=request.note,
        soft=is_soft(snapshot.policy, _class(snapshot, request)),
        no_warning=request.no_warning,
    )


def _class(snapshot: Snapshot, request: ReserveRequest) -> str:
    return request.class_name or entitlement(snapshot, request.owner).class_name


def _no_model(snapshot: Snapshot, request: ReserveRequest) -> Reason:
    known = ", ".join(sorted({gpu.model for gpu in snapshot.seen.gpus})) or "none"
    return Reason("no_such_model", f"no card's model matches {request.model!r}; there are {known}")
