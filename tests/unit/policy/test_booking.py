"""Bookings: what the policy refuses, whether there is room, weekly series; cases in tests/cases/booking."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from calendar_worlds import A100, NOW, PLAIN, cases, from_case, hours, policy_of, reservation, world

from lxgpu.errors import CATALOGUE, LxgpuError
from lxgpu.model.request import ReserveRequest
from lxgpu.policy.booking import admit_booking, admit_series, is_soft, next_room, occurrences, room, room_for_all

BERLIN = ZoneInfo("Europe/Berlin")


def asked(asks: dict[str, Any]) -> tuple[ReserveRequest, dict[str, Any]]:
    """The request of a case and when it is for."""
    start, until, who = hours(asks["from"]), hours(asks["until"]), asks.get("who", "alice")
    length = int((until - start).total_seconds())
    model, name = asks.get("model", "*"), asks.get("class", "")
    at = None if asks.get("soon") else start
    request = ReserveRequest(who, who, asks["gpus"], length, at=at, model=model, class_name=name)
    return request, {"start": start, "until": until, "but": frozenset(asks.get("instead", ()))}


@pytest.mark.parametrize("case", cases("admission"), ids=lambda case: case["promise"])
def test_admission_of_bookings(case: dict[str, Any], tmp_path: Path) -> None:
    """Each case's own promise."""
    request, when = asked(case["asks"])
    reasons = admit_booking(from_case(case, tmp_path), request, **when)
    assert sorted(reason.code for reason in reasons) == sorted(case["refused"])
    assert all(any(words in reason.text for reason in reasons) for words in case.get("says", ()))
    assert all(reason.code in CATALOGUE for reason in reasons)


@pytest.mark.parametrize("case", cases("room"), ids=lambda case: case["promise"])
def test_room_in_the_calendar(case: dict[str, Any], tmp_path: Path) -> None:
    """Each case's own promise."""
    request, when = asked(case["asks"])
    reasons = room(from_case(case, tmp_path), request, pool=A100, **when)
    assert [reason.code for reason in reasons] == ([case["why"]] if case["why"] else [])
    assert all(words in reasons[0].text for words in case.get("says", ()))


def test_the_time_that_is_offered_has_room_and_none_before_it_has(tmp_path: Path) -> None:
    """`next_room` is what `room` names, and the first such time."""
    rows = [reservation("b1", "bob", gpus=3, **{"from": 1, "until": 3})]
    snapshot = world(policy_of(PLAIN, tmp_path), reservations=rows)
    request = ReserveRequest("alice", "alice", 2, 3600)
    at = next_room(snapshot, request, pool=A100, after=hours(0.5), duration_s=3600)
    assert at == hours(3)
    assert room(snapshot, request, pool=A100, start=at, until=at + timedelta(hours=1)) == ()
    assert next_room(snapshot, request, pool=A100, after=NOW, duration_s=3600) == NOW


def test_a_weekly_series_that_meets_another_booking_is_refused_whole_with_the_dates(tmp_path: Path) -> None:
    """Nothing of it is booked; each week that has no room is named, with who has it."""
    rows = [
        reservation("b1", "bob", gpus=4, **{"from": 168, "until": 170}),
        reservation("b2", "carol", gpus=3, **{"from": 337, "until": 340}),
    ]
    snapshot = world(policy_of(PLAIN, tmp_path), reservations=rows)
    request = ReserveRequest("alice", "alice", 2, 7200, at=hours(1), weekly=True)
    times = occurrences(hours(1), hours(3), hours(24 * 30), UTC)
    assert len(times) == 5
    (reason,) = room_for_all(snapshot, request, times, pool=A100)
    assert reason.code == "no_room"
    assert "2 of 5 weeks" in reason.text
    assert "2027-03-08 (bob has 4" in reason.text
    assert "2027-03-15 (carol has 3" in reason.text
    (alone,) = room_for_all(snapshot, request, times[1:2], pool=A100)
    assert alone == room(snapshot, request, pool=A100, start=times[1][0], until=times[1][1])[0]
    (never,) = room_for_all(snapshot, replace(request, gpus=5), times, pool=A100)
    assert never.code == "too_few_gpus"


def test_a_series_counts_all_its_weeks_as_booked_ahead(tmp_path: Path) -> None:
    """Each week alone is within the open GPU-hours, all of them together are not."""
    snapshot = world(policy_of("{version: 1, reservations: {open_gpu_hours: 8}}", tmp_path))
    request = ReserveRequest("alice", "alice", 1, 7200, at=hours(1), weekly=True)
    times = occurrences(hours(1), hours(3), hours(24 * 30), UTC)
    assert [reason.code for reason in admit_series(snapshot, request, times)] == ["over_open_hours"]
    assert admit_series(snapshot, request, times[:4]) == ()
    assert room_for_all(snapshot, request, times, pool=A100) == ()


def test_a_series_keeps_its_wall_clock_time_when_the_clocks_change() -> None:
    """From 09:00 to 11:00 in Berlin, on both sides of the last Sunday of March."""
    start = datetime(2027, 3, 22, 9, tzinfo=BERLIN).astimezone(UTC)
    times = occurrences(start, start + timedelta(hours=2), start + timedelta(days=21), BERLIN)
    assert [(at.astimezone(BERLIN).hour, until.astimezone(BERLIN).hour) for at, until in times] == [(9, 11)] * 3
    assert [at.hour for at, _ in times] == [8, 7, 7]


@pytest.mark.parametrize(
    ("first", "words"),
    [
        (datetime(2027, 3, 21, 2, 30, tzinfo=BERLIN), "2027-03-28 02:30 does not exist"),
        (datetime(2027, 10, 24, 2, 30, tzinfo=BERLIN), "2027-10-31 02:30 happens twice"),
    ],
)
def test_a_week_without_such_a_time_refuses_the_series_with_its_date(first: datetime, words: str) -> None:
    """A time is never guessed."""
    start = first.astimezone(UTC)
    with pytest.raises(LxgpuError, match=words) as caught:
        occurrences(start, start + timedelta(hours=2), start + timedelta(days=30), BERLIN)
    assert caught.value.code == "bad_time"


def test_an_end_that_does_not_exist_refuses_the_series_too() -> None:
    """The end is a wall-clock time as well."""
    start = datetime(2027, 3, 21, 0, 30, tzinfo=BERLIN).astimezone(UTC)
    with pytest.raises(LxgpuError, match="2027-03-28 02:30 does not exist"):
        occurrences(start, start + timedelta(hours=2), start + timedelta(days=30), BERLIN)


def test_a_series_ends_with_the_horizon_and_has_its_first_week_always() -> None:
    """The last week is the last one that ends in time."""
    horizon = hours(2 + 168)
    assert occurrences(hours(1), hours(2), horizon, UTC) == ((hours(1), hours(2)), (hours(169), hours(170)))
    assert len(occurrences(hours(1), hours(2), horizon - timedelta(seconds=1), UTC)) == 1


def test_a_series_of_whole_weeks_follows_upon_itself_and_a_longer_one_is_refused() -> None:
    """Half-open weeks touch; longer ones would meet themselves."""
    assert len(occurrences(hours(0), hours(168), hours(24 * 30), UTC)) == 4
    with pytest.raises(LxgpuError, match="meets itself"):
        occurrences(hours(0), hours(169), hours(24 * 30), UTC)


def test_only_a_preemptible_class_below_the_usual_one_is_soft(tmp_path: Path) -> None:
    """What is booked in it may be displaced."""
    text = """{version: 1, classes: {urgent: {priority: 100}, normal: {priority: 50}, scavenge: {priority: 10},
    background: {priority: 5, preemptible: false}}}"""
    policy = policy_of(text, tmp_path)
    assert [name for name in sorted(policy.classes) if is_soft(policy, name)] == ["scavenge"]
    assert not is_soft(policy, "gold")
