"""The cheapest plan on small, clear examples; tests/property/test_victims.py has the exactness."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lxgpu.model.gpu import Slot
from lxgpu.policy import victims
from lxgpu.policy.victims import Standing, Unit, cheapest, cost

NOW = datetime(2027, 3, 1, tzinfo=UTC)


def unit(name: str, slots: int = 1, **fields: Any) -> Unit:
    """A busy unit of an instance of its own."""
    usual = {"instance": name, "standing": Standing.BUSY_BEYOND, "ready": NOW, "work_lost_s": 60 * slots}
    cards = tuple(Slot(f"{name}{index}") for index in range(slots))
    return Unit(**{"id": name, "slots": cards, **usual, **fields})


def names(plan: tuple[Unit, ...] | None) -> str | None:
    """The plan's units."""
    return None if plan is None else " ".join(one.id for one in plan)


def test_nothing_needed_takes_nobody() -> None:
    """Free cards suffice."""
    assert cheapest([unit("a")], 0) == cheapest([], -1) == ()


def test_too_little_takes_nobody() -> None:
    """None, not what there is."""
    assert cheapest([unit("a"), unit("b")], 3) is None
    assert cheapest([], 1) is None


def test_a_unit_gives_more_than_needed_only_where_nothing_smaller_does() -> None:
    """All of a unit's slots count, taken for the need or not."""
    assert names(cheapest([unit("a", 4), unit("b", 1)], 1)) == "b"
    assert names(cheapest([unit("a", 4), unit("b", 1)], 2)) == "a"


def test_one_dearer_card_outweighs_any_number_of_cheaper_ones() -> None:
    """Classes are compared from the dearest down."""
    many = [unit(f"m{index}", standing=Standing.IDLE_WITHIN, work_lost_s=10**6) for index in range(9)]
    assert names(cheapest([unit("a", 9, work_lost_s=0), *many], 9)) == " ".join(one.id for one in many)


def test_who_was_hit_today_counts_twice_in_a_class_and_not_beyond_it() -> None:
    """The double count spares among equals, and makes no idle card dearer than a busy one."""
    hit = unit("a", standing=Standing.IDLE_BEYOND, weight=2)
    assert names(cheapest([hit, unit("b", standing=Standing.IDLE_BEYOND)], 1)) == "b"
    assert names(cheapest([hit, unit("b")], 1)) == "a"


def test_fewer_instances_come_before_less_work() -> None:
    """The order of the comparisons."""
    same = [unit("a", instance="x", work_lost_s=900), unit("b", instance="x", work_lost_s=900)]
    assert names(cheapest([*same, unit("c"), unit("d")], 2)) == "a b"


def test_of_two_alike_the_one_less_likely_to_come_back_goes_and_that_is_asked_last() -> None:
    """The forecast breaks ties, and outweighs nothing: not a second of the time held."""
    idle = {"standing": Standing.IDLE_BEYOND, "work_lost_s": 0, "held_s": 100}
    soon, later = unit("a", comes_back=800, **idle), unit("b", comes_back=799, **idle)
    assert names(cheapest([soon, later], 1)) == "b"
    assert names(cheapest([soon, unit("b", comes_back=0, **{**idle, "held_s": 101})], 1)) == "a"
    assert names(cheapest([unit("a", **idle), unit("b", **idle)], 1)) == "a"


def test_a_floor_holds_over_all_units_that_count_against_it() -> None:
    """One may go from under it, whoever it is; an idle one that goes counts, too."""
    one = (("group:vision", 1),)
    idle = unit("c", standing=Standing.IDLE_WITHIN, floors=(("group:vision", None),))
    assert cheapest([unit("a", floors=one), unit("b", floors=one)], 2) is None
    assert cheapest([unit("a", floors=one), idle], 2) is None
    assert names(cheapest([idle, unit("d")], 2)) == "c d"
    assert names(cheapest([unit("a", floors=one), unit("b", floors=one), unit("e", 2)], 2)) == "e"


def test_a_floor_that_no_dearer_way_avoids_is_no_reason_to_stop() -> None:
    """The cheapest unit is left where it stands in the way of a whole answer."""
    idle = unit("a", standing=Standing.IDLE_BEYOND, floors=(("person:x", None),))
    busy = unit("b", 2, floors=(("person:x", 2),))
    assert names(cheapest([idle, busy], 2)) == "b"


def test_costs_compare_between_plans_of_different_hosts() -> None:
    """A plan without the dearest class is the smaller one, and nobody is the smallest of all."""
    idle, busy = unit("a", standing=Standing.IDLE_WITHIN), unit("b")
    assert cost([]) < cost([idle]) < cost([idle, idle]) < cost([busy]) < cost([busy, idle])


def test_a_plan_that_could_spare_somebody_is_a_fault_and_not_mended() -> None:
    """The check behind the search."""
    with pytest.raises(AssertionError, match="not the smallest plan"):
        victims._checked((unit("a"), unit("b")), 1)  # noqa: SLF001 -- the search itself never gives it one


def test_due_is_the_end_of_the_grace() -> None:
    """TERM comes `after_s` before the card can be there."""
    one = unit("a", grace_s=60, after_s=240)
    assert (one.due, one.lead_s) == (NOW - timedelta(seconds=240), 300)


def test_sixteen_cards_take_a_few_milliseconds_at_most() -> None:
    """A bound that a slow machine keeps; the search takes a fraction of a millisecond."""
    units = [unit(f"u{index:02}", instance=f"i{index % 6}", held_s=index * 7919 % 5000) for index in range(16)]
    begin = time.perf_counter()
    for needed in range(1, 17):
        cheapest(units, needed)
    assert time.perf_counter() - begin < 10
