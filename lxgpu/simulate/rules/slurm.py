"""Slurm with preempt/qos: a group's jobs within its share may stop those that run beyond a share."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from lxgpu.model.quota import Policy
from lxgpu.simulate.floor import Floor
from lxgpu.simulate.jobs import Lab, Workload
from lxgpu.simulate.room import Place
from lxgpu.simulate.rules.lines import Lines
from lxgpu.simulate.rules.trial import Trial
from lxgpu.simulate.shares import owned_cards

EXEMPT_S = 0.0
"""PreemptExemptTime: so long a job runs before it may be preempted; Slurm's own default is not at all."""
REORDER_COUNT = 1
"""PreemptParameters=reorder_count, Slurm's own default."""


class Slurm:
    """SchedMD/slurm at 284c3b95f0: plugins/preempt/qos, interfaces/preempt.c, select/cons_tres/job_test.c (_run_now).

    Configured as a lab with owners would: PreemptType=preempt/qos, PreemptMode=REQUEUE,
    PreemptParameters=youngest_first, PreemptExemptTime. Each group has a QOS "normal" that GrpTRES bounds to the
    group's cards, and all have a QOS "scavenger" of lower priority that normal may preempt. A job is submitted to
    both (--qos=normal,scavenger) and starts in the first one that it can start in; it keeps that QOS until it ends or
    is requeued. A job that is over its QOS's bound, or finds no node, holds up nobody.

    Who is preempted, as in the source: running scavengers past their exempt time, the one that started last first,
    are taken out one by one until a node has room; then twice the last one taken and those on that node are put to
    the front and it is done again; those of the taken ones that are on that node are requeued. A requeued job waits
    as if it were submitted then (its age is counted anew); so does a holder, whose hold runs on meanwhile.

    Left out: backfill's time limits and plans (a job behind starts wherever there is room), priority by fair-share
    and size, grace times, the seconds between preemption and start and the delay after a requeue, partitions.
    """

    def __init__(self, floor: Floor, cards: dict[str, int], *, exempt_s: float = EXEMPT_S) -> None:
        """`cards`: what each group may have in its normal QOS."""
        self._floor, self._left, self._exempt_s = floor, dict(cards), exempt_s
        self._normal: Lines[tuple[str, int]] = Lines()
        self._scavenger: Lines[int] = Lines()
        self._asked = 0
        self._in_normal: set[int] = set()
        self._scavenging: dict[int, float] = {}  # since when, the last one last
        self._exempt: deque[float] = deque()  # until when scavengers are

    def asked(self, job: int) -> None:
        """It is submitted to both."""
        item = self._floor.jobs[job]
        self._normal.add((item.group, item.gpus), self._asked, job)
        self._scavenger.add(item.gpus, self._asked, job)
        self._asked += 1

    def ended(self, job: int) -> None:
        """Its cards are free, and its group may have more in normal."""
        self._drop(job)
        self._scavenging.pop(job, None)
        if job in self._in_normal:
            self._in_normal.remove(job)
            self._left[self._floor.jobs[job].group] += self._floor.jobs[job].gpus
        self._reopen()

    def turned(self, job: int) -> None:
        """What a card does is no matter here."""

    def decide(self) -> None:
        """First all who can start in normal, then those who fit as they are."""
        while self._exempt and self._exempt[0] <= self._floor.now:
            self._exempt.popleft()
            self._normal.reopen(self._within)
        while (first := self._normal.first()) is not None:
            job, kind = first
            place = self._place_in_normal(*kind)
            if place is None:
                self._normal.close(kind)
                continue
            self._drop(job)
            self._in_normal.add(job)
            self._left[kind[0]] -= kind[1]
            self._floor.start(job, place)
        while (other := self._scavenger.first()) is not None:
            job, gpus = other
            place = self._floor.rooms[0].find(gpus)
            if place is None:
                self._scavenger.close(gpus)
            else:
                self._scavenge(job, place)

    def _place_in_normal(self, group: str, gpus: int) -> Place | None:
        if not self._within((group, gpus)):
            return None
        place = self._floor.rooms[0].find(gpus)
        if place is not None:
            return place
        found = self._victims(gpus)
        if found is None:
            return None
        victims, place = found
        for victim in victims:
            del self._scavenging[victim]
            self._floor.stop(victim)
            self.asked(victim)
        self._reopen()
        return place

    def _victims(self, gpus: int) -> tuple[list[int], Place] | None:
        """Who goes, and where the job starts then."""
        now, exempt_s = self._floor.now, self._exempt_s
        order = [job for job, since in reversed(self._scavenging.items()) if since + exempt_s <= now]
        passes = 0
        while True:
            trial = Trial(self._floor, gpus)
            taken = trial.take_until_it_fits(order)
            if taken is None:
                return None
            place = trial.place()
            here = self._those_on(place, taken)
            if passes > REORDER_COUNT or len(order) <= passes + 1:
                return [job for job in taken if job in here], place
            passes += 1
            first = (taken[-1], *(job for job in taken[:-1] if job in here))
            order = [*first, *(job for job in order if job not in first)]

    def _those_on(self, place: Place, jobs: Iterable[int]) -> set[int]:
        servers = {server for server, _ in place}
        return {job for job in jobs if any(server in servers for server, _ in self._floor.place[job])}

    def _scavenge(self, job: int, place: Place) -> None:
        self._drop(job)
        self._scavenging[job] = self._floor.now
        self._floor.start(job, place)
        if self._exempt_s:
            self._exempt.append(self._floor.now + self._exempt_s)
            self._floor.wake(self._exempt[-1])
        else:
            self._normal.reopen(self._within)

    def _drop(self, job: int) -> None:
        self._normal.drop(job)
        self._scavenger.drop(job)

    def _within(self, kind: tuple[str, int]) -> bool:
        return kind[1] <= self._left[kind[0]]

    def _reopen(self) -> None:
        self._normal.reopen(self._within)
        self._scavenger.reopen()


def slurm(workload: Workload, lab: Lab, policy: Policy | None) -> tuple[Floor, Slurm]:
    """Shares as a QOS each, and a scavenger QOS."""
    floor = Floor(workload.jobs, lab)
    return floor, Slurm(floor, owned_cards(workload, lab, policy))
