"""lxgpu's own history as demand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from lxgpu.errors import LxgpuError
from lxgpu.model.assignment import Assignment, AssignmentState, Card
from lxgpu.model.gpu import Slot
from lxgpu.model.instance import Instance, InstanceState
from lxgpu.model.reservation import ASAP, Kind, Reservation, ReservationState
from lxgpu.model.rules import IdleRules
from lxgpu.model.snapshot import Records
from lxgpu.model.usage import Sample
from lxgpu.services.usage import Ground
from lxgpu.simulate.engine import play
from lxgpu.simulate.floor import Floor
from lxgpu.simulate.jobs import NO_WORK, Burst, Lab
from lxgpu.simulate.readers.history import history, own_lab
from lxgpu.simulate.rules.line import Fifo

T0 = datetime(2027, 3, 1, 8, 0, tzinfo=UTC)
HOUR = 3600.0


def at(hours: float) -> datetime:
    """So many hours after the beginning."""
    return T0 + timedelta(hours=hours)


def held(start, end=None, *, gpu="GPU-1", **more):
    """A card that alice held, still or until then."""
    state = AssignmentState.ACTIVE if end is None else AssignmentState.CLOSED
    closed = None if end is None else at(end)
    return Assignment(f"{gpu}{start}", Slot(gpu), "alice", state, T0, since=at(start), closed_at=closed, **more)


def watched(start, end, utilization, *, gpu="GPU-1", instance="alice"):
    """A sample a minute."""
    minutes = range(round(start * 60), round(end * 60))
    return [Sample(at(minute / 60), gpu, utilization, 0, 0, instance) for minute in minutes]


def wish(kind, state=ReservationState.ACTIVE, *, made=0.0, name="r", **more):
    """A reservation of alice's."""
    return Reservation(name, "alice", "alice", kind, 2, state, at(made), 7200, **more)


def read(*rows, samples=(), wishes=(), since=0, now=24):
    """What is made of it."""
    records = Records(
        1,
        None,
        instances=(Instance("alice", "alice", "h", InstanceState.READY, T0),),
        assignments=tuple(row for row in rows if row.closed_at is None),
    )
    past = tuple(row for row in rows if row.closed_at is not None)
    ground = Ground(records, past, samples, wishes, (), IdleRules(), {"alice": ("bio", "vision")}.get)
    return history(ground, since=at(since), now=at(now))


def one(*rows, **more):
    """The only job of it."""
    (job,) = read(*rows, **more).jobs
    return job


def test_a_hold_works_when_its_card_did():
    """A hold works when its card did."""
    samples = [*watched(1, 2, 0), *watched(2, 3, 90), *watched(3, 5, 0)]
    job = one(held(1, 5, class_name="normal", until=at(9)), samples=samples)
    assert (job.owner, job.group, job.class_name, job.gpus) == ("alice", "bio", "normal", 1)
    assert (job.submit_s, job.duration_s, job.asked_s) == (HOUR, 4 * HOUR, 8 * HOUR)
    # the newest sample speaks for a minute
    assert job.bursts == (Burst(2 * HOUR, HOUR),)


def test_what_nobody_looked_at_counts_as_work_and_is_told():
    """What nobody looked at counts as work and is told."""
    found = read(held(0, 4), samples=[*watched(1, 2, 0), *watched(2, 3, None)])
    (job,) = found.jobs
    assert job.bursts == (Burst(0, HOUR), Burst(2 * HOUR, 2 * HOUR))
    assert "75 % of the time held was not watched and counts as work" in found.source


def test_what_another_one_did_on_the_card_is_not_ones_own_work():
    """What another one did on the card is not one's own work."""
    samples = [*watched(0, 1, 90, instance="bob"), *watched(1, 3, 0)]
    assert one(held(1, 3), samples=samples).bursts == NO_WORK


def test_who_never_worked_still_holds():
    """Who never worked still holds, for as long as they did."""
    job = one(held(0, 2), samples=watched(0, 2, 0))
    assert job.demand_gpu_s == 0
    floor = Floor([job], Lab(1, 1))
    play(floor, Fifo(floor))
    assert (floor.finish, floor.delivered_gpu_s) == ([2 * HOUR], 0)


def test_cards_that_came_together_are_one_hold_that_works_when_any_does():
    """Cards that came together are one hold that works when any does."""
    samples = [*watched(0, 1, 90), *watched(1, 3, 0)]
    samples += [*watched(0, 2, 0, gpu="GPU-2"), *watched(2, 3, 90, gpu="GPU-2")]
    samples.sort(key=lambda sample: sample.at)
    job = one(held(0, 3), held(0.01, 3, gpu="GPU-2"), samples=samples)
    assert job.gpus == 2
    assert job.bursts == (Burst(0, HOUR), Burst(2 * HOUR, HOUR))


def test_cards_that_came_apart_are_two_holds():
    """Cards that came apart are two holds, and so is a card that was had twice."""
    assert [job.gpus for job in read(held(0, 3), held(1, 3, gpu="GPU-2")).jobs] == [1, 1]
    assert [job.submit_s for job in read(held(0, 0.005), held(0.01, 3)).jobs] == [0, 36]


def test_cards_that_were_given_back_before_the_others_are_a_hold_of_their_own():
    """Cards that were given back before the others are a hold of their own: what the next one does is not theirs."""
    rows = [held(0, 1, gpu=f"GPU-{number}") for number in (1, 2, 3)] + [held(0, 20, gpu="GPU-4")]
    idle = [sample for row in rows for sample in watched(0, 1, 0, gpu=row.slot.gpu)]
    others = [one for row in rows[:3] for one in watched(1, 20, 90, gpu=row.slot.gpu, instance="bob")]
    samples = sorted([*idle, *watched(1, 20, 0, gpu="GPU-4"), *others], key=lambda sample: sample.at)
    found = read(*rows, samples=samples)
    assert [(job.gpus, job.submit_s, job.duration_s) for job in found.jobs] == [(3, 0, HOUR), (1, 0, 20 * HOUR)]
    assert sum(job.demand_gpu_s for job in found.jobs) == 0
    assert "not watched" not in found.source


def test_a_card_counts_only_while_it_was_held():
    """A card counts only while it was held, where those beside it came a little before and left a little after."""
    minute = 1 / 60
    beside = [*watched(0, minute, 90, gpu="GPU-2", instance="bob"), *watched(minute, 3 - minute, 0, gpu="GPU-2")]
    samples = sorted([*watched(0, 3, 0), *beside], key=lambda sample: sample.at)
    found = read(held(0, 3), held(minute, 3 - minute, gpu="GPU-2"), samples=samples)
    (job,) = found.jobs
    assert (job.gpus, job.submit_s, job.duration_s, job.bursts) == (2, 0, 3 * HOUR, NO_WORK)
    assert "not watched" not in found.source


@pytest.mark.parametrize(
    ("kind", "told", "submit_s"),
    [
        (Kind.REQUEST, {}, HOUR),
        (Kind.RETURN, {}, HOUR),
        (Kind.BOOKING, {ASAP: True}, HOUR),
        (Kind.BOOKING, {}, 3 * HOUR),
    ],
    ids=["a request", "a claim", "a booking for as soon as it can be", "a booking for a time"],
)
def test_who_waited_asked_before_they_held(kind, told, submit_s):
    """Who waited asked before they held; the work moves to the submission with the hold."""
    samples = [*watched(3, 4, 0), *watched(4, 5, 90)]
    row = wish(kind, made=1, told=told)
    job = one(held(3, 5, reservation="r"), samples=samples, wishes=[row])
    assert (job.submit_s, job.duration_s, job.asked_s) == (submit_s, 2 * HOUR, 7200)
    assert job.bursts == (Burst(submit_s + HOUR, HOUR),)


def test_a_request_that_still_waits_is_demand_too():
    """A request that still waits is demand too; a booking to come and what was given up are not."""
    wishes = [
        wish(Kind.REQUEST, ReservationState.WAITING, made=5, name="waits"),
        wish(Kind.BOOKING, ReservationState.SCHEDULED, name="comes"),
        wish(Kind.REQUEST, ReservationState.CANCELLED, name="gone"),
    ]
    job = one(wishes=wishes)
    assert (job.id, job.gpus, job.submit_s, job.duration_s) == ("waits", 2, 5 * HOUR, 7200)
    assert job.bursts == (Burst(5 * HOUR, 7200),)


def test_holds_are_cut_to_the_time_looked_at():
    """Holds are cut to the time looked at, and those before it left out."""
    promised = Assignment("p", Slot("GPU-3"), "alice", AssignmentState.PLANNED, T0)
    found = read(held(-5, 3), held(20, gpu="GPU-2"), held(-9, -1), promised, since=1, now=24)
    assert [(job.submit_s, job.duration_s) for job in found.jobs] == [(0, 2 * HOUR), (19 * HOUR, 4 * HOUR)]
    assert found.start == at(1)


def test_no_history_is_an_error():
    """No history is an error."""
    with pytest.raises(LxgpuError) as caught:
        read()
    assert caught.value.code == "not_found"


def test_the_own_lab_is_as_its_cards():
    """The own lab is as its cards; a smaller host counts as the largest."""
    cards = [Card(f"GPU-{host}{number}", host, "", "A100", None, T0) for host in "ab" for number in range(4)]
    assert own_lab(cards[:-1]) == Lab(2, 4)
    assert own_lab(()) is None
