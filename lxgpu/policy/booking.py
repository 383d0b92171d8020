"""May it be booked: every refusal at once, whether the calendar has room, and the times of a weekly series. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta, tzinfo

from lxgpu.errors import LxgpuError
from lxgpu.figures import n_gpus
from lxgpu.instants import at_wall, show_instant
from lxgpu.model.cardnames import n_cards
from lxgpu.model.plan import Reason
from lxgpu.model.quota import Policy
from lxgpu.model.request import Need, ReserveRequest
from lxgpu.model.reservation import Kind
from lxgpu.model.snapshot import Snapshot
from lxgpu.policy.admission import entitlement
from lxgpu.policy.bounds import Asked, over_hours, over_limits, over_open, over_parts
from lxgpu.policy.calendar import Skyline, Span, capacity, promises, why_out
from lxgpu.policy.freewindow import into_guarantees
from lxgpu.policy.lookup import promised_by_pool, reservations_by_id
from lxgpu.policy.stayers import MOST_TRIES, first_left
from lxgpu.units import format_duration, short_duration

JUST_NOW_S = 60
"""A start so little ago is taken for now: the command took its time."""

Times = tuple[datetime, datetime]


def admit_booking(
    snapshot: Snapshot,
    request: ReserveRequest,
    *,
    start: datetime,
    until: datetime,
    but: frozenset[str] = frozenset(),
) -> tuple[Reason, ...]:
    """Why the policy refuses a booking; empty when it does not. Whether there is room is `room`'s to say.

    `but` are bookings that this one takes the place of (an edit); one that has begun keeps its start.
    Codes: `person_ended`, `unknown_class`, `class_not_allowed`, `booking_too_large`, `booking_too_long`,
    `beyond_horizon`, `in_the_past`, `over_limit`, `over_class_limit`, `over_group_limit`, `over_open_hours`,
    `over_gpu_hours`, `over_open`, `one_part`, `guaranteed_to_others`.
    """
    return _admit(snapshot, request, ((start, until),), but)


def admit_series(
    snapshot: Snapshot, request: ReserveRequest, times: Sequence[Times], but: frozenset[str] = frozenset()
) -> tuple[Reason, ...]:
    """As `admit_booking`, for all times of a series at once: they add up to what is booked ahead and used."""
    return _admit(snapshot, request, times, but)


def room_for_all(
    snapshot: Snapshot,
    request: ReserveRequest,
    times: Sequence[Times],
    *,
    pool: str,
    but: frozenset[str] = frozenset(),
) -> tuple[Reason, ...]:
    """As `room`, for all times of a series: without room for one of them it is refused whole, with the dates."""
    found = {
        start: reasons
        for start, until in times
        if (reasons := room(snapshot, request, pool=pool, start=start, until=until, but=but))
    }
    if len(times) == 1 or any(reason.code != "no_room" for reasons in found.values() for reason in reasons):
        return next(iter(found.values()), ())
    if not found:
        return ()
    dates = (
        f"{start.astimezone(snapshot.policy.zone):%Y-%m-%d} ({who_has(snapshot, pool, start, until, but)})"
        for start, until in times
        if start in found
    )
    text = f"{len(found)} of {len(times)} weeks have no room for {_cards(request.gpus, pool)}: {', '.join(dates)}"
    return (Reason("no_room", text),)


def room(
    snapshot: Snapshot,
    request: ReserveRequest,
    *,
    pool: str,
    start: datetime,
    until: datetime,
    but: frozenset[str] = frozenset(),
) -> tuple[Reason, ...]:
    """Whether the calendar of one model has room: nothing, or who has the time and when it would fit.

    Codes: `too_few_gpus` (the host has not so many at all), `no_room`.
    """
    there = sum(gpu.model == pool for gpu in snapshot.seen.gpus)
    if there < request.gpus:
        return (
            Reason("too_few_gpus", f"{snapshot.seen.host} has {_cards(there, pool)}, {request.gpus} are asked for"),
        )
    line = _line(snapshot, request, pool, but)
    start = max(start, snapshot.now)
    free = line.free(start, until)
    if free >= request.gpus:
        return ()
    text = f"{_cards(request.gpus, pool)} asked for, {max(free, 0)} of {line.capacity} have that time free"
    if out := why_out(snapshot, pool):
        text += f" ({out})"
    if who := who_has(snapshot, pool, start, until, but):
        text += f": {who}"
    at = next_room(snapshot, request, pool=pool, after=start, duration_s=(until - start).total_seconds(), but=but)
    if at is None:
        ahead = format_duration(snapshot.policy.rules.bookings.horizon_s)
        return (Reason("no_room", f"{text}; there is no other time within {ahead}"),)
    return (Reason("no_room", f"{text}; it would fit from {_show(snapshot, at)}"),)


def next_room(
    snapshot: Snapshot,
    request: ReserveRequest,
    *,
    pool: str,
    after: datetime,
    duration_s: float,
    but: frozenset[str] = frozenset(),
) -> datetime | None:
    """The first start, not before `after`, for which there is room within the horizon; None: nothing tells of one.

    The calendar has room then, and enough of those who hold cards are gone or have to yield.
    """
    need = need_at(snapshot, request, pool, after, after + timedelta(seconds=duration_s))
    return first_left(snapshot, need, but=but, room=_line(snapshot, request, pool, but))


def series_room(
    snapshot: Snapshot, request: ReserveRequest, *, pool: str, after: datetime, duration_s: float
) -> datetime | None:
    """The first start within a week from `after` at which all weeks of a series have room; None: there is none."""
    length = timedelta(seconds=duration_s)
    horizon = snapshot.now + timedelta(seconds=snapshot.policy.rules.bookings.horizon_s)
    at = after
    for _ in range(MOST_TRIES):
        try:
            times = occurrences(at, at + length, horizon, snapshot.policy.zone)
        except LxgpuError:  # one of its weeks has no such time
            return None
        found = [next_room(snapshot, request, pool=pool, after=start, duration_s=duration_s) for start, _ in times]
        late = [first - start for first, (start, _) in zip(found, times, strict=True) if first is not None]
        if len(late) < len(found):
            return None
        if not any(late):
            return at
        at += max(late)
        if at >= after + timedelta(weeks=1):
            return None
    return None


def need_at(snapshot: Snapshot, request: ReserveRequest, pool: str, start: datetime, until: datetime) -> Need:
    """What a booking of that time asks of those who hold cards of the model."""
    name = class_of(snapshot, request)
    return Need(request.instance, request.owner, request.gpus, name, start, until, pool, kind=Kind.BOOKING)


def occurrences(start: datetime, until: datetime, horizon: datetime, zone: tzinfo) -> tuple[Times, ...]:
    """The times of a weekly series: the same wall-clock times in the lab's zone, as far as they end by `horizon`.

    Raises:
        LxgpuError: `bad_time`: in one of the weeks such a time does not exist, or exists twice; it names the date.
    """
    first, last = (at.astimezone(zone).replace(tzinfo=None, fold=0) for at in (start, until))
    found = [(start, until)]
    while True:
        week = timedelta(weeks=len(found))
        if (last + week).replace(tzinfo=zone) > horizon + timedelta(days=1):
            return tuple(found)
        begins, ends = at_wall(first + week, zone), at_wall(last + week, zone)
        if ends > horizon:
            return tuple(found)
        if begins < found[-1][1]:
            raise LxgpuError(
                "bad_time",
                "a weekly booking meets itself: it is longer than a week",
                fix="give it less than a week, or leave --weekly out",
                why=f"the one of {begins.astimezone(zone):%Y-%m-%d %H:%M} would begin before the last one ends",
            )
        found.append((begins, ends))


def is_soft(policy: Policy, class_name: str) -> bool:
    """Whether bookings of a class may be displaced: a preemptible class below the one that people have by default."""
    chosen = policy.classes.get(class_name)
    usual = policy.classes.get(policy.defaults.class_name or "normal")
    return chosen is not None and chosen.preemptible and usual is not None and chosen.priority < usual.priority


def class_of(snapshot: Snapshot, request: ReserveRequest) -> str:
    """The class that a booking is made in: the one asked for, else its owner's own."""
    return request.class_name or entitlement(snapshot, request.owner).class_name


def _admit(
    snapshot: Snapshot, request: ReserveRequest, times: Sequence[Times], but: frozenset[str]
) -> tuple[Reason, ...]:
    name = class_of(snapshot, request)
    recent = snapshot.now - timedelta(seconds=JUST_NOW_S)
    clamped = tuple((max(start, snapshot.now) if start >= recent else start, until) for start, until in times)
    asked = Asked(request, name, clamped, but)
    reasons = [
        *_who_and_class(snapshot, asked),
        *(reason for start, until in clamped for reason in _when(snapshot, request, start, until, but)),
        *over_limits(snapshot, asked),
        *over_parts(snapshot, asked),
        *over_hours(snapshot, asked),
        *over_open(snapshot, asked),
    ]
    if not is_soft(snapshot.policy, name):
        reasons += into_guarantees(snapshot, asked)
    first = {reason.code: reason for reason in reversed(reasons)}
    return tuple(reason for reason in reasons if first[reason.code] is reason)


def _who_and_class(snapshot: Snapshot, asked: Asked) -> Iterator[Reason]:
    policy, person, last = snapshot.policy, asked.request.owner, asked.times[-1][1]
    unix_groups = snapshot.unix_groups.get(person, frozenset())
    ends = entitlement(snapshot, person).until
    if ends is not None and ends < last:
        verb = "ended" if ends <= snapshot.now else "ends"
        yield Reason("person_ended", f"{person}'s time {verb} on {ends.astimezone(policy.zone):%Y-%m-%d}")
    if asked.class_name not in policy.classes:
        known = ", ".join(sorted(policy.classes))
        yield Reason("unknown_class", f"there is no class {asked.class_name!r}; the policy has {known}")
    elif not policy.may_use(asked.class_name, person, unix_groups, snapshot.now):
        yield Reason("class_not_allowed", f"{person} may not use class {asked.class_name}")


def _when(
    snapshot: Snapshot, request: ReserveRequest, start: datetime, until: datetime, but: frozenset[str]
) -> Iterator[Reason]:
    rules, now = snapshot.policy.rules.bookings, snapshot.now
    if request.gpus > rules.max_gpus:
        text = f"one booking may have {n_gpus(rules.max_gpus)}, {request.gpus} are asked for"
        yield Reason("booking_too_large", text)
    if (until - start).total_seconds() > rules.longest_s:
        length = format_duration(int((until - start).total_seconds()))
        yield Reason("booking_too_long", f"one booking may last {format_duration(rules.longest_s)}, not {length}")
    if until > now + timedelta(seconds=rules.horizon_s):
        last = _show(snapshot, now + timedelta(seconds=rules.horizon_s))
        yield Reason("beyond_horizon", f"bookings may reach until {last}, this one ends at {_show(snapshot, until)}")
    known = reservations_by_id(snapshot.records.reservations)
    begun = any(known[name].start == start for name in but if name in known)
    if until <= now or (start < now and not begun):
        ago = short_duration((now - start).total_seconds())
        text = f"it begins at {_show(snapshot, start)}, and that time is over: it was {ago} ago"
        yield Reason("in_the_past", text)


def _line(snapshot: Snapshot, request: ReserveRequest, pool: str, but: frozenset[str]) -> Skyline:
    """What nobody has booked of a model; to a soft booking the other soft ones are in the way as well."""
    spans = list(promises(snapshot, snapshot.seen.host, pool, but=but))
    if is_soft(snapshot.policy, class_of(snapshot, request)):
        spans += [
            Span(row.start, row.until, row.gpus, row.id)
            for row in promised_by_pool(snapshot.records.reservations).get((snapshot.seen.host, pool), ())
            if row.soft and row.start is not None and row.id not in but
        ]
    return Skyline(capacity(snapshot, pool), spans)


def who_has(snapshot: Snapshot, pool: str, start: datetime, until: datetime, but: frozenset[str] = frozenset()) -> str:
    """Whose bookings lie in that time, the first to begin first."""
    known = reservations_by_id(snapshot.records.reservations)
    spans = promises(snapshot, snapshot.seen.host, pool, but=but)
    there = [span for span in spans if span.start < until and (span.until is None or span.until > start)]
    return ", ".join(
        f"{known[span.id].owner} has {span.gpus}" + (f" until {_show(snapshot, span.until)}" if span.until else "")
        for span in sorted(there, key=lambda span: (span.start, span.id))
    )


def _cards(count: int, pool: str) -> str:
    return n_cards(count, pool)


def _show(snapshot: Snapshot, at: datetime) -> str:
    return show_instant(at, now=snapshot.now, zone=snapshot.policy.zone)
