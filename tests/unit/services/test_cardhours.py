"""Pieces of holding: nothing twice, nothing left out, use only where somebody looked."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lxgpu.model.assignment import Assignment, AssignmentState
from lxgpu.model.gpu import Slot
from lxgpu.model.operation import Event
from lxgpu.model.rules import IdleRules
from lxgpu.model.usage import Sample
from lxgpu.services.cardhours import HOUR_US, Had, pieces
from lxgpu.services.oldnames import Names

T0 = datetime(2027, 3, 1, 8, 0, tzinfo=UTC)
CARDS, PEOPLE, PARTS = ("GPU-1", "GPU-2"), ("alice", "bob", "carol"), {1: ("whole",), 3: ("1/3", "2/3", "3/3")}


def at(minutes):
    """So many minutes after the beginning."""
    return T0 + timedelta(minutes=minutes)


def held(name, begin, end=None, *, gpu="GPU-1", part="whole"):
    """A slot held, still or until then."""
    closed = None if end is None else at(end)
    state = AssignmentState.ACTIVE if end is None else AssignmentState.CLOSED
    identifier = f"{name}{begin}{gpu}{part}"
    return Assignment(identifier, Slot.of(gpu, part), name, state, at(begin), since=at(begin), closed_at=closed)


def looked(name, begin, end, percent, *, gpu="GPU-1", every=1):
    """Samples."""
    return [Sample(at(one), gpu, percent, 0, 0, name) for one in range(begin, end, every)]


def cut(holds, samples=(), *, since=0.0, now=600.0, names=None):
    """The pieces between two instants."""
    asked = {"since": at(since), "now": at(now), "names": names or Names()}
    return list(pieces(holds, sorted(samples, key=lambda one: one.at), IdleRules(), **asked))


def hours(found):
    """By what they were."""
    sums = dict.fromkeys(Had, 0.0)
    for piece in found:
        sums[piece.had] += piece.gpu_us / HOUR_US
    return tuple(sums.values())


def test_a_look_speaks_for_its_holder_alone():
    """Alice's last look lasts until the card is bob's, and says nothing of bob."""
    holds = [held("alice", 0, 60), held("bob", 60, 120)]
    found = cut(holds, [*looked("alice", 0, 60, 80, every=10), Sample(at(70), "GPU-1", 0, 0, 0, "bob")], now=120)
    told = [(one.instance, one.had, (one.end - one.begin) / 60e6) for one in found]
    assert told == [
        ("alice", Had.USED, 60.0),
        ("bob", Had.UNKNOWN, 10.0),
        ("bob", Had.IDLE, 1.0),
        ("bob", Had.UNKNOWN, 49.0),
    ]


def test_what_lies_before_and_after_is_cut_off():
    """A look from before the time asked for speaks for its beginning."""
    found = cut([held("alice", -600)], looked("alice", -5, 6, 80, every=10), since=0, now=60)
    assert hours(found) == pytest.approx((0.1, 0.0, 0.9))  # 5 to the next, then one minute
    assert min(one.begin for one in found) == T0.timestamp() * 1e6


def test_parts_of_a_card_are_parts_of_its_hours():
    """Who has half a card has half of its time, whoever has the other half."""
    found = cut([held("alice", 0, part="1/2"), held("bob", 30, 60, part="2/2")], looked("", 0, 60, 80), now=60)
    assert hours(found) == (0.0, 0.0, 0.75)
    assert [(one.card, one.instance, one.gpu_us / 60e6) for one in found] == [
        ("GPU-1", "alice", 30.0),
        ("GPU-1", "bob", 15.0),
    ]


def test_who_was_renamed_is_one():
    """Samples and closed rows carry the name of their time; one who has the old name now is somebody else."""
    moved = Event(at(120), "root", "renamed", "al", detail={"from": "al", "to": "alice"})
    twice = Event(at(240), "root", "renamed", "alice", detail={"from": "alice", "to": "alicia"})
    names = Names([twice, moved, moved])
    holds = [held("al", 0, 60), held("alicia", 60), held("al", 300, gpu="GPU-2")]
    found = cut(holds, [*looked("al", 0, 120, 80), *looked("alice", 120, 240, 80)], now=360, names=names)
    assert {(one.card, one.instance) for one in found} == {("GPU-1", "alicia"), ("GPU-2", "al")}
    assert hours(one for one in found if one.card == "GPU-1")[0] == 4.0


@st.composite
def worlds(draw):
    """Any holding that the inventory allows, or not, and any looks at it."""
    span = st.tuples(st.integers(-300, 600), st.integers(1, 400))
    layouts = {card: PARTS[draw(st.sampled_from((1, 3)))] for card in CARDS}
    holds = [
        held(draw(st.sampled_from(PEOPLE)), begin, begin + length, gpu=gpu, part=draw(st.sampled_from(layouts[gpu])))
        for (begin, length), gpu in draw(st.lists(st.tuples(span, st.sampled_from(CARDS)), max_size=12))
    ]
    looks = draw(
        st.dictionaries(
            st.tuples(st.sampled_from(CARDS), st.integers(-300, 700)),
            st.tuples(st.sampled_from(["", *PEOPLE]), st.none() | st.integers(0, 100)),
            max_size=60,
        )
    )
    samples = [Sample(at(minute), card, percent, 0, 0, who) for (card, minute), (who, percent) in looks.items()]
    return holds, samples


@given(worlds())
def test_nothing_is_counted_twice_or_left_out(world):
    """Of each card, or part of one, exactly the time for which anybody held it, whoever looked, and once."""
    holds, samples = world
    found = cut(holds, samples)
    for card in CARDS:
        minutes = {
            (hold.slot, minute)
            for hold in holds
            if hold.slot.card == card
            for minute in range(
                max(0, int((hold.since - T0).total_seconds() // 60)),
                min(600, int((hold.closed_at - T0).total_seconds() // 60)),
            )
        }
        mine = [one for one in found if one.card == card]
        assert sum(one.gpu_us for one in mine) == sum(round(slot.share * 60_000_000) for slot, _ in minutes)
        assert all(0 <= one.gpu_us <= one.end - one.begin for one in mine)
        by_time = defaultdict(int)
        for one in mine:
            by_time[one.begin, one.end] += one.gpu_us
        assert all(weight <= end - begin for (begin, end), weight in by_time.items())


@given(worlds())
def test_looks_change_what_is_known_and_not_what_is_held(world):
    """And work is never more than the time for which a look that shows it can speak."""
    holds, samples = world
    with_looks, without = cut(holds, samples), cut(holds)
    assert sum(one.gpu_us for one in with_looks) == sum(one.gpu_us for one in without)
    assert {one.had for one in without} <= {Had.UNKNOWN}
    busy = sum(sample.utilization_percent is not None and sample.utilization_percent >= 1 for sample in samples)
    assert hours(with_looks)[0] <= busy * 0.25 + 1e-9


@given(worlds(), st.integers(1, 599))
def test_two_times_are_the_whole(world, middle):
    """What is held before an instant and after it is what is held."""
    holds, samples = world
    parts = [*cut(holds, samples, now=middle), *cut(holds, samples, since=middle)]
    assert sum(one.gpu_us for one in parts) == sum(one.gpu_us for one in cut(holds, samples))
