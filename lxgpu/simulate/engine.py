"""Time passes: what ends and what is asked for is told to a rule, which decides who starts and who stops."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import inf
from typing import Protocol

from lxgpu.errors import LxgpuError
from lxgpu.simulate.floor import Floor
from lxgpu.simulate.jobs import Job

Progress = Callable[[int], None]
"""Told now and then how many jobs have come in so far."""
_STEP = 500
VAIN, VAIN_EACH = 5_000, 100
"""So many stops of batch jobs, and so many more for each, without any work saved or job done are no simulation."""
_LOOK = 1024
_SELDOM = 50_000
"""After so many new objects Python looks for rings of garbage: a run makes hardly any, and very many rows."""


class Rule(Protocol):
    """Who gets cards. It hears what happens at an instant, and then decides once, on the floor that it was made for."""

    def asked(self, job: int) -> None:
        """A job was submitted."""

    def ended(self, job: int) -> None:
        """A job ended by itself; its cards are free."""

    def turned(self, job: int) -> None:
        """A holder's cards went to work or to rest."""

    def decide(self) -> None:
        """Start and stop jobs, at `floor.now`."""


def play(floor: Floor, rule: Rule, *, progress: Progress = lambda _done: None) -> None:
    """Let all jobs come, and go on until nothing more happens.

    Events of one instant are told in one order: what ends first, then what is asked for, in the order of the list.

    Raises:
        LxgpuError: `internal`: the rule stops batch jobs over and over, and nobody gets on; it would never end.
    """
    with _seldom_collecting():
        _play(floor, rule, progress)


@contextmanager
def _seldom_collecting() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(_SELDOM, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _play(floor: Floor, rule: Rule, progress: Progress) -> None:
    jobs: Sequence[Job] = floor.jobs
    come, count, told, vain = 0, len(jobs), _STEP, _Vain(floor)
    while True:
        asked_at = jobs[come].submit_s if come < count else inf
        at = min(asked_at, floor.next_at())
        if at == inf:
            break
        for job, over in floor.pass_to(at):
            if over:
                rule.ended(job)
            else:
                rule.turned(job)
        while come < count and jobs[come].submit_s <= at:
            floor.events += 1
            rule.asked(come)
            come += 1
        rule.decide()
        if asked_at <= at and come == count:
            floor.demand_ends()
        vain.look()
        if come >= told:
            progress(come)
            told = come + _STEP
    progress(count)


class _Vain:
    """Counts the stops of batch jobs since anybody got on. Holders are left out: their time ends by itself."""

    def __init__(self, floor: Floor) -> None:
        self._floor, self._turns = floor, 0
        self._batch = [number for number, job in enumerate(floor.jobs) if not job.bursts]
        self._most = VAIN + VAIN_EACH * len(self._batch)
        self._every = max(_LOOK, len(self._batch))
        self._stops, self._gain = 0, 0.0

    def look(self) -> None:
        """Now and then: it costs a look at each job, so it comes after as many turns as there are jobs."""
        self._turns += 1
        if self._turns % self._every:
            return
        floor = self._floor
        stops = sum(floor.stops[number] for number in self._batch)
        done = sum(floor.finish[number] is not None for number in self._batch)
        gain = floor.delivered_gpu_s - floor.lost_gpu_s + done
        if gain > self._gain + 0.5 or stops == self._stops:
            self._stops, self._gain = stops, max(gain, self._gain)
        elif stops > self._stops + self._most:
            raise LxgpuError(
                "internal",
                f"the simulation does not end: jobs were stopped {stops - self._stops} times, and none got on",
                why="the rule takes their cards each time before they have saved anything",
                fix="give the jobs more time, or let them save more often (checkpoint_s)",
            )
