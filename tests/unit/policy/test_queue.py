"""Whose turn it is, who may go first, and when the others can hope to; cases in tests/cases/booking."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from calendar_worlds import A100, HOST, PLAIN, cases, from_case, holding, hours, policy_of, reservation, world

from lxgpu.model.reservation import Reservation
from lxgpu.model.snapshot import Snapshot
from lxgpu.policy.backfill import ESTIMATED, backfill, estimates, foreseen
from lxgpu.policy.calendar import Skyline, Span
from lxgpu.policy.outlook import Place
from lxgpu.policy.queue import in_order


def waiting(case: dict[str, Any], snapshot: Snapshot) -> list[Reservation]:
    """The rows of the case that wait, as it lists them."""
    rows = {row.id: row for row in snapshot.records.reservations}
    return [rows[row["id"]] for row in case["waiting"]]


@pytest.mark.parametrize("case", cases("queue"), ids=lambda case: case["promise"])
def test_the_order_of_those_who_wait(case: dict[str, Any], tmp_path: Path) -> None:
    """Each case's own promise; how the rows are given does not matter."""
    snapshot = from_case(case, tmp_path)
    rows = waiting(case, snapshot)
    assert [row.id for row in in_order(snapshot, rows)] == case["order"]
    assert [row.id for row in in_order(snapshot, rows[::-1])] == case["order"]


@pytest.mark.parametrize("case", cases("backfill"), ids=lambda case: case["promise"])
def test_one_pass_over_those_who_wait(case: dict[str, Any], tmp_path: Path) -> None:
    """Each case's own promise."""
    snapshot = from_case(case, tmp_path)
    rows = waiting(case, snapshot)
    found = backfill(snapshot, rows)
    ends = {start.reservation.id: start.until for start in found.starts}
    for item in case["begins"]:
        name, until = item if isinstance(item, list) else (item, None)
        assert until is None or ends[name] == hours(until)
    assert list(ends) == [item[0] if isinstance(item, list) else item for item in case["begins"]]
    shadow = None
    if "shadow" in case:
        name, at = case["shadow"]
        shadow = (name, None if at is None else hours(at))
    assert (found.shadow and (found.shadow.reservation.id, found.shadow.at)) == shadow
    if "expected" in case:
        asked = {name: (place, None if at is None else hours(at)) for name, (place, at) in case["expected"].items()}
        assert estimates(snapshot, rows) == asked


def test_cards_of_one_request_come_from_one_host(tmp_path: Path) -> None:
    """Two hosts with two free cards each do not make four; of both the fuller one is used first."""
    free = {Place("h1", A100): Skyline(4, [Span(hours(-1), None, 2, "x")]), Place("h2", A100): Skyline(3)}
    rows = [
        reservation("four", "alice", kind="request", gpus=4),
        reservation("two", "bob", kind="request", gpus=2),
        reservation("three", "carol", kind="request", gpus=3),
    ]
    found = backfill(world(policy_of(PLAIN, tmp_path)), rows[1:], free)
    assert [(start.reservation.id, start.place.host) for start in found.starts] == [("two", "h1"), ("three", "h2")]
    found = backfill(world(policy_of(PLAIN, tmp_path)), rows[:1], {Place("h2", A100): Skyline(3)})
    assert found.starts == ()
    assert found.shadow is None


def test_the_place_with_the_fewest_cards_left_is_known_after_each_grant(tmp_path: Path) -> None:
    """Small requests fill up what was begun, so that large ones find room later."""
    free = {Place("h1", A100): Skyline(4), Place("h2", A100): Skyline(3)}
    rows = [
        reservation("five", "alice", kind="request", gpus=5),
        reservation("named", "bob", kind="request", gpus=3, host="h1"),
        reservation("one", "carol", kind="request", gpus=1),
    ]
    found = backfill(world(policy_of(PLAIN, tmp_path)), rows, free)
    assert [(start.reservation.id, start.place.host) for start in found.starts] == [("named", "h1"), ("one", "h1")]


def test_a_request_that_names_a_host_waits_for_that_one(tmp_path: Path) -> None:
    """Cards elsewhere are no help."""
    free = {Place(HOST, A100): Skyline(1, [Span(hours(-1), hours(2), 1, "x")]), Place("h2", A100): Skyline(1)}
    rows = [reservation("here", "alice", kind="request", host=HOST), reservation("any", "bob", kind="request")]
    found = backfill(world(policy_of(PLAIN, tmp_path)), rows, free)
    assert [(start.reservation.id, start.place.host) for start in found.starts] == [("any", "h2")]
    assert found.shadow is not None
    assert (found.shadow.reservation.id, found.shadow.at) == ("here", hours(2))


def test_what_is_too_far_back_gets_a_position_and_no_promise(tmp_path: Path) -> None:
    """An estimate behind a hundred others would be a guess."""
    rows = [reservation(f"r{number:03}", "alice", kind="request", asked=-number) for number in range(ESTIMATED + 5)]
    held = [holding(0, "A100-0", "bob", until=1)]
    found = estimates(world(policy_of(PLAIN, tmp_path), have={"A100": 1}, held=held), rows)
    assert found["r000"] == (1, hours(1))
    assert found[f"r{ESTIMATED - 1:03}"] == (ESTIMATED, hours(ESTIMATED))
    assert found[f"r{ESTIMATED:03}"] == (ESTIMATED + 1, None)


def test_a_booking_half_arrived_keeps_the_free_cards_that_are_its_own(tmp_path: Path) -> None:
    """What has begun counts with all its cards, attached or not."""
    rows = [
        reservation("b", "zoe", gpus=3, state="active", **{"from": -1, "until": 4}),
        reservation("r", "bob", kind="request", gpus=2, **{"for": 1}),
    ]
    held = [holding(0, "A100-0", "zoe", of="b", until=4)]
    snapshot = world(policy_of(PLAIN, tmp_path), reservations=rows, held=held)
    found = backfill(snapshot, rows[1:])
    assert found.starts == ()
    assert found.shadow is not None
    assert found.shadow.at == hours(4)


def test_a_forecast_tells_only_what_nothing_else_tells_and_lets_nobody_begin(tmp_path: Path) -> None:
    """One waits for a lease and one for a holder without an end; whom a pass lets begin is as without it."""
    held = [holding(0, "A100-0", "bob", until=2), holding(1, "T4-0", "zoe")]
    rows = [
        reservation("lease", "alice", kind="request", model="*A100*", **{"for": 1}),
        reservation("open", "carol", kind="request", model="*T4*", **{"for": 1}),
        reservation("behind", "dan", kind="request", model="*T4*", **{"for": 1}),
    ]
    plain = world(policy_of(PLAIN, tmp_path), have={"A100": 1, "T4": 1}, reservations=rows, held=held)
    told = estimates(plain, rows)
    assert {key: at for key, (_, at) in told.items()} == {"lease": hours(2), "open": None, "behind": None}
    assert foreseen(plain, rows, told) == {}
    forecast = replace(plain, frees={"a1": hours(5), "a0": hours(1)})
    assert estimates(forecast, rows) == told
    assert foreseen(forecast, rows, told) == {"open": hours(5), "behind": hours(6)}
    assert backfill(forecast, rows) == backfill(plain, rows)
