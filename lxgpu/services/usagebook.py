"""Everything that a report tells of a time at once: by users, groups, cards, hours of the week, days and waits; pure.

The page and the tables are made of the same rows, so that their figures are the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo

from lxgpu.figures import DAY, HOUR, MINUTE, short_duration
from lxgpu.services.cardhours import HOUR_US, Piece, micros
from lxgpu.services.usage import GPU, GROUP, TOTAL, USER, Count, Ground, Tally, UsageView, view, views

HOURLY, DAILY, WAIT = "hour", "day", "wait"
BY = (USER, GROUP, GPU, HOURLY, DAILY, WAIT)
WEEK = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
WAITS_S = (MINUTE, 10 * MINUTE, HOUR, 6 * HOUR, DAY, 3 * DAY)
"""Waits are counted by the first of these that they do not exceed."""
LONGER = "longer"
_QUARTER_US = HOUR_US // 4
"""Zones differ from UTC by quarters of an hour, and change by them."""


@dataclass(frozen=True, slots=True)
class Book:
    """A report. `begin` is when the first thing is known of, `cards` how many cards the inventory has.

    `hours` are the 168 hours of the week in the lab's zone, `days` its days; both leave no hour of the time out.
    """

    since: datetime
    begin: datetime
    until: datetime
    cards: int
    users: tuple[UsageView, ...]
    groups: tuple[UsageView, ...]
    gpus: tuple[UsageView, ...]
    hours: tuple[UsageView, ...]
    days: tuple[UsageView, ...]
    waits: tuple[UsageView, ...]
    total: UsageView

    @property
    def capacity_hours(self) -> float:
        """The hours of all cards from `begin` on."""
        return self.cards * (self.until - self.begin).total_seconds() / HOUR

    def rows(self, by: str) -> tuple[UsageView, ...]:
        """The rows of one kind (`BY`), the total last."""
        found = {
            USER: self.users,
            GROUP: self.groups,
            GPU: self.gpus,
            HOURLY: self.hours,
            DAILY: self.days,
            WAIT: self.waits,
        }
        return (*found[by], self.total)

    @property
    def every(self) -> tuple[UsageView, ...]:
        """All rows, the total once and last."""
        return (*(row for by in BY for row in self.rows(by)[:-1]), self.total)


def book(ground: Ground, *, since: datetime, now: datetime, zone: tzinfo) -> Book:
    """The report of a time.

    Args:
        ground: what is known; its samples from `cardhours.LONGEST` before `since` on.
        since: from when on.
        now: until when.
        zone: the lab's, for hours and days.
    """
    tally = Tally(ground, since=since, now=now)
    begin = _begin(ground, tally.pieces, since, now)
    hours, days = _by_time(tally.pieces, begin, now, zone)
    period = round((now - begin).total_seconds() / HOUR, 2)
    total = view(TOTAL, "all", tally.total, of_people=True)
    return Book(
        since=since,
        begin=begin,
        until=now,
        cards=len({card.uuid for card in ground.records.cards} | set(tally.rows[GPU])),
        users=views(USER, tally.rows[USER]),
        groups=views(GROUP, tally.rows[GROUP]),
        gpus=tuple(replace(row, period_hours=period) for row in views(GPU, tally.rows[GPU])),
        hours=hours,
        days=days,
        waits=_waits(tally.total.waits),
        total=replace(total, period_hours=period),
    )


def _begin(ground: Ground, pieces: Iterable[Piece], since: datetime, now: datetime) -> datetime:
    """When the first thing of that time is known of: a lab that is younger was not empty before."""
    known = [datetime.fromtimestamp(piece.begin / 1_000_000, UTC) for piece in pieces]
    known += [sample.at for sample in ground.samples[:1]]
    known += [event.at for event in ground.events[-1:]]
    known += [row.created_at for row in ground.reservations]
    return min(max(min(known, default=since), since), now)


def _by_time(
    pieces: Iterable[Piece], begin: datetime, now: datetime, zone: tzinfo
) -> tuple[tuple[UsageView, ...], tuple[UsageView, ...]]:
    """The same time by hours of the week, and by days."""
    counts: dict[int, Count] = defaultdict(Count)
    for piece in pieces:
        done = 0
        for quarter, end in _quarters(piece.begin, piece.end):
            upto = piece.gpu_us * (end - piece.begin) // (piece.end - piece.begin)
            counts[quarter].add(piece.had, upto - done)
            done = upto
    hours: dict[str, Count] = {f"{day} {hour:02}:00": Count() for day in WEEK for hour in range(24)}
    days: dict[str, Count] = defaultdict(Count)
    lasted: dict[str, int] = defaultdict(int)
    last = micros(begin)
    for quarter, end in _quarters(micros(begin), micros(now)):
        local = datetime.fromtimestamp(quarter * (_QUARTER_US // 1_000_000), zone)
        hour, day = f"{WEEK[local.weekday()]} {local.hour:02}:00", f"{local:%Y-%m-%d}"
        for had, gpu_us in counts.get(quarter, Count()).hours.items():
            hours[hour].add(had, gpu_us)
            days[day].add(had, gpu_us)
        for name in (hour, day):
            lasted[name] += end - last
        last = end
    return _timed(HOURLY, hours, lasted), _timed(DAILY, days, lasted)


def _quarters(begin: int, end: int) -> Iterator[tuple[int, int]]:
    """The quarters of an hour that a time touches, each with the end of what it has of it."""
    at = begin
    while at < end:
        quarter = at // _QUARTER_US
        at = min((quarter + 1) * _QUARTER_US, end)
        yield quarter, at


def _timed(by: str, counts: dict[str, Count], lasted: dict[str, int]) -> tuple[UsageView, ...]:
    made = ((name, view(by, name, count, of_people=False)) for name, count in counts.items())
    return tuple(replace(row, period_hours=round(lasted.get(name, 0) / HOUR_US, 2)) for name, row in made)


def _waits(found: Iterable[float]) -> tuple[UsageView, ...]:
    names = [*(short_duration(bound) for bound in WAITS_S), LONGER]
    counts = dict.fromkeys(names, 0)
    for waited_s in found:
        place = next((number for number, bound in enumerate(WAITS_S) if waited_s <= bound), len(WAITS_S))
        counts[names[place]] += 1
    return tuple(UsageView(WAIT, name, waits=count) for name, count in counts.items())


def at_work(row: UsageView) -> float | None:
    """How many cards worked in a row's hour or day, on average; None: no such hour was in the time."""
    return None if not row.period_hours else (row.used_gpu_hours or 0.0) / row.period_hours


def held(row: UsageView) -> float | None:
    """How many cards were held in it, on average."""
    return None if not row.period_hours else (row.held_gpu_hours or 0.0) / row.period_hours
