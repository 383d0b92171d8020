"""Several runs of one workload, and what a watcher sees: it changes nothing, and its sums are those of the run."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lxgpu.model.quota import Group, Policy, Total
from lxgpu.simulate.jobs import Burst, Job, Lab, Workload, in_time
from lxgpu.simulate.outcome import group_of
from lxgpu.simulate.rules import RULES, make
from lxgpu.simulate.runs import DIVIDING, READERS, Asked, asked, fitting, run
from lxgpu.simulate.series import FREE, OTHERS, Curve

ONE, TWO = ("one.yaml", Policy()), ("two.yaml", Policy(admins=frozenset({"ann"})))


@pytest.mark.parametrize(
    ("rules", "policies", "wanted"),
    [
        ([], [], ["lxgpu"]),
        (["fifo", "sjf", "fifo"], [], ["fifo", "sjf"]),
        ([], [ONE, TWO], ["lxgpu one.yaml", "lxgpu two.yaml"]),
        (["fifo"], [ONE], ["fifo", "lxgpu one.yaml"]),
        (["lxgpu", "static"], [ONE, TWO], ["lxgpu one.yaml", "lxgpu two.yaml", "static one.yaml"]),
    ],
)
def test_each_rule_runs_once_and_lxgpu_once_for_each_policy(rules, policies, wanted):
    """Each rule runs once, and lxgpu once for each policy; rules that divide the lab do it by the first one."""
    assert [one.name for one in asked(rules, policies)] == wanted
    assert all((one.rules is not None) == (one.policy is not None) for one in asked(rules, policies))


@pytest.mark.parametrize("rule", sorted(set(RULES) - READERS))
def test_a_rule_that_is_not_said_to_read_a_policy_does_not(rule):
    """A rule that is not said to read a policy does not, and one that is does."""
    jobs = tuple(Job(str(at), "p", 4, at, 900, group=group) for at, group in enumerate(["red", "blue", "blue"] * 9))
    work, promised = Workload("w", jobs), {"red": 12, "blue": 4}
    groups = {name: Group(name, total=Total(guaranteed=count)) for name, count in promised.items()}
    without, by_policy = (
        run(work, Lab(4, 4), Asked(rule, "f", one), make(rule)) for one in (None, Policy(groups=groups))
    )
    assert (without.outcome.wait_by_group != by_policy.outcome.wait_by_group) == (rule in DIVIDING)


def test_what_is_larger_than_the_lab_is_left_out():
    """What is larger than the lab is left out, and counted; what is as large is not."""
    work = Workload("w", (Job("a", "a", 9, 0, 1), Job("b", "b", 8, 0, 1), Job("c", "c", 1, 0, 1)))
    fits, left_out = fitting(work, Lab(2, 4))
    assert ([job.id for job in fits.jobs], left_out) == (["b", "c"], 1)
    assert fitting(fits, Lab(2, 4)) == (fits, 0)


@st.composite
def _workloads(draw):
    jobs = []
    for number in range(draw(st.integers(1, 25))):
        at = draw(st.integers(0, 5000))
        bursts = (Burst(at + 100, 50), Burst(at + 900, 700)) if draw(st.booleans()) else ()
        group = draw(st.sampled_from(["", "red", "blue", *(f"g{one}" for one in range(9))]))
        size, length = draw(st.integers(1, 6)), draw(st.integers(1, 4000))
        jobs.append(Job(str(number), "p", size, at, length, group=group, bursts=bursts))
    return Workload("w", in_time(jobs))


@given(_workloads(), st.sampled_from(sorted(set(RULES) - {"static"})))
def test_a_watcher_changes_nothing_and_its_sums_are_those_of_the_run(work, rule):
    """A watcher changes nothing, and its sums are those of the run."""
    lab = Lab(2, 3)
    bare = run(work, lab, Asked(rule), make(rule)).outcome
    seen = run(work, lab, Asked(rule), make(rule), watch=True)
    assert {**_fields(bare), "wall_s": 0} == {**_fields(seen.outcome), "wall_s": 0}
    series = seen.series
    end = work.jobs[0].submit_s + series.lasts_s
    waits = [end - job.submit_s if wait is None else wait for wait, job in zip(seen.waits, work.jobs, strict=True)]
    assert sum(series.waited.values()) == pytest.approx(sum(waits))
    for group in seen.outcome.wait_by_group:
        if (group, FREE) in series.waited:
            mine = sum(wait for wait, job in zip(waits, work.jobs, strict=True) if group_of(job) == group)
            assert sum(seconds for (who, _), seconds in series.waited.items() if who == group) == pytest.approx(mine)
    assert all(
        0 <= work <= held + 1e-9 <= lab.cards + 1e-6 for work, held in zip(series.working, series.held, strict=True)
    )
    assert min(series.waiting) >= -1e-9
    assert len({who for who, _ in series.waited}) <= 8
    assert (OTHERS in {who for who, _ in series.waited}) == (len(seen.outcome.wait_by_group) > 8)


def _fields(found):
    return {name: getattr(found, name) for name in found.__slots__}


@given(st.lists(st.tuples(st.floats(0.1, 5000), st.integers(0, 9)), min_size=1, max_size=60))
def test_a_curve_keeps_its_sum_however_coarse_it_gets(pieces):
    """A curve keeps its sum however coarse it gets, in so many steps and no more."""
    curve = Curve(50.0, step_s=1.0)
    at, total = 50.0, 0.0
    for lasts, value in pieces:
        curve.value = value
        at += lasts
        total += lasts * value
        curve.until(at)
    means = curve.means()
    ends = [min(50.0 + step * curve.step_s, at) for step in range(len(means) + 1)]
    assert len(means) <= 400
    assert ends[-1] == pytest.approx(at)
    assert sum(mean * (after - before) for mean, (before, after) in zip(means, pairwise(ends), strict=True)) == (
        pytest.approx(total)
    )


def test_who_waited_is_laid_to_those_who_held_the_cards():
    """Who waited is laid to those who held the cards: shares of the lab, moment by moment."""
    jobs = (
        Job("a", "a", 3, 0, 100, group="red"),
        Job("b", "b", 1, 0, 40, group="blue"),
        Job("c", "c", 4, 0, 10, group="blue"),
    )
    seen = run(Workload("w", jobs), Lab(1, 4), Asked("fifo"), make("fifo"), watch=True).series
    assert {pair: seconds for pair, seconds in seen.waited.items() if seconds} == {
        ("blue", "red"): pytest.approx(75),
        ("blue", "blue"): pytest.approx(10),
        ("blue", FREE): pytest.approx(15),
    }


@pytest.mark.parametrize("begin", [0.1, 1 / 3, 49.017831, 2764.0000001])
def test_a_curve_goes_on_where_an_event_falls_on_the_edge_of_a_step(begin):
    """A curve goes on where an event falls on the edge of a step, however that edge is rounded."""
    curve = Curve(begin, step_s=0.7)
    curve.value = 1
    for step in range(3000):
        curve.until(begin + step * 0.7)
        curve.until(begin + step * 0.7 + 0.35)
    assert curve.means() == pytest.approx([1] * len(curve.means()))
