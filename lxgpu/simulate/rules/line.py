"""One line for all cards: first come first served, or the shortest first; and by size, where one may overtake.

The names are the usual ones of the field; no project's code is followed. `fifo` with holders is exclusive lending:
whoever has cards keeps them until the end of the hold, at work or not.
"""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush

from lxgpu.model.quota import Policy
from lxgpu.simulate.floor import Floor
from lxgpu.simulate.jobs import Lab, Workload
from lxgpu.simulate.rules.lines import Lines


class Fifo:
    """First come, first served: while the first one does not fit, nobody starts."""

    def __init__(self, floor: Floor, part: int = 0) -> None:
        """`part`: which of the floor's rooms it has."""
        self._floor, self._room = floor, floor.rooms[part]
        self._line: deque[int] = deque()

    def asked(self, job: int) -> None:
        """It goes to the end of the line; who could never fit is turned away."""
        if self._floor.jobs[job].gpus <= self._room.cards:
            self._line.append(job)

    def ended(self, job: int) -> None:
        """Nothing to remember."""

    def turned(self, job: int) -> None:
        """What a card does is no matter here."""

    def decide(self) -> None:
        """The first ones start, as long as they fit; who got done on cards of others is passed over."""
        line, floor = self._line, self._floor
        while line:
            if floor.finish[line[0]] is None:
                place = self._room.find(floor.jobs[line[0]].gpus)
                if place is None:
                    return
                floor.start(line[0], place)
            line.popleft()


class Sjf:
    """Shortest job first, by the true duration; while the first one does not fit, nobody starts."""

    def __init__(self, floor: Floor) -> None:
        self._floor, self._room = floor, floor.rooms[0]
        self._line: list[tuple[float, int]] = []

    def asked(self, job: int) -> None:
        """It goes to its place in the line; who could never fit is turned away."""
        if self._floor.jobs[job].gpus <= self._room.cards:
            heappush(self._line, (self._floor.jobs[job].duration_s, job))

    def ended(self, job: int) -> None:
        """Nothing to remember."""

    def turned(self, job: int) -> None:
        """What a card does is no matter here."""

    def decide(self) -> None:
        """The shortest ones start, as long as they fit."""
        line, jobs = self._line, self._floor.jobs
        while line and (place := self._room.find(jobs[line[0][1]].gpus)) is not None:
            self._floor.start(heappop(line)[1], place)


class FifoSkip:
    """First come, first served, but who does not fit is overtaken by those who do: first fit in order of arrival."""

    def __init__(self, floor: Floor) -> None:
        self._floor, self._room = floor, floor.rooms[0]
        self._lines: Lines[int] = Lines()

    def asked(self, job: int) -> None:
        """It goes to the end of the line of its size."""
        self._lines.add(self._floor.jobs[job].gpus, job, job)

    def ended(self, job: int) -> None:  # noqa: ARG002 -- whose cards are free is no matter
        """All sizes may fit again."""
        self._lines.reopen()

    def turned(self, job: int) -> None:
        """What a card does is no matter here."""

    def decide(self) -> None:
        """All who fit start, those who came first before the others."""
        lines = self._lines
        while (first := lines.first()) is not None:
            job, gpus = first
            place = self._room.find(gpus)
            if place is None:
                lines.close(gpus)
            else:
                lines.take(gpus)
                self._floor.start(job, place)


def fifo(workload: Workload, lab: Lab, _policy: Policy | None) -> tuple[Floor, Fifo]:
    """First come, first served."""
    floor = Floor(workload.jobs, lab)
    return floor, Fifo(floor)


def sjf(workload: Workload, lab: Lab, _policy: Policy | None) -> tuple[Floor, Sjf]:
    """Shortest job first."""
    floor = Floor(workload.jobs, lab)
    return floor, Sjf(floor)


def fifo_skip(workload: Workload, lab: Lab, _policy: Policy | None) -> tuple[Floor, FifoSkip]:
    """First fit in order of arrival."""
    floor = Floor(workload.jobs, lab)
    return floor, FifoSkip(floor)
