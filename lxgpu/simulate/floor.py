"""The machine room in virtual time: which job has cards where, what it got done, and what happens next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from itertools import accumulate
from math import inf

from lxgpu.simulate.jobs import Burst, Job, Lab
from lxgpu.simulate.room import Place, Room

Event = tuple[float, int, int, int]
"""When, in which order of one instant, whose (-1: the rule's own), and its mark (one that changed since counts not)."""
SOON_S = 900.0
"""A holder whose idle card was taken and who works again within this had it taken falsely."""


class Floor:
    """Jobs are known by their place in the list, cards are counted by server; a rule says who starts and stops."""

    def __init__(self, jobs: Sequence[Job], lab: Lab, shares: Sequence[int] = ()) -> None:
        """`shares`: how many servers each part of a divided lab has, one after the other; one part when not given."""
        count = len(jobs)
        self.jobs, self.lab, self.now = jobs, lab, 0.0
        self.free = [lab.gpus_per_server] * lab.servers
        ends = [*accumulate(shares or (lab.servers,))]
        parts = [range(end - share, end) for end, share in zip(ends, shares or (lab.servers,), strict=True)]
        self.rooms = [Room(part, lab.gpus_per_server) for part in parts]
        self._room = [room for room, part in zip(self.rooms, parts, strict=True) for _ in part]
        self.place: list[Place] = [()] * count
        """Of each job the servers and how many of their cards it has now."""
        self.first_start: list[float | None] = [None] * count
        self.finish: list[float | None] = [None] * count
        self.stops = [0] * count
        self.delivered_gpu_s = self.lost_gpu_s = self.reclaimed_gpu_s = 0.0
        self.false_reclaims = self.events = 0
        self.last_s = 0.0
        """When a job last began, stopped, ended, or was done with a burst; a rule's own wake-ups do not count."""
        self.log: list[int] | None = None
        """For one who watches: each job that gets its cards, and as `~job` each that leaves them."""
        self.switched: list[int] | None = None
        """For one who watches: each job that goes to work on cards of others, or stops there."""
        self.borrowed_gpu_s: float | None = None
        """Work on cards of others; None where these are not lent on."""
        self.held_up_gpu_s = self.holders_gpu_s = 0.0
        """For how long work of holders stood still that they wanted, with or without cards; and how much they did."""
        self.effective: float | None = None
        self._heap: list[Event] = []
        self._order = 0
        self._mark = [0] * count
        self._burst = [0] * count
        self._done = [0.0] * count  # of the burst that is at work or wanted next, as far as it is saved
        self._restart = [0.0] * count
        self._since: list[float | None] = [None] * count  # at work since
        self._ready = [0.0] * count  # of a holder: since when it could have begun what it wants next
        self._taken: dict[int, list[tuple[float, int]]] = {}  # of whose idle cards were taken: when, and how many

    def start(self, job: int, place: Place) -> None:
        """Give a job its cards, so many of each server."""
        self.last_s = self.now
        for server, gpus in place:
            self._change(server, -gpus)
        self.place[job] = place
        if self.log is not None:
            self.log.append(job)
        self._reclaimed(job)
        if self.first_start[job] is None:
            self.first_start[job] = self._ready[job] = self.now
            if self.jobs[job].bursts:
                self._push(self.now + self.jobs[job].duration_s, job, -1)
        self._turn(job)

    def stop(self, job: int, taken: int | None = None) -> bool:
        """Take a job's cards; returns whether it was at work. What it did since its last save is lost.

        `taken`: how many of them it loses, all where not said; it works with none of them until it is started again.
        """
        item = self.jobs[job]
        self.last_s = self.now
        at_work = self._since[job] is not None
        if at_work:
            self._interrupt(job, item)
        elif item.bursts:
            self._taken[job] = [(self.now, item.gpus if taken is None else taken)]
            wanted = self._wanted(job)
            self.false_reclaims += wanted is not None and wanted.start_s < self.now + SOON_S
        self.stops[job] += 1
        self._mark[job] += 1
        self._leave(job)
        return at_work

    def take_more(self, job: int, taken: int) -> None:
        """Cards that somebody kept, whose others were taken before, are taken as well."""
        if job in self._taken:
            self._taken[job].append((self.now, taken))

    def wake(self, at: float) -> None:
        """Let the rule decide again at that time."""
        self._push(at, -1, 0)

    def working(self, job: int) -> bool:
        """Whether a job's cards are at work now."""
        return self._since[job] is not None

    def wanted_at(self, job: int) -> float | None:
        """When a holder would work next (the past: it waits for cards to work); None: not any more."""
        wanted = self._wanted(job)
        return None if wanted is None else wanted.start_s

    def left_s(self, job: int) -> float:
        """How much longer a batch job must run, if it goes on (or starts) now."""
        since, item = self._since[job], self.jobs[job]
        ran = 0.0 if since is None else self.now - since
        return item.duration_s - self._done[job] + self._restart[job] - ran

    def unsaved_s(self, job: int) -> float:
        """How much of what a job did would be lost if it were stopped now."""
        since, item = self._since[job], self.jobs[job]
        if since is None:
            return 0.0
        ran = self.now - since
        done = self._done[job] + max(0.0, ran - self._restart[job])
        return done - saved_s(done, item.checkpoint_s)

    def done_gpu_s(self) -> float:
        """Work so far that was not lost up to now; what is not saved yet counts."""
        running = (
            (self.now - since - min(self.now - since, self._restart[job])) * self.jobs[job].gpus
            for job, since in enumerate(self._since)
            if since is not None
        )
        return self.delivered_gpu_s - self.lost_gpu_s + sum(running)

    def demand_ends(self) -> None:
        """Nothing more will be asked for: how much of the card time from the first submission on was work."""
        room = (self.now - self.jobs[0].submit_s) * self.lab.cards
        self.effective = self.done_gpu_s() / room if room > 0 else None

    def next_at(self) -> float:
        """When something happens next of itself."""
        return self._heap[0][0] if self._heap else inf

    def pass_to(self, at: float) -> Iterator[tuple[int, bool]]:
        """Let time pass; gives each job that ended (True) or went to work or to rest (False) at that time."""
        self.now = at
        while self._heap and self._heap[0][0] <= at:
            _, _, job, mark = heappop(self._heap)
            self.events += 1
            if job < 0:
                continue
            if mark == -1:
                if self.finish[job] is None:
                    self._end(job)
                    yield job, True
            elif mark == self._mark[job] and self._edge(job):
                yield job, self.finish[job] is not None

    def _turn(self, job: int) -> None:
        """Begin the next burst, or wait for it."""
        wanted = self._wanted(job)
        if wanted is None:
            return
        if wanted.start_s > self.now:
            self._push(wanted.start_s, job, self._mark[job])
            return
        self._since[job] = self.now
        self._push(self.now + self._restart[job] + wanted.work_s - self._done[job], job, self._mark[job])

    def _edge(self, job: int) -> bool:
        """A burst that is over, or one that begins; of a batch job the end."""
        since, item = self._since[job], self.jobs[job]
        if since is None:
            self._turn(job)
            return True
        self.last_s = self.now
        self.delivered_gpu_s += (self.now - since) * item.gpus
        self.lost_gpu_s += self._restart[job] * item.gpus
        if item.bursts:
            self._count_held_up(job, self._wanted(job), item.bursts[self._burst[job]].work_s)
        self._since[job], self._done[job], self._restart[job] = None, 0.0, 0.0
        if not item.bursts:
            self._end(job)
            return True
        self._burst[job] += 1
        self._turn(job)
        return self._since[job] is None

    def _end(self, job: int) -> None:
        since, item = self._since[job], self.jobs[job]
        self.last_s = self.now
        if item.bursts:
            ran = 0.0 if since is None else max(0.0, self.now - since - self._restart[job])
            self._count_held_up(job, self._wanted(job), self._done[job] + ran)
        if since is not None:  # a holder's time is over in the midst of a burst
            self.delivered_gpu_s += (self.now - since) * item.gpus
            self.lost_gpu_s += min(self.now - since, self._restart[job]) * item.gpus
            self._since[job] = None
        self._reclaimed(job)
        self.finish[job] = self.now
        self._mark[job] += 1
        self._leave(job)

    def _interrupt(self, job: int, item: Job) -> None:
        since = self._since[job]
        ran = self.now - (self.now if since is None else since)
        restart = min(ran, self._restart[job])
        done = self._done[job] + ran - restart
        saved = saved_s(done, item.checkpoint_s)
        self.delivered_gpu_s += ran * item.gpus
        self.lost_gpu_s += (done - saved + restart) * item.gpus
        self._done[job], self._restart[job], self._since[job] = saved, item.restart_s, None

    def _wanted(self, job: int) -> Burst | None:
        item = self.jobs[job]
        if not item.bursts:
            return Burst(0.0, item.duration_s)
        return item.bursts[self._burst[job]] if self._burst[job] < len(item.bursts) else None

    def _count_held_up(self, job: int, burst: Burst | None, done_s: float) -> None:
        """So much of a holder's burst is done: what it took beyond that, the holder stood still."""
        begin = self.now if burst is None else max(burst.start_s, self._ready[job])
        if begin < self.now:
            gpus = self.jobs[job].gpus
            self.holders_gpu_s += done_s * gpus
            self.held_up_gpu_s += max(0.0, self.now - begin - done_s) * gpus
        self._ready[job] = self.now

    def _reclaimed(self, job: int) -> None:
        for since, taken in self._taken.pop(job, ()):
            self.reclaimed_gpu_s += (self.now - since) * taken

    def _leave(self, job: int) -> None:
        if self.log is not None and self.place[job]:
            self.log.append(~job)
        for server, gpus in self.place[job]:
            self._change(server, gpus)
        self.place[job] = ()

    def _change(self, server: int, more: int) -> None:
        before = self.free[server]
        after = before + more
        if not 0 <= after <= self.lab.gpus_per_server:
            raise AssertionError(f"server {server} has {before} free cards, not {after}")
        self.free[server] = after
        self._room[server].change(server, before, after)

    def _push(self, at: float, job: int, mark: int) -> None:
        self._order += 1
        heappush(self._heap, (at, self._order, job, mark))


def saved_s(done_s: float, checkpoint_s: float) -> float:
    """How much of what was done would be there after an interruption; seconds."""
    return done_s - done_s % checkpoint_s if checkpoint_s > 0 else 0.0
