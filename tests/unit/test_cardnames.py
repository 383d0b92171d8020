"""One way to call a card: as short as tells it from all others, and never shorter than people are used to."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lxgpu.model.cardnames import SHORTEST, short_model, short_uuids

ALIKE = ("GPU-359f95dd-0001-4000-8000-000000000000", "GPU-359f95dd-0002-4000-8000-000000000000")


def test_cards_that_begin_alike_have_names_that_differ():
    """Longer for all, so that a column stays a column."""
    assert short_uuids(ALIKE[:1])[ALIKE[0]] == "GPU-359f95dd"
    assert list(short_uuids(ALIKE).values()) != ["GPU-359f95dd"] * 2
    assert sorted(short_uuids(ALIKE).values()) == ["GPU-359f95dd-0001", "GPU-359f95dd-0002"]


def test_a_model_is_told_without_its_maker():
    """The model is what people choose by."""
    assert short_model("NVIDIA GeForce RTX 3090") == "RTX 3090"


@given(st.sets(st.uuids().map(lambda one: f"GPU-{one}"), min_size=1))
def test_each_name_is_a_beginning_of_one_card_alone(uuids):
    """Whatever there is."""
    named = short_uuids(uuids)
    assert set(named) == uuids
    for uuid, name in named.items():
        assert [one for one in uuids if one.startswith(name)] == [uuid]
        assert len(name) >= SHORTEST - 1
