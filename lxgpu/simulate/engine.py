"""Time passes: what ends and what is asked for is told to a rule, which decides who starts and who stops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import Protocol

from lxgpu.simulate.floor import Floor
from lxgpu.simulate.jobs import Job

Progress = Callable[[int], None]
"""Told now and then how many jobs have come in so far."""
_STEP = 500


class Rule(Protocol):
    """Who gets cards. It hears what happens at an instant, and then decides once, on the floor that it was made for."""

    def asked(self, job: int) -> None:
        """A job was submitted."""

    def ended(self, job: int) -> None:
        """A job ended by itself; its cards are free."""

    def turned(self, job: int) -> None:
        """A holder's cards went to work or to rest, or it would work and has no cards."""

    def decide(self) -> None:
        """Start and stop jobs, at `floor.now`."""


def play(floor: Floor, rule: Rule, *, progress: Progress = lambda _done: None) -> None:
    """Let all jobs come, and go on until nothing more happens.

    Events of one instant are told in one order: what ends first, then what is asked for, in the order of the list.
    """
    jobs: Sequence[Job] = floor.jobs
    come, count, told = 0, len(jobs), _STEP
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
        if come >= told:
            progress(come)
            told = come + _STEP
    progress(count)
