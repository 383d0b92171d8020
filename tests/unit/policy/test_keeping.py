"""Idle cards kept by hand: bounded for each person, over a sliding window."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from inventory_rows import assignment, at, card, instance
from reservation_rows import booking

from lxgpu.model.plan import Verdict
from lxgpu.model.quota import Policy
from lxgpu.model.reservation import Keep
from lxgpu.model.rules import Allowance, IdleRules, Rules
from lxgpu.model.snapshot import Observation, Records, Snapshot
from lxgpu.policy.keeping import booked_soon, decide_keep, left_s

HOUR = 3600
NOW = at(0)
ALLOWANCE = Allowance(amount=8 * HOUR, window_s=7 * 24 * HOUR)


def world(*keeps, held=True, reservations=(), amount=8 * HOUR, now=NOW):
    """Alice with one card."""
    rules = Rules(idle=IdleRules(keep=Allowance(amount, ALLOWANCE.window_s)))
    records = Records(
        1,
        None,
        instances=(instance("alice"), instance("box", owner="alice")),
        assignments=(assignment(),) if held else (),
        cards=(card(),),
        reservations=tuple(reservations),
        keeps=keeps,
    )
    return Snapshot(now, records, Observation("gpu1", "", now), Policy(rules=rules))


def kept(id_="k1", since=None, until=None, instance="alice"):
    """An earlier keep of alice's: the last two hours, unless said."""
    return Keep(id_, instance, "alice", since or at(-120), until or at(0), "a run")


def ask(snapshot, seconds=2 * HOUR):
    """Ask for two hours."""
    return decide_keep(snapshot, "alice", seconds=seconds, reason="a long think", identifier="new")


def test_what_is_left_is_told():
    """Two of eight hours: six are left, and every card is named."""
    found = ask(world())
    assert found.plan.decision is Verdict.GRANTED
    assert (found.row.until, found.row.reason, found.left_s) == (at(120), "a long think", 6 * HOUR)
    assert [(step.do, step.gpu) for step in found.plan.steps] == [("keep", "GPU-1")]
    assert found.plan.reasons[0].text == "6h is left of 8h"


def test_earlier_keeps_count_whatever_container_they_were_for():
    """It is the person's amount; what lies before the window counts no more."""
    assert ask(world(kept(), kept("k2", at(-240), at(-120), instance="box"))).left_s == 2 * HOUR
    long_ago = kept(since=at(-8 * 24 * 60), until=at(-7.5 * 24 * 60))
    assert ask(world(long_ago)).left_s == 6 * HOUR


def test_a_keep_that_runs_is_made_longer():
    """Not begun anew: one row, and only what is added counts."""
    found = ask(world(kept(since=at(-60), until=at(60))))
    assert (found.row.id, found.row.since, found.row.until) == ("k1", at(-60), at(120))
    assert found.left_s == 8 * HOUR - 3 * HOUR
    shorter = ask(world(kept(since=at(-60), until=at(300))), seconds=HOUR)
    assert shorter.row.until == at(300)


def test_more_than_is_left_is_refused_with_what_is():
    """And exactly what is left is granted."""
    snapshot = world(kept(since=at(-420), until=at(0)))
    refused = ask(snapshot)
    assert [reason.code for reason in refused.plan.reasons] == ["over_keep"]
    assert refused.left_s == HOUR
    assert ask(snapshot, seconds=HOUR).left_s == 0
    assert "nothing of it is left" in ask(world(amount=0), seconds=60).plan.reasons[0].text


def test_without_a_card_there_is_nothing_to_keep():
    """Said by its own code."""
    assert [reason.code for reason in ask(world(held=False)).plan.reasons] == ["not_held"]


def test_a_booking_is_not_held_off_and_that_is_known():
    """One of the same model that begins before the end; not one's own, none of another model, none after."""
    assert booked_soon(world(reservations=[booking(start=at(60))]), "alice", at(120)) == at(60)
    others = [booking("r1", "alice"), booking("r2", pool="NVIDIA H100"), booking("r3", start=at(200), until=at(300))]
    assert booked_soon(world(reservations=others), "alice", at(120)) is None


@given(st.lists(st.tuples(st.integers(0, 10_000), st.integers(60, 40_000)), max_size=12))
def test_nobody_ever_keeps_more_than_the_amount_in_any_window(asks):
    """Ask as often as you like, at any times: in no window of a week are there more than eight hours."""
    keeps, now = [], NOW
    for pause, seconds in asks:
        now = now + (at(pause) - at(0))
        found = decide_keep(world(*keeps, now=now), "alice", seconds=seconds, reason="x", identifier=f"k{len(keeps)}")
        if found.row is not None:
            keeps = [*(row for row in keeps if row.id != found.row.id), found.row]
    for row in keeps:
        begin = row.until.timestamp() - ALLOWANCE.window_s
        inside = sum(max(0, min(one.until, row.until).timestamp() - max(one.since.timestamp(), begin)) for one in keeps)
        assert inside <= ALLOWANCE.amount
    assert left_s(keeps, ALLOWANCE, now=now) >= 0
