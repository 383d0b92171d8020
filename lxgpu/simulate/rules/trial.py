"""The free cards as they would be if some jobs were stopped: who must go so that somebody finds a place."""

from __future__ import annotations

from collections.abc import Iterable

from lxgpu.simulate.floor import Floor
from lxgpu.simulate.room import Place


class Trial:
    """For one job that finds no place now. It counts servers, so that one more victim costs only its own servers."""

    def __init__(self, floor: Floor, gpus: int) -> None:
        """`gpus`: how many cards are looked for; more than one server has are whole servers and a rest."""
        room = floor.rooms[0]
        self._floor, self._most, self._gpus = floor, floor.lab.gpus_per_server, gpus
        self._whole, self._rest = divmod(gpus, self._most)
        self._more: dict[int, int] = {}
        self._empty, self._enough = room.at_least(self._most), room.at_least(self._rest)

    def fits(self) -> bool:
        """Whether there is a place now."""
        return self._empty >= self._whole and (not self._rest or self._enough > self._whole)

    def take(self, job: int) -> None:
        """As if that job were stopped too."""
        for server, gpus in self._floor.place[job]:
            self._change(server, gpus)

    def give_back(self, job: int) -> None:
        """As if that job were not stopped after all."""
        for server, gpus in self._floor.place[job]:
            self._change(server, -gpus)

    def take_until_it_fits(self, order: Iterable[int]) -> list[int] | None:
        """Jobs taken in that order, until there is a place; None if there is none even without all of them."""
        taken: list[int] = []
        for job in order:
            self.take(job)
            taken.append(job)
            if self.fits():
                return taken
        return None

    def spare(self, taken: list[int]) -> list[int]:
        """Those without whom there is no place: from the one before the last back, each is given back if it may be."""
        needed = taken[-1:]
        for job in reversed(taken[:-1]):
            self.give_back(job)
            if not self.fits():
                self.take(job)
                needed.append(job)
        return needed

    def place(self) -> Place:
        """Where the job goes, once there is a place: where it leaves the fewest cards free."""
        free = self._floor.free
        after = sorted((free[at] + self._more.get(at, 0), at) for at in range(len(free)))
        empty = [server for cards, server in after if cards == self._most][: self._whole]
        full = tuple((server, self._most) for server in empty)
        if not self._rest:
            return full
        last = next(server for cards, server in after if cards >= self._rest and server not in empty)
        return (*full, (last, self._rest))

    def _change(self, server: int, more: int) -> None:
        before = self._floor.free[server] + self._more.get(server, 0)
        after = before + more
        self._more[server] = self._more.get(server, 0) + more
        self._empty += (after == self._most) - (before == self._most)
        self._enough += (after >= self._rest) - (before >= self._rest)
