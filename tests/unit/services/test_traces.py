"""Reading what the history says of taking."""

from __future__ import annotations

import pytest
from inventory_rows import at
from reservation_rows import displaced, warned

from lxgpu.model.gpu import Slot
from lxgpu.model.operation import Event
from lxgpu.services.traces import in_words, rule_of, slots_of, taking_of, unsaid


@pytest.mark.parametrize(
    ("detail", "slots"),
    [
        ({"slots": ["GPU-1", "GPU-2/mig-1"]}, (Slot("GPU-1"), Slot("GPU-2/mig-1"))),
        ({"gpus": ["GPU-1"]}, (Slot("GPU-1"),)),
        ({"gpu": "GPU-1", "gpus": 3}, (Slot("GPU-1"),)),
        ({"gpus": 2}, ()),
        ({}, ()),
    ],
)
def test_the_cards_of_an_event(detail, slots):
    """Written as a list, as one, or as a mere number of cards."""
    assert slots_of(Event(at(0), "root", "displaced", "alice", "", detail)) == slots


def test_the_newest_word_on_a_slot_counts():
    """Of two warnings the later one; a warning for another's reservation is not taken for this one's."""
    newest, old = warned(rule="idle", reservation="r2"), warned()
    assert taking_of([newest, old], "alice", Slot("GPU-1")) is newest
    assert taking_of([newest, old], "alice", Slot("GPU-1"), "r1") is old
    assert taking_of([newest, old], "alice", Slot("GPU-9")) is None
    assert taking_of([newest, old], "carol", Slot("GPU-1")) is None
    assert rule_of([displaced(rule="expired")], "alice", Slot("GPU-1"), "r1") == "expired"


def test_numbers_in_words():
    """Seconds as durations, shares with their sign, what is not known left out."""
    numbers = {"priority": 10, "idle_s": 10800, "below_percent": 1.0, "rank": [1, 2], "owed": None, "soft": True}
    assert in_words(numbers) == "priority 10, idle 3h, below 1%, rank 1/2, soft yes"
    assert in_words({"held_s": 0}) == "held 0s"


def test_what_a_sentence_names_is_not_said_again():
    """A number is left out where its words stand in the sentence, each by itself."""
    numbers = {"class": "low", "priority": 10, "idle_s": 10800, "floor_s": 60}
    said = "class low (10) yields: idle 3h"
    assert unsaid(numbers, said) == {"floor_s": 60}
    assert unsaid({"priority": 1}, said) == {"priority": 1}
