"""What the benchmarks compute themselves: which rows stay, what is done so far, and how fast a cost grows."""

from __future__ import annotations

from dataclasses import replace
from math import log

import pytest

from benchmarks import placing, simulating
from benchmarks.alone import FOLDER, Ask, simulate, workload_of
from benchmarks.simgrowth import power
from benchmarks.table import Figure, Result, merged
from lxgpu.simulate.floor import Floor
from lxgpu.simulate.jobs import Job, Lab

DAY_S = 86400
OLD = Result("create", "lxc launch", 2.0, 1.0, 2.0, 1.3, 7, "create")
ROWS = [OLD, Figure("a", 1, "s", 2, part="x"), Figure("b", 1, "s", 2, part="x"), Figure("c", 1, "s", part="y")]


def test_what_was_not_measured_stays_and_what_is_no_more_goes():
    """A row keeps its place; one that its part does not give any more is gone; others' stay."""
    fresh = [Figure("new", 3, "s", part="x"), Figure("b", 2, "s", 2, part="x")]
    assert merged(ROWS, fresh) == [OLD, fresh[1], ROWS[3], fresh[0]]


@pytest.mark.parametrize(
    ("value", "goal", "at_least", "met"),
    [
        (1, 1, False, True),
        (1.01, 1, False, False),
        (1, 1, True, True),
        (0.99, 1, True, False),
        (1, None, True, None),
        (None, 1, True, None),
    ],
)
def test_a_goal_is_met_from_its_own_side(value, goal, at_least, met):
    """What could not be measured is neither met nor missed."""
    assert Figure("a", value, "s", goal, at_least=at_least).met is met


def test_the_power_of_growth_is_found():
    """A cost of n² and one of n log n are told apart."""
    counts = (100, 300, 1000)
    assert power([(count, 3 * count**2) for count in counts]) == pytest.approx(2)
    assert power([(count * log(count), 5 * count * log(count)) for count in counts]) == pytest.approx(1)


def test_what_is_done_so_far_is_work_that_was_not_lost():
    """What runs counts before it is saved; what was lost does not, nor loading again; looking changes nothing."""
    floor = Floor([Job("a", "ann", 2, 0.0, 10_000.0, checkpoint_s=1800, restart_s=60)], Lab(1, 2))
    floor.start(0, ((0, 2),))
    assert at(floor, 1000) == 2000
    floor.stop(0)
    assert at(floor, 1000) == 0
    floor.start(0, ((0, 2),))
    assert at(floor, 1030) == 0
    assert at(floor, 1560) == 1000
    assert floor.working(0)
    assert at(floor, 20_000) == 20_000
    assert floor.finish == [11_060.0]


def at(floor, second):
    """GPU-seconds done until then."""
    while floor.next_at() <= second:
        list(floor.pass_to(floor.next_at()))
    list(floor.pass_to(second))
    return floor.done_gpu_s()


@pytest.mark.parametrize("rule", ["fifo", "culler"])
def test_long_after_the_last_end_all_is_done(rule):
    """The share at the mark is of all card time until then."""
    ask = Ask(rule, (1, 8), made_up="philly-like", days=1, first=20, mark_s=2000 * DAY_S)
    asked = sum(job.demand_gpu_s for job in workload_of(ask).jobs)
    assert simulate(ask).effective * 8 * 2000 * DAY_S == pytest.approx(asked)


@pytest.mark.parametrize("fit", [placing.ours, placing.first_fit, placing.random_fit])
def test_a_placement_that_is_measured_lends_nothing_twice(fit):
    """Each way lends only what is free, all that is asked for or nothing, and a stream is the same again."""
    asked = []

    def watched(snapshot, ask, chance):
        names = list(fit(snapshot, ask, chance))
        assert len({*names}) in {0, ask.count}
        assert not {*names} & {row.slot.gpu for row in snapshot.records.assignments}
        assert all(ask.fits(snapshot.seen.gpu(name)) for name in names)
        asked.append(names)
        return names

    one, other = (replace(placing.play(watched, 1, 60), cpu_s=0.0) for _ in range(2))
    assert one == other
    assert asked[:60] == asked[60:]


def test_less_memory_is_stranded_than_by_random_fit():
    """So few streams tell that already."""
    found = {row.name: row for row in placing.placement(seeds=3, requests=80)}
    assert found["placement: memory stranded over random fit's"].met


def test_without_the_traces_their_parts_are_left_out_and_that_is_said(monkeypatch, capsys, tmp_path):
    """Neither a folder that is not given nor a file that lacks ends the other parts."""
    monkeypatch.delenv(FOLDER, raising=False)
    assert simulating.measure("oracles") == ([], {})
    monkeypatch.setenv(FOLDER, str(tmp_path))
    assert simulating.measure("philly") == ([], {})
    told = capsys.readouterr().err
    assert "simulating.oracles is left out" in told
    assert "philly_jobs_82k.csv" in told
