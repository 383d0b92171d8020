"""Whatever lab is made up: the same again for the same words, sorted, as much as asked for; slices keep their jobs."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from statistics import mean

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lxgpu.errors import LxgpuError
from lxgpu.simulate.jobs import NO_WORK, Lab
from lxgpu.simulate.readers.slicing import sliced
from lxgpu.simulate.synthetic import MODELS, generate

DAY = 86400
LABS = st.builds(Lab, st.integers(1, 12), st.sampled_from([2, 4, 8]))
SEEDS = st.integers(0, 2**32)


def asked(workload):
    """GPU-seconds that are asked for; who holds cards asks for them the whole time."""
    return sum(job.gpus * job.duration_s for job in workload.jobs)


@given(st.sampled_from(sorted(MODELS)), LABS, st.integers(1, 35), st.floats(0.1, 3), SEEDS)
@settings(max_examples=60, deadline=None)
def test_a_made_up_lab_is_possible_and_the_same_again(name, lab, days, load, seed):
    """It is sorted, its jobs fit the lab and its days, and the same words give the same jobs."""
    made = generate(name, lab, days=days, load=load, seed=seed)
    assert made == generate(name, lab, days=days, load=load, seed=seed)
    times = [job.submit_s for job in made.jobs]
    assert times == sorted(times)
    assert len({job.id for job in made.jobs}) == len(made.jobs)
    for job in made.jobs:
        assert 0 <= job.submit_s <= days * DAY
        assert 0 < job.duration_s <= max(3, days) * DAY
        assert 1 <= job.gpus <= lab.cards
        assert job.deadline_s is None or job.submit_s + job.duration_s <= job.deadline_s
        assert job.owner
        assert job.group


@given(st.sampled_from(sorted(MODELS)), LABS, st.integers(7, 35), st.floats(0.2, 3), SEEDS)
@settings(max_examples=60, deadline=None)
def test_it_asks_for_as_much_as_is_wanted(name, lab, days, load, seed):
    """The GPU-time asked for is the load times the cards' time, within a tenth."""
    made = generate(name, lab, days=days, load=load, seed=seed)
    assert asked(made) == pytest.approx(load * lab.cards * days * DAY, rel=0.1)


@given(LABS.filter(lambda lab: lab.cards >= 8), st.integers(14, 35), SEEDS)
@settings(max_examples=40, deadline=None)
def test_holders_of_the_idle_lab_work_thirty_percent_of_the_time(lab, days, seed):
    """The holders' cards work 27 to 33 % of the time held, and there are always holders and others who wait."""
    made = generate("idle", lab, days=days, seed=seed)
    holders = [job for job in made.jobs if job.bursts]
    held = sum(job.gpus * job.duration_s for job in holders)
    assert sum(job.demand_gpu_s for job in holders) / held == pytest.approx(0.30, abs=0.03)
    assert sum(job.gpus for job in holders) == pytest.approx(0.8 * lab.cards, abs=0.5)
    assert {job.class_name for job in made.jobs if not job.bursts} == {"scavenge"}


@given(st.sampled_from(["lab", "idle"]), LABS, st.integers(1, 28), SEEDS)
@example("idle", Lab(7, 4), 1, 205).via("somebody who does not work at all that day")
@settings(max_examples=40, deadline=None)
def test_bursts_lie_in_the_hold_one_after_the_other(name, lab, days, seed):
    """No burst begins before the hold or before the one before it is over, or ends after the hold."""
    for job in generate(name, lab, days=days, seed=seed).jobs:
        if job.bursts == NO_WORK:
            continue
        for burst in job.bursts:
            assert burst.start_s >= job.submit_s
            assert burst.work_s > 0
            assert burst.start_s + burst.work_s <= job.submit_s + job.duration_s + 1e-3
        for one, other in pairwise(job.bursts):
            assert one.start_s + one.work_s <= other.start_s


@given(SEEDS)
@settings(max_examples=20, deadline=None)
def test_nights_and_weekends_of_the_idle_lab_are_idle(seed):
    """Bursts lie between eight in the morning and midnight, from Monday to Friday."""
    for job in generate("idle", Lab(2, 8), seed=seed).jobs:
        for burst in job.bursts:
            day, second = divmod(burst.start_s, DAY)
            assert day % 7 < 5
            assert second >= 8 * 3600
            assert second + burst.work_s <= DAY


@given(SEEDS)
@settings(max_examples=10, deadline=None)
def test_demand_follows_the_hours_of_the_week(seed):
    """More is asked for by day than by night, and on a workday than on a Sunday."""
    times = [job.submit_s for job in generate("lab", Lab(12, 8), seed=seed).jobs]
    hours = Counter(int(at // 3600) % 24 for at in times)
    days = Counter(int(at // DAY) % 7 for at in times)
    assert sum(hours[hour] for hour in range(9, 18)) > 4 * sum(hours[hour] for hour in range(7))
    assert days[2] > 1.5 * days[6]


@given(SEEDS)
@settings(max_examples=10, deadline=None)
def test_a_deadline_is_rushed_at(seed):
    """Of the jobs with the deadline half come in the last fifth of the time before it."""
    jobs = [job for job in generate("deadline", Lab(12, 8), seed=seed).jobs if job.deadline_s is not None]
    due = jobs[0].deadline_s
    assert {job.deadline_s for job in jobs} == {due}
    assert sum(job.submit_s > 0.8 * due for job in jobs) > 0.5 * len(jobs)


@given(SEEDS)
@settings(max_examples=5, deadline=None)
def test_philly_like_jobs_are_like_philly(seed):
    """Nine tenths have one GPU; a half ends within 20 minutes; the large ones run far longer than the small ones."""
    jobs = generate("philly-like", Lab(60, 8), seed=seed).jobs
    single = sorted(job.duration_s for job in jobs if job.gpus == 1)
    assert len(single) / len(jobs) == pytest.approx(0.93, abs=0.02)
    assert single[len(single) // 2] == pytest.approx(1117, rel=0.1)
    assert mean(job.duration_s for job in jobs if job.gpus >= 4) > 5 * mean(single)


@pytest.mark.parametrize("seed", range(6))
def test_a_slice_of_a_trace_with_much_to_choose_from_has_the_load_asked_for(seed):
    """To a fiftieth."""
    part = sliced(generate("deadline", Lab(30, 8), seed=1), cards=64, load=0.87, jobs=570, seed=seed)
    assert sum(job.demand_gpu_s for job in part.jobs) == pytest.approx(0.87 * 64 * part.jobs[-1].submit_s, rel=0.02)


@given(st.integers(50, 400), st.floats(0.5, 1.2), SEEDS)
@example(jobs=296, load=0.5, seed=31)
@settings(max_examples=30, deadline=None)
def test_a_slice_has_the_jobs_and_the_load_asked_for(jobs, load, seed):
    """Its jobs are those of the trace, moved in time as one, and as many as asked for; its load is of that order.

    Where hardly more jobs are left than are asked for there is no stretch to choose.
    """
    trace = generate("deadline", Lab(30, 8), seed=1)
    part = sliced(trace, cards=16, load=load, jobs=jobs, seed=seed)
    assert part == sliced(trace, cards=16, load=load, jobs=jobs, seed=seed)
    assert len(part.jobs) == jobs
    assert sum(job.demand_gpu_s for job in part.jobs) == pytest.approx(load * 16 * part.jobs[-1].submit_s, rel=0.8)
    whole = {job.id: job for job in trace.jobs}
    shift = (part.start - trace.start).total_seconds()
    for job in part.jobs:
        old = whole[job.id]
        assert (job.gpus, job.duration_s, job.owner) == (old.gpus, old.duration_s, old.owner)
        assert job.submit_s == pytest.approx(old.submit_s - shift, abs=1e-3)
        if old.deadline_s is not None:
            assert job.deadline_s - job.submit_s == pytest.approx(old.deadline_s - old.submit_s)


@given(st.integers(1, 9), SEEDS)
@settings(max_examples=20, deadline=None)
def test_a_slice_without_large_jobs_has_the_load_of_the_others(largest, seed):
    """None is larger; the load is as asked for, made of those that are left, and what was left out is said."""
    trace = generate("deadline", Lab(30, 8), seed=1)
    part = sliced(trace, cards=16, load=0.8, jobs=100, seed=seed, largest=largest)
    assert all(job.gpus <= largest for job in part.jobs)
    assert sum(job.demand_gpu_s for job in part.jobs) == pytest.approx(0.8 * 16 * part.jobs[-1].submit_s, rel=0.15)
    assert f"of at most {largest} GPUs" in part.source
    if largest >= 8:
        whole = sliced(trace, cards=16, load=0.8, jobs=100, seed=seed)
        assert part.jobs == whole.jobs


def test_a_slice_that_the_trace_does_not_have_is_refused():
    """A slice that the trace does not have is refused."""
    with pytest.raises(LxgpuError, match="has no 5000 jobs"):
        sliced(generate("lab", Lab(1, 8)), cards=8, load=0.9, jobs=5000)
