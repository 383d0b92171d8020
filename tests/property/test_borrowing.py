"""Whatever is seen of a borrowed card: the holder's work stops the borrower at that look; the reserve stays free."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from fakes.site import lab_policy, make_gpus
from hypothesis import given
from hypothesis import strategies as st

from lxgpu.model.assignment import Assignment, AssignmentState, Card
from lxgpu.model.borrowing import Borrowing, BorrowState
from lxgpu.model.gpu import GpuProcess, Reading, Readings, Slot
from lxgpu.model.instance import Instance, InstanceState
from lxgpu.model.quota import Terms
from lxgpu.model.request import GpuRequest
from lxgpu.model.rules import BorrowRules, PriorityClass, SharingRules
from lxgpu.model.snapshot import Observation, Records, Snapshot
from lxgpu.model.usage import Sample
from lxgpu.policy.borrowing import Glance, Move, Standing, decide_borrow, next_move

RULES = BorrowRules(idle_s=5, yield_end_s=4)
LOOK = st.tuples(st.sampled_from([1.0, 1.0, 1.0, 3.0]), st.booleans(), st.sampled_from([None, 1, 9, 20]))
"""Seconds since the look before, whether the holder works, free bytes of which 10 are reserved."""


def lived(looks, *, fresh):
    """A borrowing from its beginning: at each look what was seen, where it stood, what is done, where it stands."""
    at, standing = 0.0, Standing(fresh=fresh)
    for gap_s, work, free in looks:
        at += gap_s
        seen = Glance(at, work, free, 10)
        before = standing
        move, standing = next_move(before, seen, RULES)
        yield seen, before, move, standing
        if move is Move.END:
            return


@given(st.lists(LOOK, max_size=30), st.booleans())
def test_the_holders_work_stops_the_borrower_at_that_look(looks, fresh):
    """After a look that shows work, or the reserve touched, the borrower does not run: that look stopped it."""
    for seen, before, move, after in lived(looks, fresh=fresh):
        short = seen.free_bytes is not None and seen.free_bytes < seen.reserve_bytes
        if seen.work or short:
            assert not after.running
            assert move in ({Move.STOP, Move.END} if before.running else {Move.NOTHING, Move.END})
        if short:
            assert move is Move.END


@given(st.lists(LOOK, max_size=30), st.booleans())
def test_nobody_is_let_at_a_card_that_was_not_idle_for_long_enough(looks, fresh):
    """Begun only after a whole time of looks without work; by a card found idle just now, after two of them."""
    clear_since, worked = None, False
    for seen, before, move, after in lived(looks, fresh=fresh):
        worked |= seen.work
        clear_since = None if seen.work else seen.at if clear_since is None else clear_since
        if move is Move.GO:
            assert not before.running
            assert after.running
            assert clear_since is not None
            assert seen.at - clear_since >= (0.9 if before.fresh else RULES.idle_s)
            assert not (before.fresh and worked)


@given(st.lists(LOOK, max_size=30), st.booleans())
def test_a_holder_who_goes_on_working_has_the_card_alone(looks, fresh):
    """No look shows work for longer than the time to yield without ending what is borrowed."""
    began = None
    for seen, before, move, _after in lived(looks, fresh=fresh):
        began = None if not seen.work else seen.at if began is None else began
        if began is not None and not before.running and seen.at - began >= RULES.yield_end_s:
            assert move is Move.END


# ---- who may borrow what

T0 = datetime(2027, 3, 1, 8, 0, tzinfo=UTC)
HOLDERS = ("alice", "bob", "carol", "dave")
CARD = st.fixed_dictionaries(
    {
        "holder": st.sampled_from([*HOLDERS, "eve", None]),
        "idle_s": st.sampled_from([0, 4, 5, 20]),
        "working": st.booleans(),
        "lent": st.booleans(),
        "state": st.sampled_from([AssignmentState.ACTIVE, AssignmentState.WARNED, AssignmentState.RELEASING]),
        "closed": st.booleans(),
    }
)


def world(cards, *, lends):
    """Some cards, who holds each, how long each is idle; `lends` are those who consent."""
    gpus = make_gpus(len(cards))
    held, lent, rows, readings, samples = [], [], [], [], []
    for gpu, card in zip(gpus, cards, strict=True):
        rows.append(Card(gpu.uuid, "h", gpu.pci, gpu.model, 24 * 2**30, T0, closed="fan" if card["closed"] else ""))
        process = (GpuProcess(7, 1, "compute", card["holder"]),) if card["working"] else ()
        readings.append(Reading(gpu.uuid, T0, memory_used_bytes=0, memory_total_bytes=24, processes=process))
        idle = timedelta(seconds=card["idle_s"])
        samples += [Sample(T0 - idle - timedelta(seconds=9), gpu.uuid, 90, 1, 1), Sample(T0 - idle, gpu.uuid, 0, 0, 0)]
        if card["idle_s"]:
            samples.append(Sample(T0, gpu.uuid, 0, 0, 0))
        if card["holder"]:
            since = T0 - timedelta(days=1)
            held.append(Assignment(f"a-{gpu.uuid}", Slot(gpu.uuid), card["holder"], card["state"], since, since=since))
            if card["lent"]:
                lent.append(Borrowing(gpu.uuid, Slot(gpu.uuid), "x", card["holder"], "a", BorrowState.LENT, T0))
    people = (*HOLDERS, "eve")
    instances = tuple(Instance(name, name, "h", InstanceState.READY, T0) for name in people)
    parts = {"assignments": tuple(held), "borrowings": tuple(lent), "cards": tuple(rows), "instances": instances}
    base = lab_policy()
    policy = replace(
        base,
        classes={**base.classes, "low": PriorityClass("low", priority=10, borrow=True)},
        users={name: Terms(lend_idle=True) for name in lends},
        rules=replace(base.rules, sharing=SharingRules(borrow=RULES)),
    )
    seen = Observation("h", "boot", T0, tuple(gpus), readings=Readings(tuple(readings)))
    return Snapshot(T0, Records(1, None, **parts), seen, policy), samples


@given(st.lists(CARD, min_size=1, max_size=6), st.sets(st.sampled_from(HOLDERS)), st.integers(1, 3))
def test_nobody_borrows_without_consent_nor_what_works_nor_twice(cards, lends, more):
    """Each card granted is another's, who consents and keeps it, idle long enough, in service, lent on to nobody."""
    snapshot, samples = world(cards, lends=lends)
    plan = decide_borrow(snapshot, GpuRequest("eve", "eve", more, class_name="low"), samples=samples)
    by_slot = {Slot(gpu.uuid): card for gpu, card in zip(snapshot.seen.gpus, cards, strict=True)}
    good = {
        slot
        for slot, card in by_slot.items()
        if card["holder"] in lends
        and card["idle_s"] >= RULES.idle_s
        and card["state"] is AssignmentState.ACTIVE
        and not (card["working"] or card["lent"] or card["closed"])
    }
    assert set(plan.slots) <= good
    assert len(plan.slots) == len(set(plan.slots)) == (more if len(good) >= more else 0)
    refused = decide_borrow(snapshot, GpuRequest("eve", "eve", more, class_name="normal"), samples=samples)
    assert refused.slots == ()
