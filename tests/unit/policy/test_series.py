"""A weekly request from end to end: all its bookings, or none and the dates."""

from __future__ import annotations

from pathlib import Path

from calendar_worlds import A100, PLAIN, hours, policy_of, reservation, world

from lxgpu.model.plan import Verdict
from lxgpu.model.request import ReserveRequest
from lxgpu.policy.reserve import decide_reserve

WEEKLY = ReserveRequest("alice", "alice", 2, 7200, at=hours(24), weekly=True)


def test_a_series_is_as_many_bookings_as_the_horizon_has_weeks(tmp_path: Path) -> None:
    """All of one series, each with its own time, a week apart."""
    decided = decide_reserve(world(policy_of(PLAIN, tmp_path)), WEEKLY, identifier="s")
    assert decided.plan.decision is Verdict.GRANTED
    assert [row.id for row in decided.rows] == ["s", "s-2", "s-3", "s-4", "s-5"]
    assert [(row.series, row.pool, row.start) for row in decided.rows] == [
        ("s", A100, hours(24 + 168 * week)) for week in range(5)
    ]


def test_a_series_that_meets_another_booking_writes_nothing_and_names_the_dates(tmp_path: Path) -> None:
    """One week that is taken refuses all of them."""
    rows = [reservation("b", "bob", gpus=3, **{"from": 24 + 336, "until": 24 + 337})]
    decided = decide_reserve(world(policy_of(PLAIN, tmp_path), reservations=rows), WEEKLY, identifier="s")
    assert decided.rows == ()
    assert decided.plan.decision is Verdict.REFUSED
    assert [reason.code for reason in decided.plan.reasons] == ["no_room"]
    assert "1 of 5 weeks have no room" in decided.plan.reasons[0].text
    assert "2027-03-16 (bob has 3" in decided.plan.reasons[0].text


def test_a_booking_of_a_class_below_the_usual_one_is_soft_and_says_so(tmp_path: Path) -> None:
    """Who books in it knows that it may be displaced."""
    policy = policy_of("{version: 1, classes: {normal: {priority: 50}, scavenge: {priority: 10}}}", tmp_path)
    for name, soft in (("scavenge", True), ("normal", False)):
        request = ReserveRequest("alice", "alice", 1, 7200, at=hours(24), class_name=name)
        decided = decide_reserve(world(policy), request, identifier="s")
        assert [row.soft for row in decided.rows] == [soft]
        assert any("may be displaced" in step.why for step in decided.plan.steps) == soft
