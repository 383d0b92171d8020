"""What each rule does in small stories whose answers follow from its source."""

from __future__ import annotations

import pytest

from lxgpu.model.quota import Group, Policy, Total
from lxgpu.simulate import rules
from lxgpu.simulate.engine import play
from lxgpu.simulate.floor import Floor
from lxgpu.simulate.jobs import Burst, Job, Lab, Workload
from lxgpu.simulate.rules.culler import Culler
from lxgpu.simulate.rules.slurm import Slurm


def _played(name, jobs, servers=1, gpus=8, **cards):
    """`cards`: what each group owns, by a policy's guarantees."""
    groups = {group: Group(group, total=Total(guaranteed=count)) for group, count in cards.items()}
    floor, rule = rules.make(name)(
        Workload("w", tuple(jobs)), Lab(servers, gpus), Policy(groups=groups) if cards else None
    )
    play(floor, rule)
    return floor


def _job(gpus, submit_s, duration_s, group="g", **more):
    more = {"checkpoint_s": 0, "restart_s": 0, **more}
    return Job(f"{group}{submit_s}", group, gpus, submit_s, duration_s, group=group, **more)


OVERTAKING = [_job(6, 0, 100), _job(4, 1, 10), _job(2, 2, 50), _job(4, 3, 5), _job(1, 4, 1)]


@pytest.mark.parametrize(
    ("name", "starts"),
    [("fifo", [0, 100, 100, 110, 110]), ("sjf", [0, 100, 105, 100, 4]), ("fifo-skip", [0, 100, 2, 100, 52])],
)
def test_who_does_not_fit_is_waited_for_or_overtaken(name, starts):
    """Who does not fit is waited for or overtaken."""
    assert _played(name, OVERTAKING).first_start == starts


@pytest.mark.parametrize("name", sorted(rules.RULES.keys() - {"lxgpu", "lxgpu-borrow"}))
def test_who_could_never_fit_holds_up_nobody(name):
    """Who could never fit holds up nobody."""
    floor = _played(name, [_job(9, 0, 1), _job(8, 1, 10), _job(8, 2, 5)])
    assert floor.finish[0] is None
    assert None not in floor.finish[1:]


def test_in_a_divided_lab_a_group_waits_for_its_own_servers():
    """In a divided lab a group waits for its own servers."""
    jobs = [_job(2, 0, 100, "a"), _job(2, 1, 300, "b"), _job(2, 2, 50, "b"), _job(1, 3, 50, "a"), _job(1, 3, 5, "a")]
    assert _played("static", jobs, servers=2, gpus=2).first_start == [0, 1, 301, 100, 100]


SRTF = {
    "needs less": ([_job(2, 0, 100), _job(1, 10, 20)], [0, 10], [130, 30], [1, 0]),
    "needs as much": ([_job(2, 0, 100), _job(1, 50, 50)], [0, 100], [100, 150], [0, 0]),
    "saved": ([_job(2, 0, 100, checkpoint_s=5, restart_s=3), _job(1, 11, 20)], [0, 11], [124, 31], [1, 0]),
    "in vain": ([_job(1, 0, 10), _job(1, 0, 99), _job(2, 1, 50)], [0, 0, 10], [10, 159, 60], [0, 1, 0]),
    "the longest": ([_job(1, 0, 50), _job(1, 0, 60), _job(1, 5, 1)], [0, 0, 5], [50, 66, 6], [0, 1, 0]),
    "by now it needs less": ([_job(2, 0, 100), _job(2, 90, 20)], [0, 100], [100, 120], [0, 0]),
}


@pytest.mark.parametrize(("jobs", "starts", "finish", "stops"), SRTF.values(), ids=SRTF)
def test_who_needs_least_time_still_stops_those_who_need_longer(jobs, starts, finish, stops):
    """Who needs least time still stops those who need longer."""
    floor = _played("srtf", jobs, gpus=2)
    assert (floor.first_start, floor.finish, floor.stops) == (starts, finish, stops)


def test_nobody_is_stopped_for_cards_that_are_not_needed():
    """Nobody is stopped for cards that are not needed."""
    jobs = [_job(2, 0, 90), _job(1, 0, 99), _job(4, 0, 80), _job(3, 1, 50)]
    floor = _played("srtf", jobs, servers=2, gpus=4)
    assert floor.stops == [1, 0, 0, 0]
    assert floor.first_start[3] == 1


OWNERS = {
    "within the share one stops those beyond": (
        {"a": 2, "b": 2},
        [_job(4, 0, 100, "b"), _job(2, 10, 50, "a")],
        {"slurm": ([0, 10], [1, 0]), "kueue": ([0, 10], [1, 0])},
    ),
    "beyond the share one waits": (
        {"a": 2, "b": 2},
        [_job(4, 0, 100, "b"), _job(3, 10, 50, "a")],
        {"slurm": ([0, 100], [0, 0]), "kueue": ([0, 100], [0, 0])},
    ),
    "who is within the share is not stopped": (
        {"a": 2, "b": 2},
        [_job(2, 0, 90, "b"), _job(2, 1, 90, "b"), _job(2, 10, 9, "a"), _job(1, 11, 9, "a")],
        {"slurm": ([0, 1, 10, 19], [0, 1, 0, 0]), "kueue": ([0, 1, 10, 19], [0, 1, 0, 0])},
    ),
    "the one that started last goes first": (
        {"a": 4},
        [_job(1, 0, 100, "b"), _job(1, 5, 100, "b"), _job(2, 6, 100, "b"), _job(1, 10, 200, "a")],
        {"slurm": ([0, 5, 6, 10], [0, 0, 1, 0]), "kueue": ([0, 5, 6, 10], [0, 0, 1, 0])},
    ),
    "whose cards are not needed stays": (
        {"a": 4},
        [_job(3, 0, 100, "b"), _job(1, 5, 100, "b"), _job(3, 10, 200, "a")],
        {"slurm": ([0, 5, 10], [1, 0, 0]), "kueue": ([0, 5, 10], [1, 0, 0])},
    ),
    "who was stopped waits as if new, or keeps the place": (
        {"a": 4},
        [_job(4, 0, 100, "b"), _job(4, 5, 10, "b"), _job(4, 10, 10, "a")],
        {"slurm": ([0, 20, 10], [1, 0, 0]), "kueue": ([0, 120, 10], [1, 0, 0])},
    ),
    "within the share too": (
        {"a": 2, "b": 2},
        [_job(2, 0, 15, "b"), _job(2, 1, 100, "b"), _job(2, 5, 50, "b"), _job(2, 10, 100, "a")],
        {"slurm": ([0, 1, 15, 10], [0, 1, 0, 0]), "kueue": ([0, 1, 110, 10], [0, 1, 0, 0])},
    ),
    "who does not fit is overtaken": (
        {"a": 4},
        [_job(3, 0, 100, "a"), _job(2, 5, 10, "a"), _job(1, 10, 10, "a")],
        {"slurm": ([0, 100, 10], [0, 0, 0]), "kueue": ([0, 100, 10], [0, 0, 0])},
    ),
    "those within the share come before the older ones beyond": (
        {"a": 4},
        [_job(4, 0, 10, "a"), _job(4, 1, 10, "b"), _job(4, 2, 10, "a")],
        {"slurm": ([0, 20, 10], [0, 0, 0]), "kueue": ([0, 20, 10], [0, 0, 0])},
    ),
}


@pytest.mark.parametrize("name", ["slurm", "kueue"])
@pytest.mark.parametrize(("cards", "jobs", "known"), OWNERS.values(), ids=OWNERS)
def test_owners_lend_and_take_back(name, cards, jobs, known):
    """Owners lend and take back."""
    floor = _played(name, jobs, gpus=4, **cards)
    assert (floor.first_start, floor.stops) == known[name]


@pytest.mark.parametrize("name", ["slurm", "kueue"])
def test_enough_cards_on_several_servers_are_not_enough(name):
    """Enough cards on several servers are not enough: a server is emptied for the owner."""
    jobs = [_job(2, 0, 5, "a"), _job(2, 0, 99, "b"), _job(2, 0, 4, "a"), _job(2, 0, 99, "b"), _job(4, 6, 9, "a")]
    floor = _played(name, jobs, servers=2, gpus=4, a=4, b=2)
    assert (floor.first_start[4], sum(floor.stops)) == (6, 1)


def test_kueue_takes_from_a_queue_only_while_it_borrows():
    """Kueue takes from a queue only while it borrows."""
    jobs = [*(_job(1, at, 100, "b") for at in range(4)), _job(2, 10, 50, "a"), _job(1, 11, 50, "a")]
    floor = _played("kueue", jobs, gpus=4, a=2, b=2)
    assert floor.stops == [0, 0, 1, 1, 0, 0]
    assert floor.first_start == [0, 1, 2, 3, 10, 60]


def _slurm(jobs, exempt_s, **cards):
    floor = Floor(jobs, Lab(1, 2))
    play(floor, Slurm(floor, cards, exempt_s=exempt_s))
    return floor


def test_slurm_spares_a_job_until_its_exempt_time_is_over():
    """Slurm spares a job until its exempt time is over, and the youngest of those whose time is."""
    jobs = [_job(1, 0, 100, "b"), _job(1, 5, 100, "b"), _job(1, 10, 100, "a"), _job(1, 12, 100, "a")]
    floor = _slurm(jobs, 20, a=2, b=0)
    assert floor.first_start == [0, 5, 20, 25]
    assert _slurm(jobs, 0, a=2, b=0).first_start == [0, 5, 10, 12]


HOLDER = Job("h", "h", 1, 0, 20_000, bursts=(Burst(0, 100), Burst(3000, 100), Burst(10_000, 50)))
BATCH = _job(1, 10, 7000)


def _culled(jobs, **times):
    floor = Floor(jobs, Lab(1, 1))
    play(floor, Culler(floor, **times))
    return floor


@pytest.mark.parametrize(
    ("times", "culled_at", "reclaimed_s"),
    [
        ({}, 7200, 7000 + 2000),
        ({"every_s": 0}, 6700, 7000 + 2650),
        ({"timeout_s": 600, "every_s": 0}, 700, 7000 + 1600 + 9350),
    ],
    ids=["at the next check", "at once", "sooner"],
)
def test_who_is_idle_too_long_is_culled_and_asks_again_when_it_would_work(times, culled_at, reclaimed_s):
    """Who is idle too long is culled and asks again when it would work; the last time it does not."""
    floor = _culled([HOLDER, BATCH], **times)
    assert floor.first_start == [0, culled_at]
    assert floor.delivered_gpu_s == HOLDER.demand_gpu_s + 7000
    assert floor.reclaimed_gpu_s == reclaimed_s


@pytest.mark.parametrize("at", [0.1, 0.7, 1.1, 1234.567, 86_400.3])
def test_a_time_out_that_is_no_whole_number_comes_too(at):
    """A time-out that is no whole number comes too."""
    holder = Job("h", "h", 1, at, 90_000, bursts=(Burst(at, 0.3),))
    assert _culled([holder], timeout_s=3599.9, every_s=0).stops == [1]
    assert _culled([holder], timeout_s=3599.9, every_s=0.7).stops == [1]
    jobs = [_job(2, at, 9000, "b"), _job(1, at + 0.2, 100, "a")]
    assert _slurm(jobs, 1799.9, a=2, b=0).first_start == [at, at + 1799.9]


def test_a_holder_is_culled_though_nobody_waits_and_never_while_it_works():
    """A holder is culled though nobody waits and never while it works."""
    floor = _culled([HOLDER])
    assert floor.stops == [2]
    assert floor.finish == [20_000]
    busy = Job("b", "b", 1, 0, 20_000, bursts=(Burst(0, 20_000),))
    assert _culled([busy]).stops == [0]


def test_under_fifo_a_holder_keeps_its_card_though_others_wait():
    """Under fifo a holder keeps its card though others wait."""
    floor = _played("fifo", [HOLDER, BATCH], gpus=1)
    assert floor.first_start == [0, 20_000]
    assert floor.delivered_gpu_s == HOLDER.demand_gpu_s + 7000
