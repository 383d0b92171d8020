"""Who must yield, by which rule and when: cases in tests/cases/preemption, the hard ones of the protocol among them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from preemption_worlds import NOW, at, need, world

from lxgpu.model.quota import Policy
from lxgpu.model.rules import PriorityClass
from lxgpu.policy.guarantees import Guarantees
from lxgpu.policy.preemption import after_s, candidates, lead_s, units
from lxgpu.policy.victims import Unit, cheapest

FOLDER = Path(__file__).parents[2] / "cases/preemption"
CASES = [case for path in sorted(FOLDER.glob("*.yaml")) for case in yaml.safe_load(path.read_text())]


def cards(unit: Unit) -> str:
    """The unit's cards as the cases write them."""
    return " ".join(slot.gpu for slot in unit.slots)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["promise"])
def test_preemption(case: dict[str, Any]) -> None:
    """Each case's own promise: the units with their rules, the plan, the ready times, as far as it names them."""
    wanted = need(case.get("need", {}))
    found = units(world(case), wanted)
    assert {"units", "plan"} & set(case), "a case that expects nothing cannot fail"
    if "units" in case:
        assert {cards(unit): unit.rule for unit in found} == case["units"]
    if "plan" in case:
        plan = cheapest(found, wanted.gpus)
        assert (None if plan is None else [cards(unit) for unit in plan]) == case["plan"]
    known = {cards(unit): unit for unit in candidates(world(case), wanted)}
    for name, minutes in case.get("ready", {}).items():
        assert known[name].ready == at(minutes)
    for name, text in case.get("why", {}).items():
        assert known[name].why == text
    for name, standing in case.get("standing", {}).items():
        assert known[name].standing.name.lower() == standing


def test_every_unit_says_why_and_the_end_of_its_grace_lies_after_now() -> None:
    """What people are told is never empty, and nobody's grace is over before it began."""
    for case in CASES:
        for unit in candidates(world(case), need(case.get("need", {}))):
            assert unit.why, unit
            assert unit.due >= NOW, unit


def test_a_lead_is_grace_and_term_wait_and_fence_of_the_class() -> None:
    """The three times from the warning to a proven card."""
    policy = Policy(classes={"slow": PriorityClass("slow", priority=1, grace_s=600, term_wait_s=30)})
    assert after_s(policy, "slow") == 30 + policy.rules.preemption.fence_timeout_s
    assert lead_s(policy, "slow") == 600 + after_s(policy, "slow")


def test_the_time_of_a_class_that_the_policy_lost_is_the_usual_one() -> None:
    """Somebody whose class was taken out of the policy file is still warned."""
    assert lead_s(Policy(), "gone") == lead_s(Policy(), "normal")


def test_a_unit_tells_the_numbers_that_were_compared() -> None:
    """For history and `why`: JSON values."""
    case = {"held": [{"card": "a", "by": "alice", "class": "low"}]}
    (unit,) = units(world(case), need({}))
    assert unit.numbers == {"class": "low", "priority": 20, "for_class": "high", "for_priority": 80}


def test_beyond_the_guarantee_counts_what_stays_with_a_person() -> None:
    """A card that is on its way to somebody else is not kept any more."""
    case = {
        "people": {"alice": {"guaranteed": 1}},
        "held": [
            {"card": "a", "by": "alice"},
            {"card": "b", "by": "alice"},
            {"card": "c", "by": "alice", "state": "releasing"},
            {"card": "d", "by": "alice", "state": "warned", "next": "r9"},
        ],
    }
    assert Guarantees(world(case)).beyond("alice") == 1
    assert Guarantees(world(case)).beyond("bob") == 0


def test_the_order_of_rows_does_not_matter() -> None:
    """The same units, whatever order the inventory lists its rows in."""
    for case in CASES:
        wanted, last = need(case.get("need", {})), len(case.get("held", ()))
        there = world(case)
        back = replace(world(case, order=range(last - 1, -1, -1)), verdicts=dict(reversed(there.verdicts.items())))
        assert units(there, wanted) == units(back, wanted)


def test_a_forecast_chooses_between_idle_holders_that_are_alike_and_else_changes_nothing() -> None:
    """The one less likely to come back goes; a working one has no chance to come back from anything."""
    idle = {"had": 600, "idle": 180}
    held = [{"card": f"c{number}", "by": who, **idle} for number, who in enumerate(("alice", "carol"))]
    there = world({"held": [*held, {"card": "c2", "by": "dave", "had": 600, "class": "low"}]})
    wanted = need({"class": "high", "gpus": 1})
    told = replace(there, returns={"alice": 0.8, "carol": 0.25, "dave": 0.9})
    known = {cards(unit): unit for unit in units(told, wanted)}
    assert {name: unit.comes_back for name, unit in known.items()} == {"c0": 800, "c1": 250, "c2": 0}
    assert [replace(unit, comes_back=0) for unit in known.values()] == list(units(there, wanted))
    assert [cards(unit) for unit in cheapest(units(there, wanted), 1) or ()] == ["c0"]
    assert [cards(unit) for unit in cheapest(units(told, wanted), 1) or ()] == ["c1"]
    longer = world({"held": [held[0], {**held[1], "had": 601}]})
    assert [cards(unit) for unit in cheapest(units(replace(longer, returns=told.returns), wanted), 1) or ()] == ["c0"]
