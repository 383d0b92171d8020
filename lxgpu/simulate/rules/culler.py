"""An idle culler: whose card was idle for a fixed time is stopped, whether or not anybody waits."""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush
from math import ceil, inf

from lxgpu.model.quota import Policy
from lxgpu.simulate.floor import Floor
from lxgpu.simulate.jobs import Lab, Workload

TIMEOUT_S = 3600.0
"""So long a card is idle before its holder is culled."""
EVERY_S = 600.0
"""So often the culler looks; 0: it sees it at once."""


class Culler:
    """jupyterhub/jupyterhub-idle-culler at 8e625a4 (cull_idle), with time-outs as in its chart for Kubernetes.

    At each check, every so often on the clock, each server whose last activity is at least the time-out ago is shut
    down, without a warning and whoever waits. Activity is work on the cards; before the first there is the start.
    A holder comes back by asking again as anybody does: it goes to the end of the line at the time when it would
    work next, or never if it would work no more; its hold ends when it would have ended anyway. The line is first
    come, first served. Batch jobs are never idle.

    Left out: max_age, culling of users, activity that is no work (an open browser tab counts as such there).
    """

    def __init__(self, floor: Floor, *, timeout_s: float = TIMEOUT_S, every_s: float = EVERY_S) -> None:
        """Both in seconds."""
        self._floor, self._timeout_s, self._every_s = floor, timeout_s, every_s
        self._line: deque[int] = deque()
        self._idle: dict[int, float] = {}  # holders with idle cards, and since when
        self._checks: list[tuple[float, int]] = []
        self._back: list[tuple[float, int]] = []

    def asked(self, job: int) -> None:
        """It goes to the end of the line; who could never fit is turned away."""
        if self._floor.jobs[job].gpus <= self._floor.rooms[0].cards:
            self._line.append(job)

    def ended(self, job: int) -> None:
        """Its cards are idle no more."""
        self._idle.pop(job, None)

    def turned(self, job: int) -> None:
        """From work to rest, or back."""
        self._idle.pop(job, None)
        if self._floor.place[job] and not self._floor.working(job):
            self._rests(job)

    def decide(self) -> None:
        """Those who are due are culled, those who want to work ask again, and the first ones start."""
        now, floor = self._floor.now, self._floor
        while self._checks and self._checks[0][0] <= now:
            _, job = heappop(self._checks)
            if self._idle.get(job, inf) + self._timeout_s <= now:
                self._cull(job)
        while self._back and self._back[0][0] <= now:
            self._line.append(heappop(self._back)[1])
        while self._line:
            job = self._line[0]
            place = None if floor.finish[job] is not None else floor.rooms[0].find(floor.jobs[job].gpus)
            if place is not None:
                floor.start(job, place)
                if floor.jobs[job].bursts and not floor.working(job):
                    self._rests(job)
            elif floor.finish[job] is None:
                return
            self._line.popleft()

    def _rests(self, job: int) -> None:
        self._idle[job] = self._floor.now
        due = self._floor.now + self._timeout_s
        if self._every_s:
            due = max(due, ceil(due / self._every_s) * self._every_s)
        heappush(self._checks, (due, job))
        self._floor.wake(due)

    def _cull(self, job: int) -> None:
        del self._idle[job]
        wanted = self._floor.wanted_at(job)
        self._floor.stop(job)
        if wanted is not None:
            heappush(self._back, (wanted, job))
            self._floor.wake(wanted)


def culler(workload: Workload, lab: Lab, _policy: Policy | None) -> tuple[Floor, Culler]:
    """Fixed time-outs."""
    floor = Floor(workload.jobs, lab)
    return floor, Culler(floor)
