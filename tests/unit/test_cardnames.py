"""One way to call a card: as short as tells it from all others, and never shorter than people are used to."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lxgpu.model.cardnames import SHORTEST, lent_as, n_asked, n_cards, n_held, short_model, short_uuids

ALIKE = ("GPU-359f95dd-0001-4000-8000-000000000000", "GPU-359f95dd-0002-4000-8000-000000000000")


def test_cards_that_begin_alike_have_names_that_differ():
    """Longer for all, so that a column stays a column."""
    assert short_uuids(ALIKE[:1])[ALIKE[0]] == "GPU-359f95dd"
    assert list(short_uuids(ALIKE).values()) != ["GPU-359f95dd"] * 2
    assert sorted(short_uuids(ALIKE).values()) == ["GPU-359f95dd-0001", "GPU-359f95dd-0002"]


def test_a_model_is_told_without_its_maker():
    """The model is what people choose by."""
    assert short_model("NVIDIA GeForce RTX 3090") == "RTX 3090"


def test_a_part_is_called_a_part():
    """By its name or the pattern that asks for one; it keeps its part behind the card's short name."""
    assert short_uuids([f"{ALIKE[0]}/2/4"]) == {f"{ALIKE[0]}/2/4": "GPU-359f95dd/2/4"}
    part = lent_as("NVIDIA RTX 3090", f"{ALIKE[0]}/2/4")
    assert part == "NVIDIA RTX 3090 1/4"
    assert short_model(part) == n_asked(1, part) == n_cards(1, part) == "1/4 of RTX 3090"
    assert n_cards(3, part) == "3 parts, each 1/4 of RTX 3090"
    assert short_model("* 0.25") == n_asked(1, "* 0.25") == "a part of a card (0.25 or more)"
    assert short_model("*3090* 0.5") == "a part of *3090* (0.5 or more)"
    assert (n_asked(2, "*"), n_cards(2, "NVIDIA T4"), n_cards(1, "")) == ("2 GPUs", "2 GPUs of NVIDIA T4", "1 GPU")
    assert n_held([]) == "no GPU"
    assert n_held([ALIKE[0], ALIKE[1], "GPU-1/2/4"]) == "2 GPUs and 1/4 of a GPU"


@given(st.sets(st.uuids().map(lambda one: f"GPU-{one}"), min_size=1))
def test_each_name_is_a_beginning_of_one_card_alone(uuids):
    """Whatever there is."""
    named = short_uuids(uuids)
    assert set(named) == uuids
    for uuid, name in named.items():
        assert [one for one in uuids if one.startswith(name)] == [uuid]
        assert len(name) >= SHORTEST - 1
