"""When jobs' cards do nothing, and since when: from that lxgpu's policy judges them busy or idle."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from heapq import heappop, heappush

from lxgpu.model.gpu import Slot
from lxgpu.simulate.floor import Floor
from lxgpu.simulate.site import Site


class Rest:
    """Watches who works. A card that rests is idle after the policy's window, if it rests on until then."""

    def __init__(self, floor: Floor, site: Site) -> None:
        self._floor, self._site = floor, site
        self._since: dict[int, float] = {}
        self._ends: list[tuple[float, int]] = []
        """When the window of each is over that began to rest; who worked meanwhile began another one."""

    def turned(self, job: int, slots: Sequence[Slot]) -> None:
        """A job's cards went to work, or to rest."""
        if self._floor.working(job):
            self.forget(job)
            self._site.works(slots)
            return
        self._since[job] = self._floor.now
        self._site.rests(slots, self._site.now, idle=False)
        at = self._floor.now + self._window_s
        heappush(self._ends, (at, job))
        self._floor.wake(at)

    def forget(self, job: int) -> None:
        """A job works, or is over."""
        self._since.pop(job, None)

    def over(self) -> Iterator[int]:
        """Those whose window is over by now, and who did nothing in all of it."""
        while self._ends and self._ends[0][0] <= self._floor.now:
            at, job = heappop(self._ends)
            since = self._since.get(job)
            if since is not None and since + self._window_s <= at:
                yield job

    def idle(self, slots: Iterable[Slot]) -> None:
        """Cards that are idle now."""
        self._site.rests(slots, self._site.now - timedelta(seconds=self._window_s), idle=True)

    @property
    def _window_s(self) -> int:
        return self._site.policy.rules.idle.window_s
