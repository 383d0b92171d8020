"""When people ask: weights of the hours of a day and of the days of a week, and instants drawn by them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from lxgpu.simulate.dice import Dice

HOUR = 3600.0
DAY = 24 * HOUR
WORKDAYS = 5


@dataclass(frozen=True, slots=True)
class Week:
    """How likely a request is, hour by hour (24, from midnight) and day by day (7, from Monday)."""

    hours: tuple[float, ...]
    days: tuple[float, ...]

    def at(self, hour: int) -> float:
        """The weight of an hour, counted from second 0, which is a Monday's midnight."""
        return self.hours[hour % 24] * self.days[hour // 24 % 7]


LAB = Week(
    hours=(2, 1, 1, 1, 1, 1, 1, 2, 5, 9, 10, 9, 6, 8, 10, 10, 9, 8, 5, 5, 6, 6, 5, 3),
    days=(1, 1, 1, 1, 0.9, 0.4, 0.4),
)
"""A lab's week, set by hand: mornings and afternoons, a dip at noon and at dinner, some work in the evening."""
# fmt: off
PHILLY = Week(
    hours=(1.34, 1.03, 1.17, 1.16, 0.74, 1.21, 1.75, 2.19, 1.16, 1.06, 1.07, 0.91,
           0.79, 0.74, 0.67, 0.68, 0.93, 0.70, 0.84, 0.77, 1.07, 0.96, 1.19, 1.06),
    days=(0.86, 1.07, 1.14, 1.29, 1.44, 0.61, 0.59),
)
# fmt: on
"""Submissions of the Philly trace by hour and weekday as its file writes them, over their mean."""


def arrivals(dice: Dice, count: int, days: float, weight: Callable[[int], float]) -> list[float]:
    """So many instants of the first `days`, sorted; each falls into an hour by its weight, evenly within it."""
    hours = max(1, round(days * 24))
    ends = [*accumulate(weight(hour) for hour in range(hours))]
    return sorted(_instant(dice, ends) for _ in range(count))


def _instant(dice: Dice, ends: Sequence[float]) -> float:
    hour = min(bisect_right(ends, dice.share() * ends[-1]), len(ends) - 1)
    return (hour + dice.share()) * HOUR
