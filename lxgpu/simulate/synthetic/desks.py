"""People at their desks: they hold cards the whole time and use them in bursts during their days."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import exp

from lxgpu.simulate.dice import Dice
from lxgpu.simulate.jobs import Burst
from lxgpu.simulate.synthetic.weeks import DAY, HOUR, WORKDAYS

DAY_LONG_S = 14 * HOUR
"""From the first to the last work of a person's day."""
FIRST_S, LAST_BEGIN_S = 8 * HOUR, 10 * HOUR
"""A person's day begins between these times."""
BURST_S = HOUR
"""The mean of a burst, which is exponential."""
PAUSE_SIGMA = 1.2
"""Pauses are lognormal with this: most are a few minutes, one in a dozen is longer than three times the mean."""


@dataclass(frozen=True, slots=True)
class Habit:
    """How a person works on the card in their day: the share of it that the card is at work."""

    busy: float

    @property
    def pause_median_s(self) -> float:
        """The median pause that makes that share, beside bursts of `BURST_S` on average."""
        mean = BURST_S * (1 - self.busy) / self.busy
        return mean / exp(PAUSE_SIGMA**2 / 2)


def working_days(begin_s: float, end_s: float) -> int:
    """How many days from Monday to Friday begin in a time."""
    return sum(day % 7 < WORKDAYS for day in range(int(-(-begin_s // DAY)), int(-(-end_s // DAY))))


def bursts(dice: Dice, habit: Habit, begin_s: float, end_s: float) -> tuple[Burst, ...]:
    """The work of a person who holds a card from the one instant to the other: nights and weekends have none.

    A day begins in the midst of a burst as often as a look at any other time of it would find one.
    """
    days = range(int(begin_s // DAY), int(-(-end_s // DAY)))
    return tuple(burst for day in days if day % 7 < WORKDAYS for burst in _of_day(dice, habit, day, begin_s, end_s))


def _of_day(dice: Dice, habit: Habit, day: int, begin_s: float, end_s: float) -> Iterator[Burst]:
    first = day * DAY + dice.between(FIRST_S, LAST_BEGIN_S)
    at, end = max(first, begin_s), min(first + DAY_LONG_S, end_s)
    if dice.share() >= habit.busy:
        at += dice.share() * dice.lognormal(habit.pause_median_s, PAUSE_SIGMA)
    while at < end:
        work = max(1.0, dice.wait(BURST_S))
        yield Burst(at, min(work, end - at))
        at += work + max(1.0, dice.lognormal(habit.pause_median_s, PAUSE_SIGMA))
