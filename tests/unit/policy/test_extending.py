"""Cards for longer: as far as nobody has booked them, and as the policy lends; all of them or none."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inventory_rows import assignment, at, card, instance
from reservation_rows import booking

from lxgpu.model.assignment import AssignmentState
from lxgpu.model.gpu import Gpu
from lxgpu.model.plan import Verdict
from lxgpu.model.quota import BASE_TERMS, Policy
from lxgpu.model.reservation import Reservation, ReservationState
from lxgpu.model.rules import BookingRules, PreemptionRules, PriorityClass, Rules
from lxgpu.model.snapshot import Observation, Records, Snapshot
from lxgpu.policy.extending import decide_extend

HOUR = 3600
NOW = at(0)
LEAD = timedelta(minutes=9)
MODEL = "NVIDIA A100"
POLICY = Policy(
    classes={"normal": PriorityClass("normal", priority=50, grace_s=300, term_wait_s=120)},
    defaults=replace(BASE_TERMS, limit=2, lease_s=24 * HOUR),
    rules=Rules(
        preemption=PreemptionRules(fence_timeout_s=120), bookings=BookingRules(longest_s=48 * HOUR, open_gpu_hours=40)
    ),
)


def world(*rows, policy=POLICY, cards=2):
    """Alice and bob, two cards, and what is held and booked."""
    gpus = tuple(Gpu(f"GPU-{number}", f"0000:0{number}:00.0", MODEL, "gpu1") for number in range(1, cards + 1))
    records = Records(
        1,
        None,
        instances=(instance("alice"), instance("bob")),
        assignments=tuple(row for row in rows if not isinstance(row, Reservation)),
        reservations=tuple(row for row in rows if isinstance(row, Reservation)),
        cards=tuple(card(gpu.uuid, pci=gpu.pci, model=MODEL) for gpu in gpus),
    )
    return Snapshot(NOW, records, Observation("gpu1", "", NOW, gpus), policy)


def lease(gpu="GPU-1", **fields):
    """Alice's card until in an hour."""
    return assignment(f"a{gpu}", gpu, **{"until": at(60), **fields}, class_name="normal", since=at(-60))


def ahead(start, until, gpus=1, **fields):
    """Bob's booking."""
    return booking(gpus=gpus, start=start, until=until, host="gpu1", pool=MODEL, class_name="normal", **fields)


def codes(found):
    """Why not."""
    return [reason.code for reason in found.plan.reasons]


def test_a_lease_counts_on_from_its_end_and_one_that_is_over_from_now():
    """An hour more is an hour more; who overstayed gets a whole one too."""
    found = decide_extend(world(lease()), "alice", seconds=HOUR)
    assert found.plan.decision is Verdict.GRANTED
    assert (found.until, found.plan.when) == (at(120), at(120))
    assert [(row.id, row.until) for row in found.rows] == [("aGPU-1", at(120))]
    over = decide_extend(world(lease(until=at(-30))), "alice", seconds=HOUR)
    assert over.until == at(60)


def test_all_cards_go_on_or_none():
    """Two leases with two ends each get their hour; the earliest new end is told."""
    found = decide_extend(world(lease(), lease("GPU-2", until=at(90))), "alice", seconds=HOUR)
    assert found.until == at(120)
    assert {row.slot.gpu: row.until for row in found.rows} == {"GPU-1": at(120), "GPU-2": at(150)}
    booked = world(lease(), lease("GPU-2", until=at(90)), ahead(at(130), at(200)))
    assert decide_extend(booked, "alice", seconds=HOUR).until == at(120)
    refused = decide_extend(booked, "alice", seconds=2 * HOUR)
    assert (codes(refused), refused.rows) == (["no_room"], ())


def test_a_booking_of_others_ends_it_a_lead_before():
    """Refused beyond start - lead, said who and when, and offered until then."""
    snapshot = world(lease(), ahead(at(180), at(240), gpus=2))
    assert decide_extend(snapshot, "alice", seconds=HOUR).until == at(120)
    refused = decide_extend(snapshot, "alice", seconds=4 * HOUR)
    assert codes(refused) == ["no_room"]
    assert "bob (reservation r1) has the cards from 11:00 on" in refused.plan.reasons[0].text
    assert refused.offer_s == (at(180) - LEAD - at(60)).total_seconds()
    again = decide_extend(snapshot, "alice", seconds=refused.offer_s)
    assert again.plan.decision is Verdict.GRANTED
    assert again.until == at(180) - LEAD
    assert decide_extend(snapshot, "alice", seconds=refused.offer_s + 1).plan.decision is Verdict.REFUSED


def test_a_booking_that_other_cards_can_meet_is_in_nobodys_way():
    """Two cards, one booked: alice keeps hers, bob gets the other."""
    snapshot = world(lease(), ahead(at(90), at(240)))
    assert decide_extend(snapshot, "alice", seconds=4 * HOUR).plan.decision is Verdict.GRANTED


def test_a_card_that_is_promised_stays_promised():
    """Who was warned cannot talk their way out of it."""
    warned = lease(state=AssignmentState.WARNED, due_at=at(5))
    promise = assignment("p1", "GPU-1", instance="bob", state=AssignmentState.PLANNED, reservation="r1")
    snapshot = world(warned, promise, ahead(at(0), at(240), gpus=1, state=ReservationState.PREPARING), cards=1)
    refused = decide_extend(snapshot, "alice", seconds=HOUR)
    assert codes(refused) == ["no_room"]
    assert refused.offer_s is None


def test_a_running_booking_grows_as_one():
    """Its own row and all its cards; an hour more than the hours it may have ahead is refused."""
    running = booking("m1", "alice", start=at(-60), until=at(60), host="gpu1", state=ReservationState.ACTIVE)
    snapshot = world(running, lease(reservation="m1"), lease("GPU-2", reservation="m1"))
    found = decide_extend(snapshot, "alice", seconds=HOUR)
    assert {row.id: row.until for row in found.rows} == {"m1": at(120), "aGPU-1": at(120), "aGPU-2": at(120)}
    (row,) = [row for row in found.rows if row.id == "m1"]
    assert row.duration_s == 3 * HOUR
    assert "over_open_hours" in codes(decide_extend(snapshot, "alice", seconds=30 * HOUR))


def test_ones_own_next_booking_needs_cards_besides_those_of_the_running_one():
    """A lease goes on into one's next booking; a running booking and the next one are two promises."""
    next_one = ahead(at(90), at(240), gpus=2, instance="alice")
    assert decide_extend(world(lease(), next_one), "alice", seconds=HOUR).plan.decision is Verdict.GRANTED
    running = booking("m1", "alice", gpus=1, start=at(-60), until=at(60), host="gpu1", state=ReservationState.ACTIVE)
    for until in (at(60), at(600)):  # the second: its card was hers before, for longer
        refused = decide_extend(world(running, lease(reservation="m1", until=until), next_one), "alice", seconds=HOUR)
        assert codes(refused) == ["no_room"]
        assert "alice (reservation r1) has the cards from 09:30 on" in refused.plan.reasons[0].text


@pytest.mark.parametrize(("seconds", "code"), [(48 * HOUR, "booking_too_long"), (31 * 24 * HOUR, "beyond_horizon")])
def test_nothing_is_lent_for_ever(seconds, code):
    """No longer at a time than a booking may last, and never beyond the horizon."""
    assert code in codes(decide_extend(world(lease()), "alice", seconds=seconds))


def test_a_persons_end_and_limit_bind():
    """Who leaves on Tuesday has no card on Wednesday; who holds too much gets nothing longer."""
    leaves = replace(POLICY, users={"alice": replace(BASE_TERMS, limit=2, until=at(90))})
    refused = decide_extend(world(lease(), policy=leaves), "alice", seconds=HOUR)
    assert codes(refused) == ["person_ended"]
    assert refused.offer_s == 30 * 60
    less = replace(POLICY, defaults=replace(POLICY.defaults, limit=1))
    snapshot = world(lease(), lease("GPU-2"), policy=less)
    assert codes(decide_extend(snapshot, "alice", seconds=HOUR)) == ["over_limit"]


def test_there_must_be_something_with_an_end():
    """Nothing held, or lent without an end: said, each by its own code."""
    assert codes(decide_extend(world(), "alice", seconds=HOUR)) == ["not_held"]
    assert codes(decide_extend(world(lease(until=None)), "alice", seconds=HOUR)) == ["conflict"]


@given(
    ends=st.lists(st.integers(1, 300), min_size=1, max_size=3),
    more=st.integers(1, 600),
    bookings=st.lists(st.tuples(st.integers(1, 600), st.integers(1, 200), st.integers(1, 3)), max_size=4),
)
def test_no_booking_ever_finds_its_cards_extended_away(ends, more, bookings):
    """Whatever is booked: what fitted into the cards there are fits after an extension too, at each start."""
    held = [lease(f"GPU-{number}", until=at(end)) for number, end in enumerate(ends, start=1)]
    booked = [
        ahead(at(start), at(start + length), gpus, id_=f"r{number}")
        for number, (start, length, gpus) in enumerate(bookings)
    ]
    policy = replace(POLICY, defaults=replace(POLICY.defaults, limit=3))
    found = decide_extend(world(*held, *booked, cards=3, policy=policy), "alice", seconds=more * 60)
    if found.plan.decision is not Verdict.GRANTED:
        return
    for moment in (row.start for row in booked):
        before, after = (
            sum(row.until > moment for row in rows) + sum(row.gpus for row in booked if row.start <= moment < row.until)
            for rows in (held, found.rows)
        )
        assert after <= max(3, before)
