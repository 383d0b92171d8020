"""Those who wait, in one line for each kind, so that a kind which cannot start now is looked at once."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from heapq import heappop, heappush
from typing import Generic, TypeVar

Kind = TypeVar("Kind", bound=Hashable)


class Lines(Generic[Kind]):
    """Lines of jobs with a rank, the lowest first. A line is closed when its first one finds no place.

    All jobs of a kind need the same, so none behind the first one of a closed line would find a place either. A new
    first one opens its line; `reopen` opens all, for when cards became free. A decision costs as much as there are
    kinds and starts, however many wait.
    """

    def __init__(self) -> None:
        self._lines: dict[Kind, list[tuple[float, int]]] = {}
        self._closed: set[Kind] = set()
        self._rank: dict[int, float] = {}  # of each who waits; what a line says otherwise counts no more
        self._firsts: list[tuple[float, int, int]] = []  # of the open lines, and some that are it no longer
        self._kinds: list[Kind] = []
        self._number: dict[Kind, int] = {}

    def add(self, kind: Kind, rank: float, job: int) -> None:
        """A job waits from now on."""
        line = self._lines.get(kind)
        if line is None:
            line = self._lines[kind] = []
            self._number[kind] = len(self._kinds)
            self._kinds.append(kind)
        self._rank[job] = rank
        heappush(line, (rank, job))
        if line[0] == (rank, job):
            self._closed.discard(kind)
            heappush(self._firsts, (rank, job, self._number[kind]))

    def first(self) -> tuple[int, Kind] | None:
        """Who is the first of all open lines, and its kind."""
        firsts = self._firsts
        while firsts:
            rank, job, number = firsts[0]
            kind = self._kinds[number]
            line = self._lines[kind]
            if not line or line[0] != (rank, job) or kind in self._closed:
                heappop(firsts)
            elif self._rank.get(job) == rank:
                return job, kind
            else:
                self._next(kind)
        return None

    def take(self, kind: Kind) -> None:
        """The first one of that kind waits no longer."""
        del self._rank[self._lines[kind][0][1]]
        self._next(kind)

    def drop(self, job: int) -> None:
        """A job waits no longer, wherever it stands."""
        self._rank.pop(job, None)

    def close(self, kind: Kind) -> None:
        """Nobody of that kind finds a place now."""
        self._closed.add(kind)

    def reopen(self, which: Callable[[Kind], bool] = lambda _kind: True) -> None:
        """Everybody of those kinds may find a place again."""
        for kind in [kind for kind in self._closed if which(kind)]:
            self._closed.remove(kind)
            line = self._lines[kind]
            if line:
                heappush(self._firsts, (*line[0], self._number[kind]))

    def _next(self, kind: Kind) -> None:
        line = self._lines[kind]
        heappop(line)
        if line:
            heappush(self._firsts, (*line[0], self._number[kind]))
