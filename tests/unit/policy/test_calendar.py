"""Capacity over time: the skyline, what counts as promised and as there, and until when a lease may last."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from calendar_worlds import A100, HOST, NOW, PLAIN, T4, cases, from_case, holding, hours, policy_of, reservation, world

from lxgpu.model.instance import Power, Sighting
from lxgpu.policy.calendar import Skyline, Span, capacity, larger, out_of_service, pools, promises
from lxgpu.policy.outlook import outlook, until_for_lease

LINE = (Span(hours(1), hours(3), 3, "a"), Span(hours(2), hours(4), 1, "b"), Span(hours(6), None, 2, "c"))


def test_free_is_the_smallest_number_throughout_a_half_open_time() -> None:
    """What ends at an instant is not in the way of what begins at it."""
    line = Skyline(4, LINE)
    asked = [(0, 1), (0, 1.1), (1, 2), (1, 3), (3, 4), (4, 6), (4, None), (2, 2), (3, 2)]
    found = [line.free(hours(start), None if until is None else hours(until)) for start, until in asked]
    assert found == [4, 1, 1, 0, 3, 4, 2, 0, 3]


def test_more_asked_for_than_there_is_shows_as_less_than_nothing() -> None:
    """An over-booked time is not hidden."""
    assert Skyline(1, LINE).free(hours(2), hours(3)) == -3


def test_first_fit_is_the_earliest_start_that_is_free_for_so_long() -> None:
    """Gaps that are too short are passed over; without an end there may be no time at all."""
    line = Skyline(4, LINE)
    assert line.first_fit(4, 3600, NOW) == NOW
    assert line.first_fit(4, 3601, NOW) == hours(4)
    assert line.first_fit(4, 7201, NOW) is None
    assert line.first_fit(2, 10**8, NOW) == hours(3)
    assert line.first_fit(2, 3600, hours(1.5)) == hours(3)
    assert line.first_fit(2, 3600, hours(1.5), hours(4)) == hours(3)
    assert line.first_fit(2, 3600, hours(1.5), hours(3.9)) is None
    assert line.first_fit(5, 1, NOW) is None


def test_lasting_says_until_when() -> None:
    """None is for ever, the start itself is not even then."""
    line = Skyline(4, LINE)
    assert line.lasting(2, hours(3)) is None
    assert line.lasting(3, hours(3)) == hours(6)
    assert line.lasting(3, hours(0)) == hours(1)
    assert line.lasting(3, hours(1)) == hours(1)


def test_spans_without_length_and_without_cards_change_nothing() -> None:
    """They are nobody's time."""
    line = Skyline(
        2, [Span(hours(1), hours(1), 2, "a"), Span(hours(2), hours(1), 2, "b"), Span(hours(1), hours(2), 0, "c")]
    )
    line.take(Span(hours(1), hours(1), 2, "d"))
    assert line.free(NOW, None) == 2
    assert line.capacity == 2


def test_one_side_counts_with_the_larger_of_what_it_booked_and_what_it_holds() -> None:
    """Two held and three booked are three while both last."""
    booked, held = [Span(hours(2), hours(4), 3, "b")], [Span(hours(0), hours(3), 2, "h")]
    line = Skyline(0, larger(booked, held))
    assert [-line.free(hours(at), hours(at)) for at in (0, 1, 2, 3, 4)] == [2, 2, 3, 3, 0]
    assert larger(booked, []) == booked
    assert larger([], held) == held


def test_what_is_promised_are_the_bookings_of_that_model_on_that_host_that_are_not_soft(tmp_path: Path) -> None:
    """Neither those that wait, nor requests and claims, nor those left out."""
    rows = [
        reservation("b1", "bob", **{"from": 1, "until": 2}),
        reservation("b2", "bob", state="active", **{"from": -1, "until": 2}),
        reservation("b3", "bob", state="preparing", **{"from": 0, "until": 2}),
        reservation("b4", "bob", state="waiting", **{"from": 1, "until": 2}),
        reservation("b5", "bob", soft=True, **{"from": 1, "until": 2}),
        reservation("b6", "bob", pool="T4", **{"from": 1, "until": 2}),
        reservation("b7", "bob", **{"from": 1, "until": 2}),
        reservation("r1", "bob", kind="request"),
        reservation("c1", "bob", kind="return"),
    ]
    snapshot = world(policy_of(PLAIN, tmp_path), reservations=rows)
    assert {span.id for span in promises(snapshot, HOST, A100, but=frozenset({"b7"}))} == {"b1", "b2", "b3"}
    assert promises(snapshot, "elsewhere", A100) == ()


def test_capacity_is_what_is_in_service_whoever_holds_it(tmp_path: Path) -> None:
    """A held card counts, unless something else stands against it."""
    held = [
        holding(0, "A100-0", "bob"),
        holding(1, "A100-1", "bob"),
        holding(2, "A100-2", "carol", state="quarantined"),
        holding(3, "A100-3", "carol", state="planned"),
    ]
    out = {"A100-1": "closed", "A100-4": "sick", "A100-5": "quarantined"}
    snapshot = world(policy_of(PLAIN, tmp_path), have={"A100": 7, "T4": 1}, held=held, out=out)
    assert capacity(snapshot, A100) == 3
    assert capacity(snapshot, T4) == 1
    assert capacity(snapshot, "NVIDIA H100") == 0
    assert {uuid: reason.code for uuid, reason in out_of_service(snapshot).items()} == {
        "A100-1": "closed",
        "A100-2": "quarantined",
        "A100-4": "sick",
        "A100-5": "quarantined",
    }


def test_a_card_that_lxd_shows_at_its_holder_is_in_service_and_a_strangers_is_not(tmp_path: Path) -> None:
    """What is attached without lxgpu cannot be promised to anybody."""
    held = [holding(0, "A100-0", "bob")]
    snapshot = world(policy_of(PLAIN, tmp_path), have={"A100": 3}, held=held)
    shown = tuple(
        Sighting(name, project, Power.RUNNING, {}, {}, {"gpu0": {"type": "gpu", "pci": f"0000:0{number}:00.0"}})
        for number, (name, project) in enumerate([("bob", "default"), ("stranger", "other")])
    )
    snapshot = replace(snapshot, seen=replace(snapshot.seen, sightings=shown))
    assert {uuid: reason.code for uuid, reason in out_of_service(snapshot).items()} == {"A100-1": "foreign"}
    assert capacity(snapshot, A100) == 2


def test_the_model_with_the_most_room_comes_first(tmp_path: Path) -> None:
    """Room is what is not booked; of as much room the one with more free cards, then the name."""
    policy = policy_of(PLAIN, tmp_path)
    assert pools(world(policy, have={"A100": 2, "T4": 2}), "*") == (A100, T4)
    booked = [reservation("b1", "bob", **{"from": 100, "until": 101})]
    assert pools(world(policy, have={"A100": 2, "T4": 2}, reservations=booked), "*") == (T4, A100)
    assert pools(world(policy, have={"A100": 2, "T4": 2}, held=[holding(0, "A100-0", "bob")]), "*") == (T4, A100)
    assert pools(world(policy, have={"A100": 2, "T4": 2}), "t4") == (T4,)
    assert pools(world(policy), "H100") == ()


@pytest.mark.parametrize("case", cases("leases"), ids=lambda case: case["promise"])
def test_until_when_what_is_granted_now_may_last(case: dict[str, Any], tmp_path: Path) -> None:
    """Each case's own promise."""
    asks, snapshot = case["asks"], from_case(case, tmp_path)
    until, gpus = hours(asks["until"]), asks.get("gpus", 1)
    but = frozenset(asks.get("instead", ()))
    assert until_for_lease(snapshot, A100, asks["who"], until, gpus=gpus, but=but) == hours(case["lasts"])


def test_a_card_that_is_promised_on_counts_for_whom_it_is_promised_to(tmp_path: Path) -> None:
    """The holder of now is on its way out."""
    held = [
        holding(0, "A100-0", "bob", state="warned", until=50),
        holding(1, "A100-0", "carol", state="planned", until=5),
    ]
    line = outlook(world(policy_of(PLAIN, tmp_path), have={"A100": 1}, held=held), A100)
    assert line.lasting(0, NOW) is None
    assert line.first_fit(1, 60, NOW) == hours(5)


def test_a_lease_that_is_over_is_expected_to_yield_a_lead_after_somebody_waits(tmp_path: Path) -> None:
    """Grace, the wait after TERM and the fence: 5 min, 2 min and 2 min."""
    held = [holding(0, "A100-0", "bob", until=-5)]
    line = outlook(world(policy_of(PLAIN, tmp_path), have={"A100": 1}, held=held), A100)
    assert line.first_fit(1, 60, NOW) == NOW + timedelta(minutes=9)
