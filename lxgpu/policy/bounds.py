"""How much a person and their groups may have booked at each moment and ahead, and use over time. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from lxgpu.instants import show_instant
from lxgpu.model.assignment import Assignment, AssignmentState
from lxgpu.model.plan import Reason
from lxgpu.model.quota import Entitlement
from lxgpu.model.request import ReserveRequest
from lxgpu.model.reservation import Kind, Reservation
from lxgpu.model.snapshot import Snapshot
from lxgpu.policy.calendar import Skyline, Span, larger
from lxgpu.policy.fairness import owners, used_s
from lxgpu.policy.placement import fits
from lxgpu.units import format_duration

HOUR_S = 3600


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
    mine = [row for row in booked(snapshot, asked.but) if row.owner == person]
    in_class = [row for row in mine if row.class_name == asked.class_name]
    for start, until in _pieces(snapshot, asked):
        entitled = entitled_at(snapshot, person, start)
        when = show_instant(start, now=snapshot.now, zone=snapshot.policy.zone)
        had = _most(mine, start, until) + (kept := _other_models(snapshot, asked, start))
        if had + gpus > entitled.limit:
            text = f"{person} may have {entitled.limit} GPUs, has {had} from {when} on"
            text += f" ({kept} of another model)" if kept else ""
            yield Reason("over_limit", f"{text}, asks for {gpus} more")
        chosen = snapshot.policy.classes.get(asked.class_name)
        had = _most(in_class, start, until)
        if chosen is not None and chosen.max_gpus is not None and had + gpus > chosen.max_gpus:
            text = f"one person may have {chosen.max_gpus} GPUs in class {asked.class_name}, {had} are booked"
            yield Reason("over_class_limit", text)
        for name in entitled.groups:
            limit = snapshot.policy.group_total(name, start).limit
            if limit is None:
                continue
            had = -_group_line(snapshot, asked, name).free(start, until)
            if had + gpus > limit:
                text = (
                    f"group {name} may have {limit} GPUs together, has {had} from {when} on, {gpus} more are asked for"
                )
                yield Reason("over_group_limit", text)


def over_hours(snapshot: Snapshot, asked: Asked) -> Iterator[Reason]:
    """Where the person would have too much booked ahead, or use too much within the window of their allowance."""
    now, person, most = snapshot.now, asked.request.owner, snapshot.policy.rules.bookings.open_gpu_hours
    ahead = [_span(row) for row in booked(snapshot, asked.but) if row.owner == person]
    new = [Span(start, until, asked.request.gpus, "") for start, until in asked.times]
    wanted, had = (sum(_hours(span, now, None) for span in spans) for spans in (new, ahead))
    if had + wanted > most:
        text = f"one person may have {most} GPU-hours booked ahead, {had:g} are booked, {wanted:g} more are asked for"
        yield Reason("over_open_hours", text)
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


def booked(snapshot: Snapshot, but: frozenset[str]) -> list[Reservation]:
    """Every open booking with its times, those named left out."""
    return [
        row
        for row in snapshot.records.reservations
        if row.kind is Kind.BOOKING and row.open and row.start and row.until and row.id not in but
    ]


def entitled_at(snapshot: Snapshot, person: str, at: datetime) -> Entitlement:
    """What the policy gives a person at a moment."""
    groups = snapshot.policy.groups_of(person, snapshot.unix_groups.get(person, frozenset()))
    return snapshot.policy.entitlement(person, groups, at)


def _span(row: Reservation) -> Span:
    return Span(row.start or row.created_at, row.until, row.gpus, row.id)


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
    models = {gpu.uuid: gpu.model for gpu in snapshot.seen.gpus}
    models = {card.uuid: card.model for card in snapshot.records.cards} | models
    owner = owners(snapshot)
    return sum(
        owner[row.instance] == asked.request.owner
        and (row.until is None or row.until > at)
        and not fits(models.get(row.slot.gpu, asked.request.model.replace("*", "")), asked.request.model)
        for row in _leases(snapshot)
    )


def _leases(snapshot: Snapshot) -> Iterator[Assignment]:
    """Cards that somebody holds without an open booking."""
    bookings = {row.id for row in snapshot.records.reservations if row.kind is Kind.BOOKING}
    for row in snapshot.records.assignments:
        if row.live and row.state is not AssignmentState.QUARANTINED and row.reservation not in bookings:
            yield row


def _group_line(snapshot: Snapshot, asked: Asked, name: str) -> Skyline:
    """What a group has over time: of each member the larger of bookings and leases; of the person only bookings."""
    owner = owners(snapshot)
    bookings, leases = defaultdict[str, list[Span]](list), defaultdict[str, list[Span]](list)
    for row in booked(snapshot, asked.but):
        bookings[row.owner].append(_span(row))
    for held in _leases(snapshot):
        if owner[held.instance] != asked.request.owner:
            leases[owner[held.instance]].append(Span(snapshot.now, held.until, 1, held.id))
    people = [
        person
        for person in {*bookings, *leases}
        if name in snapshot.policy.groups_of(person, snapshot.unix_groups.get(person, frozenset()))
    ]
    return Skyline(0, (span for person in people for span in larger(bookings[person], leases[person])))
