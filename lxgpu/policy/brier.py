"""Whether a forecast is worth anything: its Brier score on days that it had not seen, next to those of no forecast.

Each day's rates are learnt from what was over when it began. At every hour of it, of each stretch that goes on, it is
asked: does it happen within a time? The score is the mean of (chance - what came)², 0 at best. Two that know nothing
of hours stand beside it: "same as now" says that nothing happens (chance 0), "usual" takes the overall rate for
everybody at all hours. The second matters: where there is no pattern at all any rate beats "same as now", and a
forecast that tells hours and holders apart does it by luck.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, tzinfo
from heapq import merge
from math import sqrt
from statistics import fmean, stdev

from lxgpu.policy.forecast import Learner, Rates, Stretch, pieces

LEAST_DAYS = 14
"""On fewer days with questions nothing is proven."""
SURE = 2.0
"""The lead over "usual", a mean of days, must be above so many standard errors of it."""
_DAY, _HOUR = timedelta(days=1), timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Score:
    """What came of the questions about one time ahead.

    `forecast`, `same` and `usual` are Brier scores, None where nothing was asked. `lead` is how much better the
    forecast is than "usual" on a day, in the mean, `error` the standard error of that.
    """

    within_s: int
    asked: int
    came: int
    forecast: float | None = None
    same: float | None = None
    usual: float | None = None
    days: int = 0
    lead: float = 0.0
    error: float = 0.0

    @property
    def proven(self) -> bool:
        """Whether the forecast is better than both, and not by luck."""
        if self.forecast is None or self.same is None or self.usual is None or self.days < LEAST_DAYS:
            return False
        return self.forecast < min(self.same, self.usual) and self.lead > SURE * self.error


@dataclass(slots=True)
class _Sum:
    """Squared errors so far: forecast, same, usual; and of each day how much better the forecast was than usual."""

    errors: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])
    asked: int = 0
    came: int = 0
    leads: list[float] = field(default_factory=list)


def score(
    stretches: Sequence[Stretch],
    zone: tzinfo,
    *,
    half_life_s: float,
    since: datetime,
    now: datetime,
    within_s: Sequence[int],
) -> tuple[Score, ...]:
    """The scores of the days from `since` on that are over, one for each time ahead.

    Args:
        stretches: all of the past, the older ones too; order does not matter.
        zone: the lab's.
        half_life_s: as the forecast uses it.
        since: when the first day begins that is asked about.
        now: nothing is known of what comes later.
        within_s: the times ahead, in seconds.
    """
    ordered = sorted(stretches, key=lambda one: (one.since, one.until, one.who, one.ended))
    learner = Learner(zone, half_life_s=half_life_s, origin=now)
    known = merge(*(pieces(one, zone) for one in ordered), key=lambda piece: piece.until)
    waiting = next(known, None)
    sums = [_Sum() for _ in within_s]
    day = since
    while day + _DAY <= now:
        while waiting is not None and waiting.until <= day:
            learner.add(waiting)
            waiting = next(known, None)
        rates = learner.rates(day)
        if rates is not None:
            on = ordered[: bisect_left(ordered, day + _DAY, key=lambda one: one.since)]
            for total, ahead in zip(sums, within_s, strict=True):
                _ask(total, rates, [one for one in on if one.until > day], day=day, ahead=ahead, now=now)
        day += _DAY
    return tuple(_scored(total, ahead) for total, ahead in zip(sums, within_s, strict=True))


def _ask(total: _Sum, rates: Rates, on: Sequence[Stretch], *, day: datetime, ahead: int, now: datetime) -> None:
    """All questions of one day about one time ahead."""
    usual, better = rates.usual(ahead), []
    for at, one in _moments(on, day):
        answer = _answer(one, at + timedelta(seconds=ahead), now)
        if answer is None:
            continue
        missed = [(chance - answer) ** 2 for chance in (rates.chance(one.who, at, ahead), 0.0, usual)]
        total.errors = [before + more for before, more in zip(total.errors, missed, strict=True)]
        total.asked += 1
        total.came += answer
        better.append(missed[2] - missed[0])
    if better:
        total.leads.append(fmean(better))


def _moments(on: Sequence[Stretch], day: datetime) -> Iterator[tuple[datetime, Stretch]]:
    for hour in range(24):
        at = day + hour * _HOUR
        yield from ((at, one) for one in on if one.since <= at < one.until)


def _answer(one: Stretch, end: datetime, now: datetime) -> bool | None:
    """Whether it came until then; None: nobody saw."""
    seen = min(one.until, now)
    if one.ended and one.until <= min(end, now):
        return True
    return False if seen >= end else None


def _scored(total: _Sum, ahead: int) -> Score:
    if not total.asked:
        return Score(ahead, 0, 0)
    forecast, same, usual = (sum_ / total.asked for sum_ in total.errors)
    days = len(total.leads)
    error = stdev(total.leads) / sqrt(days) if days > 1 else 0.0
    return Score(ahead, total.asked, total.came, forecast, same, usual, days, fmean(total.leads), error)
