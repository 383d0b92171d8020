"""Whom the rules with owners stop, whatever is asked: for a place on one server, and for somebody within their own."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lxgpu.simulate.engine import play
from lxgpu.simulate.floor import Floor
from lxgpu.simulate.jobs import Job, Lab, in_time
from lxgpu.simulate.rules.kueue import Kueue
from lxgpu.simulate.rules.slurm import Slurm

OWN = {"a": 6, "b": 2, "c": 0}
GPUS = 4


class Noting(Floor):
    """A floor that keeps who was stopped for whom: victims with their places, and who started then and where."""

    def __init__(self, jobs) -> None:
        super().__init__(jobs, Lab(2, GPUS))
        self.taken, self._victims, self._before = [], [], {}

    def use(self, group):
        """How many cards a group has now."""
        mine = zip(self.jobs, self.place, strict=True)
        return sum(gpus for item, place in mine if item.group == group for _, gpus in place)

    def stop(self, job):
        """Note the place, and of the first one what each group has then."""
        if not self._victims:
            self._before = {group: self.use(group) for group in OWN}
        self._victims.append((self.jobs[job], self.place[job], self._before[self.jobs[job].group]))
        return super().stop(job)

    def start(self, job, place):
        """Note for whom."""
        if self._victims:
            left = {server: self.free[server] - gpus for server, gpus in place}
            self.taken.append((self._victims, self.jobs[job], left, self.use(self.jobs[job].group)))
            self._victims = []
        super().start(job, place)


@st.composite
def _jobs(draw):
    sizes, groups = st.integers(1, GPUS), st.sampled_from("abc")
    rows = draw(st.lists(st.tuples(sizes, st.integers(0, 40), st.integers(1, 40), groups), min_size=1, max_size=16))
    return in_time(Job(str(n), "x", gpus, at, long, group=group) for n, (gpus, at, long, group) in enumerate(rows))


@pytest.mark.parametrize("rule", [Slurm, Kueue])
@given(jobs=_jobs())
def test_victims_leave_one_server_to_somebody_within_their_own(rule, jobs):
    """Victims leave one server to somebody within their own."""
    floor = Noting(jobs)
    play(floor, rule(floor, OWN))
    for victims, item, left, _ in floor.taken:
        assert item.gpus <= OWN[item.group]
        assert {server for _, place, _ in victims for server, _ in place} == left.keys()


@given(jobs=_jobs())
def test_kueue_takes_only_what_is_borrowed_and_nothing_that_it_could_spare(jobs):
    """Kueue takes only what is borrowed and nothing that it could spare."""
    floor = Noting(jobs)
    play(floor, Kueue(floor, OWN))
    for victims, item, left, use in floor.taken:
        assert use + item.gpus <= OWN[item.group]
        assert all(use > OWN[victim.group] for victim, _, use in victims)
        assert all(spare < victim.gpus for victim, _, _ in victims for spare in left.values())
