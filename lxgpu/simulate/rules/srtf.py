"""Shortest remaining time first: who needs least may stop those who need longer."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator

from lxgpu.model.quota import Policy
from lxgpu.simulate.floor import Floor
from lxgpu.simulate.jobs import Lab, Workload
from lxgpu.simulate.rules.lines import Lines
from lxgpu.simulate.rules.trial import Trial


class Srtf:
    """By the true remaining time, which no real lab knows: a bound for the others, not a choice.

    Who waits is served in order of what each still needs, restart included. One that fits starts. One that does not
    stops running jobs that need longer than itself, the longest first, until it fits, and then spares those whose
    cards it does not need; where all of them would not do it stops nobody, and is overtaken. As in HeliosArtifact
    (framework, policies/srtf.py) a job that finds no place holds up nobody; unlike there nobody is stopped in vain,
    and not by a count of all cards but for a place on a server. Holders are served by how long they hold, and are
    not stopped.
    """

    def __init__(self, floor: Floor) -> None:
        self._floor = floor
        self._lines: Lines[int] = Lines()
        self._end: dict[int, float] = {}
        self._by_end: list[tuple[float, int]] = []

    def asked(self, job: int) -> None:
        """It goes to its place in the line of its size."""
        self._lines.add(self._floor.jobs[job].gpus, self._floor.jobs[job].duration_s, job)

    def ended(self, job: int) -> None:
        """All sizes may fit again."""
        self._forget(job)
        self._lines.reopen()

    def turned(self, job: int) -> None:
        """What a card does is no matter here."""

    def decide(self) -> None:
        """All who find a place start, those who need least before the others."""
        lines, floor = self._lines, self._floor
        while (first := lines.first()) is not None:
            job, gpus = first
            place = floor.rooms[0].find(gpus)
            if place is not None:
                lines.take(gpus)
                self._start(job, place)
            elif not self._preempted(job, gpus):
                lines.close(gpus)

    def _preempted(self, job: int, gpus: int) -> bool:
        trial = Trial(self._floor, gpus)
        taken = trial.take_until_it_fits(self._longer(self._floor.now + self._rest(job)))
        if taken is None:
            return False
        victims, place = trial.spare(taken), trial.place()
        self._lines.take(gpus)
        for victim in victims:
            self._floor.stop(victim)
            self._forget(victim)
            self._lines.add(self._floor.jobs[victim].gpus, self._rest(victim), victim)
        self._lines.reopen()
        self._start(job, place)
        return True

    def _start(self, job: int, place: tuple[tuple[int, int], ...]) -> None:
        self._floor.start(job, place)
        if not self._floor.jobs[job].bursts:
            self._end[job] = self._floor.now + self._rest(job)
            insort(self._by_end, (self._end[job], job))

    def _forget(self, job: int) -> None:
        if job in self._end:
            del self._by_end[bisect_left(self._by_end, (self._end.pop(job), job))]

    def _longer(self, than: float) -> Iterator[int]:
        """Who runs and would end later than that, the last one first."""
        for end, job in reversed(self._by_end):
            if end <= than:
                return
            yield job

    def _rest(self, job: int) -> float:
        return self._floor.jobs[job].duration_s if self._floor.jobs[job].bursts else self._floor.left_s(job)


def srtf(workload: Workload, lab: Lab, _policy: Policy | None) -> tuple[Floor, Srtf]:
    """Shortest remaining time first."""
    floor = Floor(workload.jobs, lab)
    return floor, Srtf(floor)
