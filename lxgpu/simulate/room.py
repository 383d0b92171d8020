"""Which servers have so many free cards, without looking at each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

Place = tuple[tuple[int, int], ...]
"""Servers, and how many cards of each."""


class Room:
    """Servers of one size by how many of their cards are free; of several the one that was there longest."""

    def __init__(self, servers: Iterable[int], gpus_per_server: int) -> None:
        self._most = gpus_per_server
        self._with: list[dict[int, None]] = [{} for _ in range(gpus_per_server + 1)]
        self._with[gpus_per_server] = dict.fromkeys(servers)
        self.cards = self.free = len(self._with[gpus_per_server]) * gpus_per_server

    def find(self, gpus: int) -> Place | None:
        """Where a job goes: on the server where it leaves the fewest cards free. A larger one takes whole servers."""
        if gpus > self.free:
            return None
        if gpus <= self._most:
            server = self._smallest(gpus)
            return None if server is None else ((server, gpus),)
        whole, rest = divmod(gpus, self._most)
        servers = tuple(islice(self._with[self._most], whole))
        if len(servers) < whole:
            return None
        last = self._smallest(rest, but=servers) if rest else None
        if rest and last is None:
            return None
        full = tuple((server, self._most) for server in servers)
        return full if last is None else (*full, (last, rest))

    def at_least(self, gpus: int) -> int:
        """How many servers have at least so many free cards."""
        return sum(map(len, self._with[gpus:]))

    def largest(self) -> int:
        """How many free cards the server has that has most."""
        return next(gpus for gpus in range(self._most, -1, -1) if self._with[gpus])

    def change(self, server: int, before: int, after: int) -> None:
        """A server has another number of free cards."""
        del self._with[before][server]
        self._with[after][server] = None
        self.free += after - before

    def _smallest(self, gpus: int, but: Sequence[int] = ()) -> int | None:
        """A server with at least so many free cards, and as few more as there are."""
        fitting = (server for free in range(gpus, self._most + 1) for server in self._with[free])
        return next((server for server in fitting if server not in but), None)
