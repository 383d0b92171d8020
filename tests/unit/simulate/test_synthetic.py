"""Made-up labs by name; what cannot be made up is refused; chance is the same on every machine."""

from __future__ import annotations

from math import isclose
from statistics import mean

import pytest

from lxgpu.errors import LxgpuError
from lxgpu.simulate.dice import Dice
from lxgpu.simulate.jobs import Lab
from lxgpu.simulate.synthetic import MODELS, generate


def test_there_are_the_labs_that_are_promised():
    """There are the labs that are promised."""
    assert list(MODELS) == ["lab", "deadline", "philly-like", "idle", "held"]


def test_an_unknown_lab_gives_the_nearest_name():
    """An unknown lab gives the nearest name."""
    with pytest.raises(LxgpuError) as caught:
        generate("phily", Lab(1, 8))
    assert (caught.value.code, caught.value.fix) == ("not_found", "did you mean philly-like?")


@pytest.mark.parametrize(("days", "load"), [(0, 1), (28, 0), (28, -1), (28, 11), (28, float("nan")), (1e9, 1)])
def test_what_cannot_be_made_up_is_refused(days, load):
    """What cannot be made up is refused."""
    with pytest.raises(LxgpuError) as caught:
        generate("lab", Lab(1, 8), days=days, load=load)
    assert caught.value.code == "usage"


@pytest.mark.parametrize("name", MODELS)
def test_another_seed_gives_another_lab(name):
    """Another seed gives another lab."""
    assert generate(name, Lab(1, 8), seed=1).jobs != generate(name, Lab(1, 8), seed=2).jobs


def test_what_was_fitted_to_philly_says_so():
    """What was fitted to Philly says so."""
    assert "CC-BY-4.0" in generate("philly-like", Lab(1, 8)).source
    assert "made up: lab, 28 days, load 0.9, 1x8 cards, seed 7" in generate("lab", Lab(1, 8), seed=7).source


def test_dice_give_the_same_on_every_machine():
    """The numbers were noted once; a change of them makes every old result impossible to repeat."""
    dice = Dice("a", 1)
    assert [round(dice.share(), 6) for _ in range(3)] == [0.242718, 0.006093, 0.566451]


def test_dice_are_fair():
    """Means are right and weights hold."""
    dice = Dice("fair")
    assert isclose(mean(dice.wait(5) for _ in range(20_000)), 5, rel_tol=0.05)
    drawn = sorted(dice.lognormal(7, 1) for _ in range(20_000))
    assert isclose(drawn[10_000], 7, rel_tol=0.05)
    picks = [dice.pick("ab", (3, 1)) for _ in range(20_000)]
    assert isclose(picks.count("a") / len(picks), 0.75, rel_tol=0.03)
    assert {dice.below(3) for _ in range(100)} == {0, 1, 2}
