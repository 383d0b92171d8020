"""The figures of a run: small sums known by hand, and nothing that is unknown shown as 0."""

from __future__ import annotations

import pytest

from lxgpu.simulate.engine import play
from lxgpu.simulate.floor import Floor
from lxgpu.simulate.jobs import Burst, Job, Lab, Workload
from lxgpu.simulate.outcome import NO_GROUP, outcome, quantile, rank
from lxgpu.simulate.rules.line import Fifo
from lxgpu.simulate.runs import Asked, run

STORY = (
    Job("a", "ann", 2, 0.0, 100.0, group="red"),
    Job("b", "ben", 1, 10.0, 50.0, group="blue", deadline_s=149.0),
    Job("c", "cat", 1, 20.0, 80.0, deadline_s=500.0),
)
"""On two cards: a runs at once, b and c together after it."""


def _outcome(jobs, lab=Lab(1, 2), **more):  # noqa: B008 -- a frozen value
    floor = Floor(jobs, lab)
    play(floor, Fifo(floor))
    return outcome(floor, rule="fifo", policy=None, left_out=0, wall_s=0.5, never={}, **more)


def test_the_figures_of_a_small_story_are_those_worked_out_by_hand():
    """The figures of a small story are those worked out by hand."""
    found = _outcome(STORY)
    assert (found.jobs, found.never_started) == (3, 0)
    assert (found.mean_wait_s, found.median_wait_s, found.p95_wait_s) == (170 / 3, 80, 90)
    assert found.wait_by_group == {NO_GROUP: 80, "blue": 90, "red": 0}
    assert found.mean_jct_s == (100 + 140 + 160) / 3
    assert found.utilization == pytest.approx((200 + 50 + 80) / (2 * 180))
    assert (found.preemptions, found.lost_gpu_s, found.deadline_misses) == (0, 0, 1)
    assert found.wall_s == 0.5


def test_without_deadlines_and_holders_their_figures_are_unknown():
    """Without deadlines and holders their figures are unknown."""
    found = _outcome(STORY[:1])
    assert (found.deadline_misses, found.false_reclaims, found.idle_reclaimed_gpu_s) == (None, None, None)


def test_with_holders_nothing_reclaimed_is_a_figure():
    """With holders nothing reclaimed is a figure."""
    found = _outcome((Job("h", "h", 1, 0.0, 100.0, bursts=(Burst(10, 20),)),))
    assert (found.false_reclaims, found.idle_reclaimed_gpu_s) == (0, 0)
    assert found.utilization == 20 / 200


def test_a_job_that_never_starts_is_counted_and_not_averaged():
    """A job that never starts is counted, not averaged, and misses its deadline."""
    found = _outcome((*STORY[:1], Job("d", "dan", 3, 30.0, 1.0, group="red", deadline_s=1e9)))
    assert (found.jobs, found.never_started, found.deadline_misses) == (2, 1, 1)
    assert (found.mean_wait_s, found.mean_jct_s) == (0, 100)
    alone = _outcome((Job("d", "dan", 3, 30.0, 1.0, group="red"),))
    assert (alone.mean_wait_s, alone.p95_wait_s, alone.mean_jct_s) == (None, None, None)
    assert alone.wait_by_group == {"red": None}


class Wakes(Fifo):
    """First come first served, by a rule that looks again long after everything is over."""

    def __init__(self, floor: Floor) -> None:
        super().__init__(floor)
        floor.wake(9e6)


@pytest.mark.parametrize("late_s", [30.0, 400.0], ids=["asked for meanwhile", "asked for at the end"])
def test_a_rules_own_wake_ups_change_no_figure(late_s):
    """A rule's own wake-ups change no figure, nor what a page shows, where a job never starts."""
    jobs = (*STORY[:2], Job("d", "dan", 3, late_s, 1.0, group="red"))
    runs = [
        run(
            Workload("w", jobs),
            Lab(1, 2),
            Asked("fifo"),
            lambda work, lab, _policy, by=by: _made(by, work, lab),
            watch=True,
        )
        for by in (Fifo, Wakes)
    ]
    assert runs[0].outcome.utilization == runs[1].outcome.utilization == 250 / (2 * max(150, late_s))
    assert runs[0].series == runs[1].series


def _made(rule, workload, lab):
    floor = Floor(workload.jobs, lab)
    return floor, rule(floor)


def test_nothing_at_all_has_no_figures():
    """Nothing at all has no figures."""
    found = _outcome(())
    assert (found.jobs, found.utilization, found.mean_wait_s, found.wait_by_group) == (0, None, None, {})


@pytest.mark.parametrize(
    ("values", "share", "wanted"),
    [([], 0.5, None), ([7], 0.95, 7), ([1, 2], 0.5, 1.5), ([1, 2, 3, 4, 5], 0.95, 4.8), ([1, 2, 3], 1.0, 3)],
)
def test_a_quantile_lies_on_the_line_between_two_values(values, share, wanted):
    """A quantile lies on the line between two values."""
    assert quantile(values, share) == (wanted if wanted is None else pytest.approx(wanted))


@pytest.mark.parametrize("count", [1, 2, 19, 20, 21, 40, 60, 100, 700, 1001])
def test_19_of_20_do_not_exceed_the_95th_of_100_and_of_no_lesser_value_that_is_true(count):
    """At least 19 of 20 values do not exceed the 95th of 100, which is one of them; fewer do with the one before."""
    found = rank(range(count), 0.95)
    assert 20 * (found + 1) >= 19 * count > 20 * found
    assert rank([], 0.95) is None
    assert rank([7, 8, 9], 0.0) == 7
