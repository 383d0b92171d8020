"""A request for a time: what it would come to, and the rows that write it down; pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from lxgpu.figures import n_gpus
from lxgpu.model.plan import Plan, PlannedStep, Reason, Verdict
from lxgpu.model.request import Need, ReserveRequest
from lxgpu.model.reservation import Kind, Reservation, ReservationState
from lxgpu.model.snapshot import Snapshot
from lxgpu.policy.admission import entitlement
from lxgpu.policy.booking import admit_booking, admit_series, is_soft, next_room, occurrences, room_for_all
from lxgpu.policy.calendar import Skyline, pools, promises
from lxgpu.policy.desk import Desk
from lxgpu.policy.lookup import by_instance, promised_by_pool
from lxgpu.policy.pending import ahead_s
from lxgpu.policy.placement import obstacles
from lxgpu.policy.preemption import lead_s, units
from lxgpu.policy.supplying import meet


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
        "no_capacity", f"{n_gpus(request.gpus)} cannot be had now; it waits in the queue and takes nothing yet"
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
    steps.append(PlannedStep("start", row.instance, None, at, n_gpus(row.gpus)))
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
            why = [item for start, until in times for item in _no_place(snapshot, request, pool, start, until)]
        if not why:
            rows = _series(snapshot, request, pool, times, identifier)
            return Decided(scheduled(snapshot, rows), rows)
        refusals += why
    full = not request.weekly and all(reason.code == "no_room" for reason in refusals)
    return Decided(Plan(Verdict.REFUSED, tuple(refusals), when=_fits(snapshot, request, at) if full else None))


def _fits(snapshot: Snapshot, request: ReserveRequest, after: datetime) -> datetime | None:
    """When a booking that has no room at its time would have it first; in a whole minute, as people write times."""
    times = (
        next_room(snapshot, request, pool=pool, after=after, duration_s=request.duration_s)
        for pool in pools(snapshot, request.model)
        if sum(gpu.model == pool for gpu in snapshot.seen.gpus) >= request.gpus
    )
    first = min((time for time in times if time is not None), default=None)
    return None if first is None else first + timedelta(seconds=-first.timestamp() % 60)


def _no_place(
    snapshot: Snapshot, request: ReserveRequest, pool: str, start: datetime, until: datetime
) -> tuple[Reason, ...]:
    """Why a pool that is not booked cannot hold a booking all the same: holders who need not yield by then."""
    need = Need(request.instance, request.owner, request.gpus, _class(snapshot, request), start, until, pool)
    blocked = obstacles(snapshot.records, snapshot.seen)
    cards = {gpu.uuid for gpu in snapshot.seen.gpus if gpu.model == pool}
    own = {row.slot.gpu for row in by_instance(snapshot.records.assignments).get(request.instance, ())} & cards
    takeable = units(snapshot, replace(need, kind=Kind.BOOKING))
    # Who is idle now may work by then: a promise must not rest on that.
    can = {slot.gpu for unit in takeable if unit.rule != "idle" for slot in unit.slots} & cards
    there = {uuid for uuid in cards if uuid not in blocked or blocked[uuid].code == "promised"} | own | can
    bookings = promised_by_pool(snapshot.records.reservations).get((snapshot.seen.host, pool), ())
    running = frozenset(row.id for row in bookings if row.state is ReservationState.ACTIVE)
    spans = promises(snapshot, snapshot.seen.host, pool, but=running)
    free = Skyline(len(there), spans).free(start, until)
    if free >= request.gpus:
        return ()
    text = f"{n_gpus(request.gpus)} of {pool} asked for; {free} can be had then: the others' holders need not yield"
    return (Reason("no_capacity", text),)


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
        why = f"{n_gpus(row.gpus)} of {row.pool}: free ones are bound, who must yield is warned in time"
        steps.append(PlannedStep("prepare", row.instance, None, max(snapshot.now, start - bind), why))
        steps.append(PlannedStep("attach", row.instance, None, start, n_gpus(row.gpus)))
        soft = f"; a booking in class {row.class_name} may be displaced" if row.soft else ""
        steps.append(PlannedStep("start", row.instance, None, start, f"{n_gpus(row.gpus)}{soft}"))
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
