"""What holds for every rule whatever is asked: nothing is lost from the books, and the plain oracle agrees."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulate_oracle import Oracle

from lxgpu.simulate import rules
from lxgpu.simulate.engine import play
from lxgpu.simulate.jobs import Burst, Job, Lab, Workload, in_time

NAMES = sorted(rules.RULES)
OURS = {"lxgpu", "lxgpu-borrow"}
PLAIN = sorted(rules.RULES.keys() - OURS)
"""Those whose queue is their own: what a look costs under lxgpu is held by the benchmarks."""


@st.composite
def _jobs(draw, *, most=4, holders=False, unit_s=1, fewest=1):
    """Jobs of three groups, in units of so many seconds; some wider than any lab here."""
    kinds = st.booleans() if holders else st.just(value=False)
    count = draw(st.integers(fewest, fewest + 11))
    return in_time(_holder(draw, n) if draw(kinds) else _batch(draw, n, most, unit_s) for n in range(count))


def _batch(draw, number, most, unit_s):
    times = [st.integers(0, 30), st.integers(1, 25), st.integers(0, 8), st.integers(0, 3)]
    gpus = draw(st.integers(1, most))
    submit_s, duration_s, checkpoint_s, restart_s = (draw(one) * unit_s for one in times)
    group = draw(st.sampled_from("abc"))
    saving = {"checkpoint_s": checkpoint_s, "restart_s": restart_s}
    due = draw(st.none() | st.integers(1, 9000).map(lambda after: float(submit_s + after * unit_s)))
    asked = {"asked_s": draw(st.sampled_from((0.0, 1.0, 8.0))) * unit_s, "deadline_s": due}
    return Job(str(number), group, gpus, submit_s, duration_s, group=group, **saving, **asked)


def _holder(draw, number):
    submit_s, length_s = draw(st.integers(0, 3000)), draw(st.integers(1, 20_000))
    starts = sorted(draw(st.sets(st.integers(0, 20_000), max_size=4)))
    bursts = tuple(Burst(submit_s + start, draw(st.integers(1, 1000))) for start in starts) or (Burst(submit_s, 1),)
    group = draw(st.sampled_from("abc"))
    return Job(str(number), group, draw(st.integers(1, 2)), submit_s, length_s, group=group, bursts=bursts)


class Watched:
    """A rule whose floor is looked at after each decision."""

    def __init__(self, floor, rule) -> None:
        self._floor, self._rule = floor, rule
        self.asked, self.ended, self.turned = rule.asked, rule.ended, rule.turned

    def decide(self) -> None:
        """Let it decide; then no card has two jobs, and each job all its cards, on one server if it fits one."""
        self._rule.decide()
        floor = self._floor
        used = [0] * floor.lab.servers
        for item, place in zip(floor.jobs, floor.place, strict=True):
            assert not place or sum(gpus for _, gpus in place) == item.gpus
            assert len(place) <= -(-item.gpus // floor.lab.gpus_per_server)
            for server, gpus in place:
                used[server] += gpus
        assert [floor.lab.gpus_per_server - free for free in floor.free] == used
        assert max(used) <= floor.lab.gpus_per_server


def _played(name, jobs, lab):
    floor, rule = rules.make(name)(Workload("w", jobs), lab, None)
    play(floor, Watched(floor, rule))
    return floor


@pytest.mark.parametrize("name", ["fifo", "fifo-skip", "sjf", "srtf"])
@given(data=st.data(), servers=st.integers(1, 3))
def test_a_room_that_is_looked_at_each_second_gives_the_same(name, data, servers):
    """A room that is looked at each second gives the same."""
    jobs = data.draw(_jobs(most=4 if name == "srtf" else 9))
    floor = _played(name, jobs, Lab(servers, 4))
    seconds = Oracle(name, list(jobs), servers, 4).play()
    assert floor.first_start == [one.first_start for one in seconds]
    assert floor.finish == [one.finish for one in seconds]
    assert floor.stops == [one.stops for one in seconds]


@pytest.mark.parametrize("name", NAMES)
@given(jobs=_jobs(most=9), servers=st.integers(3, 4))
def test_what_is_delivered_was_asked_for_or_is_lost(name, jobs, servers):
    """What is delivered was asked for or is lost, and whoever can ever fit is done at the end."""
    floor = _played(name, jobs, Lab(servers, 4))
    done = [item for item, finish in zip(jobs, floor.finish, strict=True) if finish is not None]
    assert floor.delivered_gpu_s == sum(item.demand_gpu_s for item in done) + floor.lost_gpu_s
    assert floor.lost_gpu_s >= 0
    assert floor.free == [4] * servers
    if name in OURS:  # a container is on one host
        assert len(done) == sum(item.gpus <= 4 for item in jobs)
    elif name != "static":
        assert len(done) == len(jobs)
    assert all(start is None for start, end in zip(floor.first_start, floor.finish, strict=True) if end is None)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=40)
@given(jobs=_jobs(holders=True))
def test_with_holders_no_more_is_delivered_than_they_worked_and_the_cards_come_back(name, jobs):
    """With holders no more is delivered than they worked and the cards come back."""
    floor = _played(name, jobs, Lab(3, 4))
    assert floor.delivered_gpu_s - floor.lost_gpu_s <= sum(item.demand_gpu_s for item in jobs) + 1e-6
    assert None not in floor.finish
    assert floor.free == [4, 4, 4]


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=40)
@given(jobs=_jobs(holders=True))
def test_the_same_workload_gives_the_same_run(name, jobs):
    """The same workload gives the same run."""
    one, other = (_played(name, jobs, Lab(3, 4)) for _ in range(2))
    assert (one.first_start, one.finish, one.stops) == (other.first_start, other.finish, other.stops)
    assert (one.delivered_gpu_s, one.lost_gpu_s, one.events) == (other.delivered_gpu_s, other.lost_gpu_s, other.events)


@settings(max_examples=60)
@given(jobs=_jobs(holders=True, unit_s=600, fewest=8), servers=st.integers(1, 2))
def test_under_lxgpu_hours_of_work_are_taken_and_cut_off_and_all_get_done_the_same_way_each_time(jobs, servers):
    """Deadlines, holders, and owners who ask for too little, long enough that runtime and leases are over meanwhile."""
    floor, other = (_played("lxgpu", jobs, Lab(servers, 4)) for _ in range(2))
    assert (floor.first_start, floor.finish, floor.stops) == (other.first_start, other.finish, other.stops)
    assert None not in floor.finish
    assert floor.free == [4] * servers
    assert floor.lost_gpu_s >= 0
    batch = sum(item.demand_gpu_s for item in jobs if not item.bursts)
    done = floor.delivered_gpu_s - floor.lost_gpu_s
    assert batch - 1e-3 <= done <= sum(item.demand_gpu_s for item in jobs) + 1e-3


@pytest.mark.parametrize("name", PLAIN)
def test_a_queue_that_is_four_times_as_deep_costs_no_more_a_job(name):
    """A queue that is four times as deep costs no more a job."""
    shallow, deep = (_calls(name, count) / count for count in (500, 2000))
    assert deep <= 1.3 * shallow


def _calls(name, count):
    """How many functions are called, Python's own too, while more and more jobs wait on an overloaded lab."""
    kinds = [(1, "a"), (2, "b"), (4, "c"), (1, "b"), (8, "a"), (3, "c")]
    jobs = tuple(
        Job(str(n), "x", kinds[n % 6][0], n, 30 + 17 * n % 90, group=kinds[n % 6][1], checkpoint_s=10, restart_s=1)
        for n in range(count)
    )
    floor, rule = rules.make(name)(Workload("w", jobs), Lab(3, 8), None)
    calls = 0

    def note(_frame, event, _what):
        nonlocal calls
        calls += event in {"call", "c_call"}

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        play(floor, rule)
    finally:
        sys.setprofile(before)
    return calls
