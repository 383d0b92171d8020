"""What became of the cards over a time: who held them, used them, waited and was refused; pure.

Hours of holding come from the assignments, hours of use from the samples; where nobody looked the use is not known.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import median

from lxgpu.model.assignment import Assignment
from lxgpu.model.operation import Event
from lxgpu.model.reservation import Kind, Reservation, ReservationState
from lxgpu.model.rules import IdleRules
from lxgpu.model.snapshot import Records
from lxgpu.model.usage import Sample
from lxgpu.policy.idleness import known, worked
from lxgpu.policy.preemption import ASAP

USER, GROUP, GPU = "user", "group", "gpu"
TOTAL = "total"
LONGEST = timedelta(minutes=15)
"""A sample speaks for the time until the next one, and for no longer than this."""
LAST = timedelta(minutes=1)
"""The newest sample speaks for so long."""
_HOUR = 3600.0
_HAD = frozenset({ReservationState.ACTIVE, ReservationState.FINISHED})
_BEGUN = _HAD | {ReservationState.MISSED}


@dataclass(frozen=True, slots=True)
class WasteView:
    """A container that held cards and did not use them."""

    instance: str
    idle_gpu_hours: float


@dataclass(frozen=True, slots=True)
class UsageView:
    """One user, group or card, or all (`by` is `total`). What a card cannot have, bookings and waits, is None there.

    Of the hours held, `unknown_gpu_hours` are those in which nobody looked. `bookings` are all of that time, those to
    come and those given up too. `missed` bookings are those that nobody
    came to, `failed` those that the host could not keep. Waits are of requests that began in that time; `waiting` still
    do.
    """

    by: str
    name: str
    held_gpu_hours: float
    used_gpu_hours: float
    idle_gpu_hours: float
    unknown_gpu_hours: float
    bookings: int | None = None
    bookings_honoured: int | None = None
    bookings_missed: int | None = None
    bookings_failed: int | None = None
    waits: int | None = None
    wait_median_s: int | None = None
    wait_longest_s: int | None = None
    waiting: int | None = None
    refused: int | None = None
    wasted: tuple[WasteView, ...] = ()


@dataclass(frozen=True, slots=True)
class Ground:
    """What a report is made of. `groups_of` gives a person's groups of the policy; `past` are closed assignments."""

    records: Records
    past: Sequence[Assignment]
    samples: Sequence[Sample]
    reservations: Sequence[Reservation]
    events: Sequence[Event]
    rules: IdleRules
    groups_of: Callable[[str], tuple[str, ...]]


@dataclass(slots=True)
class _Count:
    held: float = 0.0
    used: float = 0.0
    idle: float = 0.0
    states: list[ReservationState] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    waiting: int = 0
    refused: int = 0
    waste: dict[str, float] = field(default_factory=lambda: defaultdict(float))


def report(ground: Ground, *, since: datetime, now: datetime, by: str) -> tuple[UsageView, ...]:
    """The rows by name, whoever held most first, and the total last. One in several groups counts in each."""
    counts: dict[str, _Count] = defaultdict(_Count)
    total = _Count()
    owners = {row.instance: row.owner for row in ground.reservations}
    owners |= {row.name: row.owner for row in ground.records.instances}

    def rows(instance: str, card: str = "") -> Iterator[_Count]:
        yield total
        person = owners.get(instance, instance)
        names = (card,) if by == GPU else (person,) if by == USER else ground.groups_of(person) or ("",)
        yield from (counts[name] for name in names if name or by == GROUP)

    for one in (*ground.records.assignments, *ground.past):
        hours = _held(one, since, now)
        for count in rows(one.instance, one.slot.gpu) if hours else ():
            count.held += hours
    for sample, hours in _weighed(ground.samples, since, now):
        _use(sample, hours, list(rows(sample.instance, sample.uuid)), ground.rules)
    for wish in ground.reservations:
        for count in rows(wish.instance):
            _wish(wish, count, since)
    for event in ground.events:
        for count in rows(event.subject) if event.kind == "refused" and event.at >= since else ():
            count.refused += 1
    made = [_view(by, name, count, of_people=by != GPU) for name, count in counts.items()]
    made.sort(key=lambda row: (-row.held_gpu_hours, row.name))
    return (*made, _view(TOTAL, "all", total, of_people=True))


def _held(row: Assignment, since: datetime, now: datetime) -> float:
    """The hours for which an assignment held a share of a card in the time; 0 for one that is only planned."""
    if row.since is None or not (row.live or row.closed_at):
        return 0.0
    return max(0.0, (min(row.closed_at or now, now) - max(row.since, since)).total_seconds()) / _HOUR


def _weighed(samples: Iterable[Sample], since: datetime, now: datetime) -> Iterator[tuple[Sample, float]]:
    """Samples of held cards, each with the hours that it speaks for."""
    by_card: dict[str, list[Sample]] = defaultdict(list)
    for sample in samples:
        by_card[sample.uuid].append(sample)
    for mine in by_card.values():
        ends = [min(later.at, sooner.at + LONGEST) for sooner, later in pairwise(mine)]
        for sample, end in zip(mine, [*ends, mine[-1].at + LAST], strict=True):
            if sample.instance:
                yield sample, max(0.0, (min(end, now) - max(sample.at, since)).total_seconds()) / _HOUR


def _use(sample: Sample, hours: float, counts: Iterable[_Count], rules: IdleRules) -> None:
    for count in counts:
        if worked(sample, rules):
            count.used += hours
        elif known(sample, rules):
            count.idle += hours
            count.waste[sample.instance] += hours


def _wish(row: Reservation, count: _Count, since: datetime) -> None:
    """Bookings by how they ended, and how long a request waited for its cards, which made a booking of it."""
    if row.kind is Kind.BOOKING and (row.closed_at is None or row.closed_at >= since):
        count.states.append(row.state)
    soon = row.kind is Kind.REQUEST or bool(row.told.get(ASAP))
    if soon and row.pending:
        count.waiting += 1
    elif soon and row.start is not None and row.start >= since and row.state in _BEGUN:
        count.waits.append(max(0.0, (row.start - row.created_at).total_seconds()))


def _view(by: str, name: str, count: _Count, *, of_people: bool) -> UsageView:
    seen = count.used + count.idle
    waste = sorted(count.waste.items(), key=lambda one: (-one[1], one[0]))
    hours = UsageView(
        by=by,
        name=name,
        held_gpu_hours=round(count.held, 2),
        used_gpu_hours=round(count.used, 2),
        idle_gpu_hours=round(count.idle, 2),
        unknown_gpu_hours=round(max(0.0, count.held - seen), 2),
        wasted=tuple(WasteView(instance, round(idle, 2)) for instance, idle in waste if round(idle, 2) > 0),
    )
    return _with_people(hours, count) if of_people else hours


def _with_people(view: UsageView, count: _Count) -> UsageView:
    return replace(
        view,
        bookings=len(count.states),
        bookings_honoured=sum(state in _HAD for state in count.states),
        bookings_missed=count.states.count(ReservationState.MISSED),
        bookings_failed=count.states.count(ReservationState.FAILED),
        waits=len(count.waits),
        wait_median_s=int(median(count.waits)) if count.waits else None,
        wait_longest_s=int(max(count.waits)) if count.waits else None,
        waiting=count.waiting,
        refused=count.refused,
    )
