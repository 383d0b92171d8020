"""What went on during a run, for a page: use over time, who waited, and who held the cards meanwhile."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lxgpu.simulate.engine import Rule
from lxgpu.simulate.floor import Floor
from lxgpu.simulate.jobs import Job
from lxgpu.simulate.outcome import group_of, span_of

FREE = "(free or kept)"
"""Stands for cards on which nobody could work: free ones, and those that a job keeps of a set that is not whole."""
OTHERS = "(others)"
"""Stands for all groups but the largest ones."""
_GROUPS = 7
_STEPS = 400


class Curve:
    """A number that changes in time, as its means over equal steps; never more steps than so many."""

    def __init__(self, begin_s: float, step_s: float = 60.0) -> None:
        self.begin_s, self.step_s = begin_s, step_s
        self.value, self._at = 0.0, begin_s
        self._sums = [0.0]

    def until(self, at: float) -> None:
        """It has kept its value until then."""
        while at > (end := self.begin_s + len(self._sums) * self.step_s):
            self._sums[-1] += (end - self._at) * self.value
            self._at = end
            if len(self._sums) == _STEPS:
                self._coarser()
            self._sums.append(0.0)
        self._sums[-1] += (at - self._at) * self.value
        self._at = at

    def means(self) -> tuple[float, ...]:
        """Of each step the mean; the last step is as long as what there was of it."""
        *whole, last = self._sums
        rest = self._at - self.begin_s - len(whole) * self.step_s
        return (*(one / self.step_s for one in whole), last / rest if rest > 0 else 0.0)

    def _coarser(self) -> None:
        self._sums = [one + other for one, other in zip(self._sums[::2], self._sums[1::2], strict=True)]
        self.step_s *= 2


@dataclass(frozen=True, slots=True)
class Series:
    """Means over steps of `step_s` seconds, `lasts_s` in all: cards held, cards at work, jobs that wait to begin.

    `waited` is job-seconds from submission to first start (to the end where there was none), by who waited and who held
    the cards: at each moment of waiting, each group (`FREE`: nobody) counts with its share of the lab's cards.
    """

    lasts_s: float
    step_s: float
    held: tuple[float, ...]
    working: tuple[float, ...]
    waiting: tuple[float, ...]
    waited: dict[tuple[str, str], float]


class Watcher:
    """A rule that lets another one decide, and looks at the floor after it."""

    def __init__(self, floor: Floor, rule: Rule) -> None:
        self._floor, self._rule = floor, rule
        self._log: list[int] = []
        self._touched: list[int] = []
        floor.log = self._log
        floor.switched = self._touched
        self._names = groups_of(floor.jobs)
        place = {name: at for at, name in enumerate(self._names)}
        self._group = [place.get(group_of(job), place.get(OTHERS, 0)) for job in floor.jobs]
        begin = floor.jobs[0].submit_s if floor.jobs else 0.0
        self._held, self._working, self._waiting = (Curve(begin) for _ in range(3))
        self._begun, self._works = bytearray(len(floor.jobs)), bytearray(len(floor.jobs))
        self._line = _Line(len(self._names), floor.lab.cards, begin)

    def asked(self, job: int) -> None:
        """One more waits."""
        self._line.pass_to(self._floor.now)
        self._waiting.until(self._floor.now)
        self._waiting.value += 1
        self._line.wait(self._group[job], 1)
        self._rule.asked(job)

    def ended(self, job: int) -> None:
        """Passed on."""
        self._rule.ended(job)

    def turned(self, job: int) -> None:
        """Remembered, and passed on."""
        self._touched.append(job)
        self._rule.turned(job)

    def decide(self) -> None:
        """Let the rule decide, and take in what has changed since the last time."""
        self._rule.decide()
        if not (self._log or self._touched):
            return
        now = self._floor.now
        for curve in (self._held, self._working, self._waiting):
            curve.until(now)
        self._line.pass_to(now)
        for entry in self._log:
            self._moved(entry)
        for job in self._touched:
            self._look(job)
        self._log.clear()
        self._touched.clear()

    def series(self) -> Series:
        """What was seen, once all is over."""
        _, end_s = span_of(self._floor)
        self._line.pass_to(end_s)
        curves = (self._held, self._working, self._waiting)
        for curve in curves:
            curve.until(end_s)
        held, working, waiting = (curve.means() for curve in curves)
        lasts_s = end_s - self._held.begin_s
        return Series(lasts_s, self._held.step_s, held, working, waiting, self._line.told(self._names))

    def _moved(self, entry: int) -> None:
        job, sign = (entry, 1) if entry >= 0 else (~entry, -1)
        gpus = self._floor.jobs[job].gpus
        self._held.value += sign * gpus
        self._line.hold(self._group[job], sign * gpus)
        if sign > 0:
            self._begins(job)
        self._look(job)

    def _begins(self, job: int) -> None:
        if not self._begun[job]:
            self._begun[job] = 1
            self._waiting.value -= 1
            self._line.wait(self._group[job], -1)

    def _look(self, job: int) -> None:
        works = self._floor.working(job)
        if self._floor.first_start[job] is not None:
            self._begins(job)
        self._working.value += (works - self._works[job]) * self._floor.jobs[job].gpus
        self._works[job] = works


class _Line:
    """Sums up who waits while who holds; work at each moment grows with the number of groups only."""

    def __init__(self, groups: int, cards: int, begin_s: float) -> None:
        self._cards, self._at = cards, begin_s
        self._held = [0] * groups + [cards]
        self._sum = [0.0] * (groups + 1)  # card-seconds of each holder so far
        self._waiting = [0] * groups
        self._seen = [[0.0] * (groups + 1) for _ in range(groups)]
        self._waited = [[0.0] * (groups + 1) for _ in range(groups)]

    def pass_to(self, at: float) -> None:
        """Everything has stayed as it was until then."""
        past = at - self._at
        if past > 0:
            self._sum = [one + past * held for one, held in zip(self._sum, self._held, strict=True)]
            self._at = at

    def hold(self, group: int, gpus: int) -> None:
        """A group holds so many cards more."""
        self._held[group] += gpus
        self._held[-1] -= gpus

    def wait(self, group: int, more: int) -> None:
        """So many jobs more of a group wait."""
        self._take(group)
        self._waiting[group] += more

    def told(self, names: list[str]) -> dict[tuple[str, str], float]:
        """Job-seconds by who waited and who held."""
        for group in range(len(names)):
            self._take(group)
        return {
            (name, holder): seconds
            for name, row in zip(names, self._waited, strict=True)
            for holder, seconds in zip([*names, FREE], row, strict=True)
        }

    def _take(self, group: int) -> None:
        count = self._waiting[group]
        if count:
            row, seen = self._waited[group], self._seen[group]
            self._waited[group] = [
                one + count * (now - then) / self._cards for one, now, then in zip(row, self._sum, seen, strict=True)
            ]
        self._seen[group] = self._sum


def groups_of(jobs: Iterable[Job]) -> list[str]:
    """The groups that are told apart: all, or of many those that ask for most work, and `OTHERS`."""
    asked: dict[str, float] = {}
    for job in jobs:
        asked[group_of(job)] = asked.get(group_of(job), 0.0) + job.demand_gpu_s
    if len(asked) <= _GROUPS + 1:
        return sorted(asked)
    return [*sorted(sorted(asked, key=lambda name: -asked[name])[:_GROUPS]), OTHERS]
