"""Cards that are held and idle work for those who wait, and their holder hardly notices."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lxgpu.model.quota import Policy, Terms
from lxgpu.model.rules import BorrowRules, IdleRules, IdleWhen, Rules, SharingRules
from lxgpu.simulate.engine import play
from lxgpu.simulate.jobs import NO_WORK, Burst, Job, Lab, Workload, in_time
from lxgpu.simulate.outcome import outcome
from lxgpu.simulate.rules import make
from lxgpu.simulate.synthetic import generate
from lxgpu.simulate.usual import BATCH, CLASSES, USUAL


def _holder(name: str, *bursts: Burst, gpus: int = 1, submit_s: float = 0.0, lasts_s: float = 10_000.0) -> Job:
    return Job(name, name, gpus, submit_s, lasts_s, bursts=bursts or NO_WORK)


def _played(name, jobs, lab):
    floor, rule = make(name)(Workload("w", in_time(jobs)), lab, None)
    play(floor, rule)
    return floor


def test_a_borrower_stands_still_while_the_holder_works_and_is_ended_when_that_lasts():
    """Five minutes of rest lend a card; ten seconds of work lose nothing of the borrower's, a hundred do."""
    holder = _holder("alice", Burst(1000.0, 10.0), Burst(2000.0, 100.0))
    batch = Job("b", "bob", 1, 0.0, 3000.0, checkpoint_s=600.0, restart_s=60.0)
    floor = _played("fifo-borrow", [holder, batch], Lab(1, 1))
    assert floor.first_start == pytest.approx([0.0, 300.0])
    assert floor.finish[1] == pytest.approx(2102.0 + 300.0 + 60.0 + 1800.0)  # 1,200 s were saved
    assert floor.borrowed_gpu_s == pytest.approx(700.0 + 688.0 + 1860.0)
    assert floor.lost_gpu_s == pytest.approx(188.0 + 60.0 + 2 * 2.0)
    assert (floor.held_up_gpu_s, floor.holders_gpu_s) == (4.0, 110.0)
    assert floor.stops == [0, 0]


def test_cards_of_several_holders_are_lent_together_and_one_who_returns_stops_the_borrower():
    """Two idle cards of one server do for a job of two; the first holder back stops it."""
    jobs = [_holder("alice", Burst(1000.0, 500.0)), _holder("carol"), Job("b", "bob", 2, 1.0, 2000.0, checkpoint_s=0.0)]
    floor = _played("fifo-borrow", jobs, Lab(1, 2))
    assert floor.first_start[2] == pytest.approx(300.0)
    assert floor.finish[2] == pytest.approx(1502.0 + 300.0 + 60.0 + 2000.0)
    assert floor.lost_gpu_s == pytest.approx(2 * (700.0 + 60.0) + 2.0)


def test_a_holder_who_leaves_takes_the_borrower_along():
    """The card is then free, and the borrower begins on it anew with what it has saved."""
    jobs = [_holder("alice", lasts_s=1000.0), Job("b", "bob", 1, 0.0, 2000.0, checkpoint_s=600.0)]
    floor = _played("fifo-borrow", jobs, Lab(1, 1))
    assert floor.finish == pytest.approx([1000.0, 1000.0 + 60.0 + 1400.0])


def test_idle_cards_that_are_too_few_or_on_other_servers_are_not_lent():
    """A job is on one server."""
    jobs = [_holder("alice"), _holder("carol"), Job("b", "bob", 2, 1.0, 50.0)]
    assert _played("fifo-borrow", jobs, Lab(2, 1)).first_start[2] == 10_000.0


@pytest.mark.parametrize(
    ("borrow", "lend_idle", "idle_s", "begins"),
    [(True, True, 600, 600.0), (True, False, 600, 5000.0), (False, True, 600, 5000.0)],
    ids=["both consent", "the holder does not", "the class does not"],
)
def test_with_a_policy_both_sides_consent_and_its_times_hold(borrow, lend_idle, idle_s, begins):
    """With a policy file idle cards are lent on as it says; without consent the batch job waits for a free card."""
    never = IdleRules(when=IdleWhen.NEVER)
    policy = Policy(
        classes={**CLASSES, BATCH: replace(CLASSES[BATCH], borrow=borrow)},
        defaults=Terms(limit=2, class_name=USUAL, lend_idle=lend_idle),
        rules=Rules(idle=never, sharing=SharingRules(borrow=BorrowRules(idle_s=idle_s))),
    )
    jobs = (_holder("alice", lasts_s=5000.0), Job("b", "bob", 1, 1.0, 1000.0))
    floor, rule = make("lxgpu-borrow")(Workload("w", jobs), Lab(1, 1), policy)
    play(floor, rule)
    assert floor.first_start[1] == pytest.approx(begins, abs=1)


class _Held:
    """Looks after each decision whether a card has two at work."""

    def __init__(self, floor, rule) -> None:
        self._floor, self._rule = floor, rule
        self.asked, self.ended, self.turned = rule.asked, rule.ended, rule.turned

    def decide(self) -> None:
        """Nobody works on a card whose holder works or does not hold it, and none is lent twice."""
        self._rule.decide()
        lent: dict[int, int] = {}
        for job, loan in self._floor.loans.items():
            assert not self._floor.place[job]
            assert sum(loan.cards.values()) == self._floor.jobs[job].gpus
            assert self._floor.working(job) == (loan.since is not None)
            for holder, cards in loan.cards.items():
                lent[holder] = lent.get(holder, 0) + cards
                assert not (self._floor.working(job) and self._floor.working(holder))
        for holder, cards in lent.items():
            assert cards <= sum(gpus for _, gpus in self._floor.place[holder])


@st.composite
def _jobs(draw):
    jobs = []
    for number in range(draw(st.integers(2, 14))):
        at, gpus = draw(st.integers(0, 3000)), draw(st.integers(1, 3))
        starts = sorted(draw(st.sets(st.integers(0, 20_000), max_size=5)))
        bursts = tuple(Burst(at + start, draw(st.integers(1, 900))) for start in starts) or NO_WORK
        lasts_s = draw(st.integers(1, 20_000))
        saving = {"checkpoint_s": draw(st.sampled_from((0, 100, 1800))), "restart_s": draw(st.integers(0, 60))}
        jobs.append(Job(str(number), "p", gpus, at, lasts_s, bursts=bursts if draw(st.booleans()) else (), **saving))
    return in_time(jobs)


@pytest.mark.parametrize("name", ["fifo-borrow", "lxgpu-borrow"])
@settings(max_examples=60)
@given(jobs=_jobs())
def test_no_card_has_two_at_work_and_all_batch_work_gets_done(name, jobs):
    """No card has two at work, and all batch work gets done, once."""
    floor, rule = make(name)(Workload("w", jobs), Lab(2, 4), None)
    play(floor, _Held(floor, rule))
    assert None not in floor.finish
    assert not floor.loans
    batch = sum(job.demand_gpu_s for job in jobs if not job.bursts)
    assert floor.delivered_gpu_s - floor.lost_gpu_s == pytest.approx(batch + floor.holders_gpu_s)


def test_idle_cards_of_a_lab_that_is_held_work_twice_as_much_when_they_are_lent_on():
    """From 0.30 to more than 0.65 of the cards' time, and holders' work takes at most a hundredth longer."""
    lab = Lab(2, 8)
    found = [
        outcome(
            _played(name, generate("held", lab, seed=1).jobs, lab),
            rule=name,
            policy=None,
            left_out=0,
            wall_s=0,
            never={},
        )
        for name in ("fifo", "fifo-borrow")
    ]
    assert found[0].effective_use == pytest.approx(0.30, abs=0.03)
    assert found[0].holder_slowdown == pytest.approx(0)
    assert found[0].borrowed_gpu_s is None
    assert found[1].effective_use >= 0.65
    assert 0 < found[1].holder_slowdown <= 0.01
