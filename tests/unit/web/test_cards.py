"""What a card says: its holder, its time, what comes next; and how many are free."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lively import lively

from lxgpu.services.calendarview import Bar, BarKind, Calendar, Line
from lxgpu.services.cardviews import SlotView, UseView
from lxgpu.services.headline import count
from lxgpu.web.cards import groups, people, tally
from lxgpu.web.owners import HUES, initials, marks
from lxgpu.web.spark import HEIGHT, spark


@pytest.fixture(scope="module")
def some(tmp_path_factory):
    """Alice is on two cards, bob on one, one is in quarantine, one free."""
    return lively(tmp_path_factory.mktemp("lively"))


def cards(found, me=""):
    """All cards."""
    return [card for group in groups(found, me) for card in group.cards]


def test_it_counts_as_the_headline_does(some):
    """Free, held and out of use are all that there are."""
    counted, told = tally(groups(some, "")), count(some.gpus, some.written_at)
    assert (counted.free, counted.total) == (told.free, told.total) == (1, 5)
    assert (counted.held, counted.out) == (3, 1)


def test_holders_and_ones_own(some):
    """Whose a card is, and that it is the reader's."""
    assert [card.one.holder for card in cards(some)] == ["alice", "alice", "bob", "dave", ""]
    assert [card.mine for card in cards(some, "alice")] == [True, True, False, False, False]
    assert not any(card.mine for card in cards(some, ""))


def test_what_comes_next_is_the_first_booking_of_that_card(some):
    """Not what somebody holds, and not what is over."""
    now, first = some.written_at, some.gpus[0].uuid
    bars = (
        Bar(now - timedelta(hours=9), now - timedelta(hours=1), "ann", BarKind.BOOKED),
        Bar(now, now + timedelta(hours=1), "alice", BarKind.HELD),
        Bar(now + timedelta(hours=5), None, "carol", BarKind.BOOKED),
        Bar(now + timedelta(hours=1), None, "bob", BarKind.BOOKED),
    )
    shown = Calendar(now=now, start=now, end=now + timedelta(days=7), lines=(Line(first, first, bars),))
    found = [card.next for card in cards(replace(some, calendar=shown))]
    assert (found[0].who, found[0].at) == ("bob", now + timedelta(hours=1))
    assert found[1:] == [None] * 4


def test_a_divided_card_has_its_parts(some):
    """Each with its holder; the whole is free only when all of it is."""
    gpu = some.gpus[0]
    parts = (SlotView(f"{gpu.uuid}/0", "bob", "active"), SlotView(f"{gpu.uuid}/1", None, "free"))
    (card, *_) = cards(replace(some, gpus=(replace(gpu, slots=parts), *some.gpus[1:])))
    assert [(part.name, part.holder) for part in card.parts] == [("0", "bob"), ("1", "")]
    assert card.state == "active"


def test_an_unknown_state_is_said_to_be_unknown(some):
    """While LXD does not answer, and of a daemon newer than the page."""
    for state in (None, "of tomorrow"):
        changed = tuple(replace(gpu, slots=(replace(gpu.slots[0], state=state),)) for gpu in some.gpus)
        assert {card.state for card in cards(replace(some, gpus=changed))} == {"unknown"}


def test_use_is_drawn_where_it_is_known(some):
    """And nothing where it is not."""
    use = {some.gpus[0].uuid: UseView(some.written_at, 1800, (None, 50.0, 100.0, None, 0.0))}
    first, second, *_ = cards(replace(some, use=use))
    assert second.spark is None
    assert first.spark.mean == 50
    assert first.spark.line.count("M") == 2, "a gap is a gap"


@given(st.lists(st.none() | st.floats(-10, 200), max_size=60))
def test_a_line_stays_in_its_frame(percents):
    """Whatever NVML says."""
    found = spark(percents)
    if found is None:
        assert all(value is None for value in percents)
        return
    numbers = [pair.split() for run in found.line.split("M")[1:] for pair in run.split("L")]
    assert all(0 <= int(x) <= found.width and 0 <= int(y) < HEIGHT for x, y in numbers)


@given(st.sets(st.text("abcdefghij", min_size=1, max_size=6), max_size=HUES))
def test_twelve_people_have_twelve_colours(names):
    """In whatever order they come."""
    found = marks(names)
    assert len({mark.hue for mark in found.values()}) == len(names)
    assert found == marks(sorted(names, reverse=True))


@pytest.mark.parametrize(
    ("name", "letters"),
    [("alice", "AL"), ("jane-doe", "JD"), ("x", "X"), ("a.b.c", "AB"), ("王小明", "王"), ("--", "?"), ("", "?")],
)
def test_initials(name, letters):
    """Two letters, or one sign."""
    assert initials(name) == letters


def test_the_containers_of_one_person_have_one_colour(some):
    """It is the person who is drawn."""
    owned = tuple(replace(view, owner="alice") for view in some.instances)
    drawn = people(replace(some, instances=owned))
    assert len({drawn[view.name] for view in owned}) == 1 < len(owned)
