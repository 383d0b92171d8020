"""Nobody waits for ever under lxgpu's own policy, and no card is kept for somebody who is gone."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from lxgpu.model.reservation import Kind
from lxgpu.policy import agenda
from lxgpu.policy.desk import Desk
from lxgpu.simulate.engine import play
from lxgpu.simulate.jobs import Burst, Job, Lab, Workload, in_time
from lxgpu.simulate.rules.ours import STOP_S, ours
from lxgpu.simulate.synthetic import generate
from tests.unit.simulate.test_ours import POLICY


def _ended(workload, lab, policy=None):
    floor, rule = ours(workload, lab, policy)
    play(floor, rule)
    return floor, rule.site.rehearse(0).records


@pytest.mark.parametrize(
    ("model", "servers", "gpus", "days", "seed"),
    [
        ("lab", 3, 4, 7, 0),
        ("lab", 4, 4, 5, 3),
        ("lab", 2, 8, 6, 4),
        ("lab", 4, 8, 4, 0),
        ("lab", 4, 8, 4, 4),
        ("idle", 2, 4, 7, 1),
        ("deadline", 2, 4, 7, 2),
    ],
)
def test_in_a_made_up_lab_everybody_is_served(model, servers, gpus, days, seed):
    """Also those who want all cards of a server at the end: no card is held by, or kept for, one who is gone."""
    lab = Lab(servers, gpus)
    made = generate(model, lab, days=days, seed=seed, load=1.0)
    late = tuple(Job(f"late-{number}", "red-0", gpus, days * 86400.0, 3600, "red") for number in range(servers))
    floor, records = _ended(replace(made, jobs=in_time((*made.jobs, *late))), lab)
    assert [job.id for job, began in zip(floor.jobs, floor.first_start, strict=True) if began is None] == []
    assert None not in floor.finish
    assert (records.assignments, records.reservations) == ((), ())


def test_a_holder_whose_time_ends_while_cards_are_got_ready_for_it_leaves_them_to_others():
    """Who was warned for it goes on, and the card that was promised to it is there for who comes next."""
    policy = replace(POLICY, groups={}, defaults=replace(POLICY.defaults, lease_s=1000))
    holder = Job("vision-1", "vision", 1, 0, 1640, "vision", bursts=(Burst(0, 1640),))
    other = Job("speech-1", "speech", 1, 10, 20_000, "speech")
    late = Job("speech-2", "speech", 1, 40_000, 100, "speech")
    floor, records = _ended(Workload("w", (holder, other, late)), Lab(1, 1), policy)
    assert floor.first_start[2] == 40_000
    assert floor.stops == [1, 0, 0]
    assert records.assignments == ()


def _any_job(dice, name):
    """A batch job, one with a deadline, one whose owner asks for too little, or a holder."""
    owner = name.split("-", maxsplit=1)[0]
    job = Job(name, owner, dice.choice((1, 1, 2)), dice.randrange(40_000), dice.randrange(1, 9000), owner)
    kind = dice.choice(("batch", "due", "short", "holder"))
    if kind == "holder":
        return replace(job, bursts=(Burst(job.submit_s, 300), Burst(job.submit_s + 5000, 300)))
    if kind == "due":
        return replace(job, deadline_s=job.submit_s + 600 + job.duration_s * dice.choice((2, 5, 20)))
    return replace(job, asked_s=job.duration_s * 0.3) if kind == "short" else job


@pytest.mark.parametrize("lab", [Lab(3, 2), Lab(2, 3)])
@pytest.mark.parametrize("seed", [12, 22, 29, 36])
def test_nothing_but_a_start_behind_the_first_in_the_queue_waits_for_a_look(seed, lab):
    """At the end of each instant every host looks again: no taking, no claim, no booking and no first was forgotten.

    Deadlines, holders and bookings that fail among them; what may begin out of turn may hang on the time alone.
    """
    dice = random.Random(seed)  # noqa: S311 -- made-up jobs
    names = [f"{dice.choice(('vision', 'speech'))}-{number}" for number in range(60)]
    floor, rule = ours(Workload("w", in_time(_any_job(dice, name) for name in names)), lab, POLICY)
    decide, missed = rule.decide, []

    def checked():
        decide()
        for host in rule.site.hosts:
            given = rule.site.rehearse(host)
            desk = agenda.work_out(Desk(given))
            asked = [given.records.reservation(giving.reservation) for giving in desk.givings]
            out_of_turn = desk.first and all(row.kind is Kind.REQUEST for row in asked)
            if desk.takings or (desk.givings and not out_of_turn):
                missed.append((floor.now, host, desk.takings, desk.givings))

    rule.decide = checked
    play(floor, rule)
    assert missed == []
    assert None not in floor.finish


@pytest.mark.parametrize("bursts", [(), (Burst(0, 50_000),)])
def test_a_card_whose_time_is_over_is_free_after_the_stop_and_not_before(bursts):
    """Though its owner asks again at once."""
    first = Job("vision-1", "vision", 1, 0, 50_000, "vision", asked_s=1000, bursts=bursts)
    policy = replace(POLICY, groups={}, defaults=replace(POLICY.defaults, lease_s=1000))
    floor, _ = _ended(Workload("w", (first, Job("speech-1", "speech", 1, 100, 500, "speech"))), Lab(1, 1), policy)
    assert floor.first_start[1] == 1000 + STOP_S
    assert floor.stops == [1, 0]


def test_a_holder_whose_lease_ends_with_its_time_is_not_stopped():
    """Though there are fractions of a second, and others wait for its card."""
    holder = Job("vision-1", "vision", 1, 0.1234564, 7200.7654324, "vision", bursts=(Burst(0, 7000),))
    floor, _ = _ended(Workload("w", (holder, Job("speech-1", "speech", 1, 100, 500, "speech"))), Lab(1, 1), POLICY)
    assert floor.stops == [0, 0]
    assert floor.first_start[1] == floor.finish[0]


def test_who_asks_shortly_before_a_lease_is_over_has_its_card_at_the_end():
    """Though nothing else happens until then: the last decision said when it is near enough."""
    policy = replace(POLICY, groups={}, defaults=replace(POLICY.defaults, lease_s=36_000))
    holder = Job("vision-1", "vision", 1, 0, 90_000, "vision", bursts=(Burst(0, 90_000),))
    other = Job("speech-1", "speech", 1, 34_200, 500, "speech")
    floor, _ = _ended(Workload("w", (holder, other)), Lab(1, 1), policy)
    assert floor.first_start[1] == 36_000 + STOP_S


def test_a_holder_that_ends_when_the_card_taken_from_it_is_proven_free_gives_it_back_once():
    """Both happen at one instant; found as a crash by the random workloads of test_rules_properties."""
    batch = [(1, 0, 600, 0), (2, 0, 9000, 600), (1, 0, 600, 600), (1, 0, 600, 0), (1, 12600, 600, 0)]
    held = [("a", 2, 124, 1556), ("a", 2, 150, 143), ("a", 2, 305, 1354), ("c", 2, 430, 1)]
    jobs = [Job(f"b{n}", "a", gpus, at, lasts, "a", asked_s=asked) for n, (gpus, at, lasts, asked) in enumerate(batch)]
    jobs.append(Job("wide", "c", 3, 0, 11400, "c", asked_s=4800))
    for number, (group, gpus, at, lasts) in enumerate(held):
        work = (Burst(at, 189 if lasts == 1354 else 1),)
        saving = {"checkpoint_s": 1800.0, "restart_s": 60.0}
        jobs.append(Job(f"h{number}", group, gpus, at, lasts, group, bursts=work, **saving))
    floor, records = _ended(Workload("w", in_time(jobs)), Lab(1, 4))
    assert None not in floor.finish
    assert (records.assignments, records.reservations) == ((), ())
