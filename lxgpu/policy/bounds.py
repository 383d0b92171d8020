"""How much a person and their groups may have booked at each moment and ahead, and use over time. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from lxgpu.figures import n_gpus
from lxgpu.instants import show_instant
from lxgpu.model.assignment import Assignment, AssignmentState
from lxgpu.model.layout import in_parts
from lxgpu.model.plan import Reason
from lxgpu.model.quota import Entitlement
from lxgpu.model.request import ReserveRequest
from lxgpu.model.reservation import Kind, Reservation
from lxgpu.model.snapshot import Snapshot
from lxgpu.policy.calendar import Skyline, Span, larger
from lxgpu.policy.fairness import used_s
from lxgpu.policy.lookup import (
    all_hosts,
    bookings_by_owner,
    by_instance,
    instances_by_owner,
    requests_by_owner,
    reservations_by_id,
)
from lxgpu.policy.placement import fits
from lxgpu.units import format_duration

HOUR_S = 3600
MOST_WAITING = 20
"""So many requests of one person are in the queue at a time: each look of the daemon weighs every one of them."""
MOST_BOOKINGS = 100
"""And so many bookings are ahead."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A booking that is asked for: its class, its times (several of a series), and the bookings that it replaces."""

    request: ReserveRequest
    class_name: str
    times: tuple[tuple[datetime, datetime], ...]
    but: frozenset[str]


def over_limits(snapshot: Snapshot, asked: Asked) -> Iterator[Reason]:
    """Where the cards booked at one moment are above the person's limit, the class's, or a group's.

    N is a total: cards that the person holds are taken over by the booking, so only those of other models count.
    """
    person, gpus = asked.request.owner, asked.request.gpus
    mine = booked(snapshot, person, asked.but)
    in_class = [row for row in mine if row.class_name == asked.class_name]
    for start, until in _pieces(snapshot, asked):
        entitled = entitled_at(snapshot, person, start)
        when = show_instant(start, now=snapshot.now, zone=snapshot.policy.zone)
        had = _most(mine, start, until) + (kept := _other_models(snapshot, asked, start))
        if had + gpus > entitled.limit:
            text = f"{person} may have {n_gpus(entitled.limit)}"
            text += f", has {had} from {when} on" if had else ""
            text += f" ({kept} of another model)" if kept else ""
            yield Reason("over_limit", f"{text}, asks for {gpus}" + (" more" if had else ""))
        chosen = snapshot.policy.classes.get(asked.class_name)
        had = _most(in_class, start, until)
        if chosen is not None and chosen.max_gpus is not None and had + gpus > chosen.max_gpus:
            text = f"one person may have {n_gpus(chosen.max_gpus)} in class {asked.class_name}, {had} are booked"
            yield Reason("over_class_limit", text)
        for name in entitled.groups:
            limit = snapshot.policy.group_total(name, start).limit
            if limit is None:
                continue
            had = -_group_line(snapshot, asked, name).free(start, until)
            if had + gpus > limit:
                text = f"group {name} may have {n_gpus(limit)} together"
                text += f", has {had} from {when} on, {gpus} more" if had else f", {gpus}"
                yield Reason("over_group_limit", f"{text} are asked for")


def over_parts(snapshot: Snapshot, asked: Asked) -> Iterator[Reason]:
    """Where a container would have two parts of cards at a time; see `admission`."""
    if not in_parts(asked.request.model):
        return
    if asked.request.gpus > 1:
        yield Reason("one_part", f"a container has one part of a card at a time, and not {asked.request.gpus}")
        return
    name, person, but = asked.request.instance, asked.request.owner, asked.but
    if any(in_parts(row.model) and row.instance == name for row in _waiting(snapshot, person, but)):
        yield Reason("one_part", f"{name} waits for a part of a card already, and no container has two")
    if asked.request.at is None and (own := _in_its_own_way(snapshot, asked.request)):
        yield Reason("one_part", f"{name} has {own}, and no container has another part of the same card")
        return
    mine = [row for row in booked(snapshot, person, but) if row.instance == name and in_parts(row.pool or row.model)]
    for start, until in asked.times:
        if _most(mine, start, until):
            text = f"{name} has a part of a card booked at that time, and no container has two"
            yield Reason("one_part", text)


def _in_its_own_way(snapshot: Snapshot, request: ReserveRequest) -> str:
    """The part that the container has, where that alone would keep it waiting: another kind, of each card there is."""
    held = {row.slot.gpu for row in by_instance(snapshot.records.assignments).get(request.instance, ())}
    parts = [gpu for gpu in snapshot.seen.gpus if gpu.uuid in held and gpu.divided]
    fitting = [gpu for gpu in snapshot.seen.gpus if fits(gpu.model, request.model)]
    if not fitting or not {gpu.card for gpu in fitting} <= {gpu.card for gpu in parts} or set(fitting) & set(parts):
        return ""
    return ", ".join(gpu.uuid for gpu in parts)


def over_hours(snapshot: Snapshot, asked: Asked) -> Iterator[Reason]:
    """Where the person would have too much booked ahead, or use too much within the window of their allowance.

    What waits in the queue counts as if it began now.
    """
    now, person, most = snapshot.now, asked.request.owner, snapshot.policy.rules.bookings.open_gpu_hours
    rows = [_span(row) for row in booked(snapshot, person, asked.but)]
    queued = [_if_now(row, now) for row in _waiting(snapshot, person, asked.but)]
    new = [Span(start, until, asked.request.gpus, "") for start, until in asked.times]
    wanted, had, waits = (sum(_hours(span, now, None) for span in spans) for spans in (new, rows, queued))
    if had + waits + wanted > most:
        text = f"one person may have {most} GPU-hours booked ahead, {had:g} are booked"
        text += f", {waits:g} wait in the queue" if waits else ""
        yield Reason("over_open_hours", f"{text}, {wanted:g} more are asked for")
    ahead = [*rows, *queued]
    allowance = entitled_at(snapshot, person, now).gpu_hours
    if allowance is None:
        return
    window = timedelta(seconds=allowance.window_s)
    for end in sorted({span.until for span in (*new, *ahead) if span.until is not None and span.until > now}):
        used = used_s(snapshot, person, end - window) / HOUR_S
        total = used + sum(_hours(span, max(now, end - window), end) for span in (*new, *ahead))
        if total > allowance.amount and any(_hours(span, max(now, end - window), end) for span in new):
            text = f"{person} may use {allowance.amount} GPU-hours in {format_duration(allowance.window_s)}"
            yield Reason("over_gpu_hours", f"{text}, has used {used:.3g}, and would come to {total:.3g} with this")
            return


def over_open(snapshot: Snapshot, asked: Asked) -> Iterator[Reason]:
    """Where the person would have too many requests in the queue, or too many bookings; a change adds none."""
    if asked.but:
        return
    person = asked.request.owner
    if asked.request.at is None:
        had = len(_waiting(snapshot, person, asked.but))
        if had >= MOST_WAITING:
            text = f"one person may have {MOST_WAITING} requests in the queue, {person} has {had}"
            yield Reason("over_open", text)
    elif (had := len(booked(snapshot, person, asked.but))) + len(asked.times) > MOST_BOOKINGS:
        text = f"one person may have {MOST_BOOKINGS} bookings ahead, {person} has {had}"
        yield Reason("over_open", f"{text}, {len(asked.times)} more are asked for")


def booked(snapshot: Snapshot, person: str, but: frozenset[str]) -> list[Reservation]:
    """A person's open bookings, those named left out."""
    rows = (row for one in all_hosts(snapshot.records) for row in bookings_by_owner(one.reservations).get(person, ()))
    return [row for row in rows if row.id not in but]


def _waiting(snapshot: Snapshot, person: str, but: frozenset[str]) -> list[Reservation]:
    rows = (row for one in all_hosts(snapshot.records) for row in requests_by_owner(one.reservations).get(person, ()))
    return [row for row in rows if row.id not in but]


def entitled_at(snapshot: Snapshot, person: str, at: datetime) -> Entitlement:
    """What the policy gives a person at a moment."""
    groups = snapshot.policy.groups_of(person, snapshot.unix_groups.get(person, frozenset()))
    return snapshot.policy.entitlement(person, groups, at)


def _span(row: Reservation) -> Span:
    return Span(row.start or row.created_at, row.until, row.gpus, row.id)


def _if_now(row: Reservation, now: datetime) -> Span:
    return Span(now, row.until_if_begun(now), row.gpus, row.id)


def _most(rows: list[Reservation], start: datetime, until: datetime) -> int:
    return -Skyline(0, map(_span, rows)).free(start, until)


def _hours(span: Span, start: datetime, until: datetime | None) -> float:
    """GPU-hours of a span within a time."""
    ends = [at for at in (span.until, until) if at is not None]
    seconds = (min(ends) - max(span.start, start)).total_seconds() if ends else 0.0
    return max(0.0, seconds) * span.gpus / HOUR_S


def _pieces(snapshot: Snapshot, asked: Asked) -> Iterator[tuple[datetime, datetime]]:
    """The times asked for, cut wherever an override begins or ends."""
    cuts = {at for override in snapshot.policy.overrides for at in (override.start, override.end)}
    for start, until in asked.times:
        moments = [start, *sorted(at for at in cuts if start < at < until), until]
        yield from pairwise(moments)


def _other_models(snapshot: Snapshot, asked: Asked, at: datetime) -> int:
    """Leases of the person that run then, of cards that the booking cannot take over."""
    return sum(
        (row.until is None or row.until > at) and not fits(model, asked.request.model)
        for row in _leases(snapshot, asked.request.owner)
        if (model := _model(snapshot, row.slot.gpu)) is not None
    )


def _model(snapshot: Snapshot, uuid: str) -> str | None:
    found = (one.card(uuid) for one in all_hosts(snapshot.records))
    known = snapshot.seen.gpu(uuid) or next(filter(None, found), None)
    return known.model if known else None


def _leases(snapshot: Snapshot, person: str) -> Iterator[Assignment]:
    """Cards that a person holds without an open booking."""
    for there in all_hosts(snapshot.records):
        known, held = reservations_by_id(there.reservations), by_instance(there.assignments)
        for instance in instances_by_owner(there.instances).get(person, ()):
            for row in held.get(instance.name, ()):
                booking = known.get(row.reservation or "")
                if row.state is not AssignmentState.QUARANTINED and (
                    booking is None or booking.kind is not Kind.BOOKING
                ):
                    yield row


def _group_line(snapshot: Snapshot, asked: Asked, name: str) -> Skyline:
    """What a group has over time: of each member the larger of bookings and leases; of the person only bookings."""
    policy = snapshot.policy
    there = all_hosts(snapshot.records)
    people = {one for rows in there for one in bookings_by_owner(rows.reservations)}
    people |= {one for rows in there for one in instances_by_owner(rows.instances)}
    spans: list[Span] = []
    for person in people:
        if name not in policy.groups_of(person, snapshot.unix_groups.get(person, frozenset())):
            continue
        mine = person == asked.request.owner
        held = [] if mine else [Span(snapshot.now, row.until, 1, row.id) for row in _leases(snapshot, person)]
        spans += larger([_span(row) for row in booked(snapshot, person, asked.but)], held)
    return Skyline(0, spans)
