"""One line for all cards: first come first served, or the shortest first."""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush

from lxgpu.simulate.floor import Floor


class Fifo:
    """First come, first served: while the first one does not fit, nobody starts."""

    def __init__(self, floor: Floor) -> None:
        self._floor, self._room = floor, floor.rooms[0]
        self._line: deque[int] = deque()

    def asked(self, job: int) -> None:
        """It goes to the end of the line."""
        self._line.append(job)

    def ended(self, job: int) -> None:
        """Nothing to remember."""

    def turned(self, job: int) -> None:
        """What a card does is no matter here."""

    def decide(self) -> None:
        """The first ones start, as long as they fit."""
        line, jobs = self._line, self._floor.jobs
        while line and (place := self._room.find(jobs[line[0]].gpus)) is not None:
            self._floor.start(line.popleft(), place)


class Sjf:
    """Shortest job first, by the true duration; while the first one does not fit, nobody starts."""

    def __init__(self, floor: Floor) -> None:
        self._floor, self._room = floor, floor.rooms[0]
        self._line: list[tuple[float, int]] = []

    def asked(self, job: int) -> None:
        """It goes to its place in the line."""
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
