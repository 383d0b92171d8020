"""lxgpu's own policy on the floor: what it decides happens there, and nothing else does."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from lxgpu.model.quota import Group, Policy, Terms, Total
from lxgpu.model.rules import IdleRules, PriorityClass, Rules
from lxgpu.policy import agenda
from lxgpu.policy.desk import Desk
from lxgpu.simulate.engine import play
from lxgpu.simulate.jobs import Burst, Job, Lab, Workload, in_time
from lxgpu.simulate.never import in_words, reasons
from lxgpu.simulate.rules import ours as rule
from lxgpu.simulate.rules.ours import ours

CLASSES = {
    "normal": PriorityClass("normal", 50, min_runtime_s=0, grace_s=60, term_wait_s=60),
    "scavenge": PriorityClass("scavenge", 10, min_runtime_s=600, grace_s=60, term_wait_s=60),
}
POLICY = Policy(
    classes=CLASSES,
    defaults=Terms(limit=8, class_name="normal"),
    groups={
        "vision": Group("vision", ("vision",), Total(guaranteed=1)),
        "speech": Group("speech", ("speech",), Total(guaranteed=1)),
    },
    rules=Rules(idle=IdleRules(window_s=1800)),
)


_UNSHARED = replace(POLICY, groups={name: replace(group, total=Total()) for name, group in POLICY.groups.items()})


def _played(*jobs, lab=Lab(1, 2), policy=POLICY):  # noqa: B008 -- a value that nobody changes
    floor, play_by = ours(Workload("w", in_time(jobs)), lab, policy)
    play(floor, play_by)
    return floor


def _job(name, at, lasts, *, gpus=1, **more):
    return Job(name, name.split("-")[0], gpus, at, lasts, group=name.split("-")[0], **more)


def test_a_job_that_finds_cards_starts_at_once_and_ends_when_it_is_done():
    """Nothing is taken, nothing is lost."""
    floor = _played(_job("vision-1", 5, 1000), _job("speech-1", 5, 500))
    assert floor.first_start == [5, 5]
    assert floor.finish == [1005, 505]
    assert floor.lost_gpu_s == 0


def test_who_is_within_their_guarantee_gets_a_borrowed_card_after_runtime_grace_and_fence():
    """The borrower has its ten minutes, a minute of grace, and ten seconds to end; its card comes back by itself."""
    borrowed = [_job("vision-1", 0, 7200), _job("vision-2", 0, 7200)]
    floor = _played(*borrowed, _job("speech-1", 100, 1000))
    assert floor.first_start[2] == 600 + 60 + rule.STOP_S
    assert sorted(floor.stops) == [0, 0, 1]
    assert all(end is not None for end in floor.finish)
    assert max(end for end in floor.finish if end) < 7200 + 1000 + 1800 + 60 + 120


def test_who_is_beyond_their_guarantee_waits_for_a_card_that_frees():
    """And takes nobody's."""
    floor = _played(_job("vision-1", 0, 900), _job("speech-1", 0, 2000), _job("vision-2", 10, 100))
    assert floor.first_start[2] == 900
    assert floor.stops == [0, 0, 0]


def test_the_card_of_an_idle_holder_goes_to_who_waits_and_comes_back():
    """A holder that rests longer than the window loses nothing but the idle card."""
    holder = _job("vision-1", 0, 50_000, bursts=(Burst(0, 600), Burst(20_000, 600)))
    floor = _played(holder, _job("speech-1", 10, 3000), _job("speech-2", 10, 3000))
    assert floor.first_start[2] == 600 + 1800 + CLASSES["normal"].grace_s + rule.STOP_S
    assert floor.stops[0] == 1
    assert floor.lost_gpu_s == 0
    assert floor.delivered_gpu_s == 600 + 600 + 6000


def test_of_an_idle_holders_two_cards_only_the_one_that_was_taken_counts_as_reclaimed():
    """Of an idle holder's two cards only the one that was taken counts as reclaimed, until it is back."""
    holder = _job("vision-1", 0, 50_000, gpus=2, bursts=(Burst(0, 600), Burst(20_000, 600)))
    floor = _played(holder, _job("speech-1", 10, 3000))
    taken_at = 600 + 1800 + CLASSES["normal"].grace_s
    assert (floor.stops, floor.first_start[1]) == ([1, 0], taken_at + rule.STOP_S)
    assert floor.reclaimed_gpu_s == rule.STOP_S + 3000


def test_a_holders_second_idle_card_that_is_taken_counts_as_reclaimed_as_well():
    """Each from its own taking on, until the holder has both again."""
    holder = _job("vision-1", 0, 50_000, gpus=2, bursts=(Burst(0, 600), Burst(20_000, 600)))
    jobs = [holder, _job("speech-1", 10, 9000), _job("speech-2", 5000, 1000)]
    one, both = (_played(*jobs[:count]) for count in (2, 3))
    assert both.first_start[2] < both.finish[1]
    assert both.reclaimed_gpu_s > one.reclaimed_gpu_s


def test_a_resting_holder_whom_nobody_waits_behind_keeps_the_card():
    """Idle is taken on demand only."""
    holder = _job("vision-1", 0, 50_000, bursts=(Burst(0, 600), Burst(20_000, 600)))
    assert _played(holder, _job("speech-1", 10, 3000)).stops == [0, 0]


def test_a_job_larger_than_a_host_never_starts_and_is_in_nobodys_way():
    """A container is on one host."""
    floor = _played(_job("vision-1", 0, 100, gpus=3), _job("speech-1", 0, 100, gpus=2), lab=Lab(2, 2))
    assert floor.first_start == [None, 0]


def test_of_jobs_that_never_begin_the_reason_is_known():
    """One that no host holds, those that the policy refuses whoever has cards, and one whose turn does not come."""
    jobs = [
        _job("vision-1", 0, 100, gpus=3),
        _job("vision-2", 0, 100, gpus=2),
        _job("vision-3", 0, 100, class_name="secret"),
        _job("speech-4", 0, 100, class_name="staff"),
        _job("speech-5", 0, 100),
    ]
    staff = PriorityClass("staff", 90, who=("vision",))
    policy = replace(_UNSHARED, classes={**CLASSES, "staff": staff}, defaults=Terms(limit=1, class_name="normal"))
    floor, play_by = ours(Workload("w", in_time(jobs)), Lab(2, 2), policy)
    play(floor, play_by)
    never = {floor.jobs[job].id: play_by.why_never(job) for job in range(4)}
    assert never == {
        "vision-1": "larger_than_a_server",
        "vision-2": "over_limit",
        "vision-3": "unknown_class",
        "speech-4": "class_not_allowed",
    }
    assert play_by.why_never(4) == "waited"
    assert reasons(floor, play_by) == dict.fromkeys(never.values(), 1)
    assert in_words({"larger_than_a_server": 2, "waited": 1}) == (
        "2 larger than a server (a container is on one host), 1 waited to the end"
    )


def test_without_the_policys_decisions_nobody_starts_or_stops(monkeypatch):
    """The simulator has no rule of its own: what the daemon calls decides, or nobody does."""
    assert rule.work_out is agenda.work_out
    monkeypatch.setattr(rule, "work_out", lambda desk: desk)
    floor = _played(_job("vision-1", 0, 100), _job("speech-1", 0, 100))
    assert floor.first_start == [None, None]


@pytest.mark.parametrize("seed", range(3))
def test_each_start_and_stop_is_one_that_the_policy_decided(monkeypatch, seed):
    """Whatever the jobs: gives are starts of jobs that were whole then, and takings are all the stops there are."""
    dice = random.Random(seed)  # noqa: S311 -- made-up jobs
    names = [f"{dice.choice(('vision', 'speech'))}-{number}" for number in range(60)]
    jobs = [_job(name, dice.randrange(50_000), dice.randrange(1, 9000), gpus=dice.choice((1, 1, 2))) for name in names]
    given, taken = [], []

    def decided(desk):
        done = agenda.work_out(desk)
        given.extend(giving.instance for giving in done.givings)
        taken.extend(taking.instance for taking in done.takings)
        return done

    monkeypatch.setattr(rule, "work_out", decided)
    workload = Workload("w", in_time(jobs))
    floor, play_by = ours(workload, Lab(2, 2), POLICY)
    floor.log = []
    play(floor, play_by)
    starts = [f"j{job:07}" for job in floor.log if job >= 0]
    assert set(starts) <= set(given)
    assert sum(floor.stops) <= len(taken)
    assert all(end is not None for end in floor.finish)
    assert floor.delivered_gpu_s == pytest.approx(sum(job.demand_gpu_s for job in jobs) + floor.lost_gpu_s)


def test_a_policy_edit_changes_what_happens():
    """A guarantee that is taken away takes nothing from anybody any more."""
    jobs = (_job("vision-1", 0, 7200), _job("vision-2", 0, 7200), _job("speech-1", 100, 1000))
    assert sum(_played(*jobs).stops) == 1
    assert sum(_played(*jobs, policy=_UNSHARED).stops) == 0


@pytest.mark.parametrize("seed", range(4))
def test_a_host_that_was_not_looked_at_had_nothing_to_decide(seed):
    """At the end of each instant every host looks again: nobody is given or warned, and nothing is taken."""
    dice = random.Random(seed)  # noqa: S311 -- made-up jobs
    names = [f"{dice.choice(('vision', 'speech'))}-{number}" for number in range(60)]
    jobs = [_job(name, dice.randrange(40_000), dice.randrange(1, 9000), gpus=dice.choice((1, 1, 2))) for name in names]
    floor, play_by = ours(Workload("w", in_time(jobs)), Lab(3, 2), POLICY)
    decide, missed = play_by.decide, []

    def checked():
        decide()
        for host in play_by.site.hosts:
            desk = agenda.work_out(Desk(play_by.site.rehearse(host)))
            if desk.takings or desk.givings:
                missed.append((floor.now, host, desk.takings, desk.givings))

    play_by.decide = checked
    play(floor, play_by)
    assert missed == []


def test_the_same_jobs_end_the_same_way_each_time():
    """Every start, end and stop; nothing hangs on the clock or on chance."""
    dice = random.Random(7)  # noqa: S311 -- made-up jobs
    names = [f"{dice.choice(('vision', 'speech'))}-{number}" for number in range(80)]
    jobs = [_job(name, dice.randrange(30_000), dice.randrange(1, 9000), gpus=dice.choice((1, 1, 2))) for name in names]
    first, second = (_played(*jobs, lab=Lab(2, 2)) for _ in range(2))
    assert (first.first_start, first.finish, first.stops) == (second.first_start, second.finish, second.stops)
    assert sum(first.stops) > 0


@pytest.mark.parametrize(("books", "in_time"), [(True, True), (False, False)])
def test_who_has_a_deadline_has_the_latest_start_that_keeps_it_booked(monkeypatch, books, in_time):
    """Those who used less and would be served before are not in the way of a booking; without one they are."""
    if not books:
        monkeypatch.setattr(rule.Ours, "_book", lambda *_all: None)
    long = [_job(f"vision-{number}", 0, 40_000, asked_s=41_000, class_name="normal") for number in range(2)]
    due = _job("vision-9", 10, 1000, deadline_s=65_000, class_name="normal")
    late = [_job(f"speech-{number}", 20, 30_000, class_name="normal") for number in range(4)]
    floor = _played(*long, due, *late, policy=_UNSHARED)
    assert (floor.finish[2] <= 65_000) is in_time


@pytest.mark.parametrize("deadline_s", [None, 40_000])
def test_who_asked_for_too_little_asks_for_more_next_time_and_gets_done(deadline_s):
    """Ten minutes are asked for, two hours are needed, and work is saved each half hour: the second time is enough."""
    short = _job("vision-1", 0, 7200, asked_s=600, deadline_s=deadline_s)
    others = [_job(f"speech-{number}", 100, 7200, asked_s=600) for number in range(3)]
    floor = _played(short, *others, lab=Lab(1, 1), policy=_UNSHARED)
    assert None not in floor.finish
    assert max(floor.stops) <= 2
