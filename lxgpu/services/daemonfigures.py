"""What a daemon counts of itself since it began: how long its ticks take, what failed, what came about."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

BOUNDS_S = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 60.0)
"""Ticks are counted by whether they took no longer than each of these."""
_MOST = 100
"""So many different names are counted; all of them are words of lxgpu's own, and fewer."""
OTHER = "other"


@dataclass(frozen=True, slots=True)
class DaemonFigures:
    """Counted since the daemon began.

    `within` are for each of `BOUNDS_S` the ticks that took no longer, so a longer bound's count includes a shorter
    one's. `failures` are the looks in which a section failed, `events` the lines of history, by their names; one that
    is not there never came about. `yields_s` are the seconds, at most, in which a borrower was still at work on a card
    whose holder was too, `yield_last_s` those of the last time.
    """

    ticks: int = 0
    ticks_s: float = 0.0
    last_s: float | None = None
    within: tuple[int, ...] = ()
    failures: dict[str, int] = field(default_factory=dict)
    events: dict[str, int] = field(default_factory=dict)
    yield_last_s: float | None = None
    yields_s: float = 0.0


class Figures:
    """The counters themselves."""

    def __init__(self) -> None:
        self._ticks_s = 0.0
        self._last_s: float | None = None
        self._took = [0] * (len(BOUNDS_S) + 1)
        self._failures: Counter[str] = Counter()
        self._events: Counter[str] = Counter()
        self._yield_last_s: float | None = None
        self._yields_s = 0.0

    def ticked(self, seconds: float) -> None:
        """A tick took so long, whether it came to its end or failed."""
        self._ticks_s += seconds
        self._last_s = seconds
        self._took[bisect_left(BOUNDS_S, seconds)] += 1

    def failed(self, names: Iterable[str]) -> None:
        """Sections that failed, each once more."""
        for name in names:
            _count(self._failures, name)

    def event(self, kind: str) -> None:
        """A line of history was told."""
        _count(self._events, kind)

    def yielded(self, seconds: float) -> None:
        """A borrower stood still so long after its card's holder began to work, at most."""
        self._yield_last_s = seconds
        self._yields_s += seconds

    def view(self, *, failures: Mapping[str, int]) -> DaemonFigures:
        """As they stand now, with `failures` that somebody else has counted."""
        within, before = [], 0
        for count in self._took[:-1]:
            before += count
            within.append(before)
        return DaemonFigures(
            ticks=sum(self._took),
            ticks_s=round(self._ticks_s, 3),
            last_s=None if self._last_s is None else round(self._last_s, 3),
            within=tuple(within),
            failures=dict(sorted((self._failures + Counter(failures)).items())),
            events=dict(sorted(self._events.items())),
            yield_last_s=self._yield_last_s,
            yields_s=round(self._yields_s, 3),
        )


def _count(counter: Counter[str], name: str) -> None:
    counter[name if name in counter or len(counter) < _MOST else OTHER] += 1
