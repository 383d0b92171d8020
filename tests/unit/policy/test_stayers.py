"""Bookings beside those who hold cards and need not yield; cases in tests/cases/booking/stayers.yaml."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from calendar_worlds import cases, from_case, holding, hours, policy_of, reservation, world

from lxgpu.model.instance import Instance, InstanceState, Person
from lxgpu.model.plan import Plan, Verdict
from lxgpu.model.request import ReserveRequest
from lxgpu.model.snapshot import Snapshot
from lxgpu.policy.edit import decide_edit
from lxgpu.policy.reserve import decide_reserve


def peopled(snapshot: Snapshot, *names: str) -> Snapshot:
    """The snapshot, in which these people have containers too."""
    records = snapshot.records
    new = [name for name in names if records.instance(name) is None]
    made = snapshot.now
    more = tuple(Instance(name, name, snapshot.seen.host, InstanceState.READY, made) for name in new)
    people = tuple(Person(name, 3000 + number, 23000 + number, made) for number, name in enumerate(new))
    records = replace(records, instances=records.instances + more, persons=records.persons + people)
    return replace(snapshot, records=records)


def asked(snapshot: Snapshot, asks: dict[str, Any]) -> Plan:
    """What a booking of a case comes to."""
    who, start, until = asks.get("who", "bob"), hours(asks["from"]), hours(asks["until"])
    request = ReserveRequest(
        who,
        who,
        asks["gpus"],
        int((until - start).total_seconds()),
        at=start,
        weekly=asks.get("weekly", False),
        class_name=asks.get("class", ""),
    )
    return decide_reserve(peopled(snapshot, who), request, identifier="r1").plan


@pytest.mark.parametrize("case", cases("stayers"), ids=lambda case: case["promise"])
def test_a_booking_beside_holders(case: dict[str, Any], tmp_path: Path) -> None:
    """Each case's own promise; the time that is named is granted."""
    snapshot = from_case(case, tmp_path)
    plan = asked(snapshot, case["asks"])
    texts = " / ".join(reason.text for reason in plan.reasons)
    assert (plan.decision is Verdict.GRANTED) is (not case["refused"]), texts
    assert [reason.code for reason in plan.reasons] == case["refused"]
    assert [words for words in case.get("says", ()) if words not in texts] == [], texts
    assert "-1" not in texts
    if not case["refused"]:
        return
    assert plan.when == (hours(case["fits"]) if "fits" in case else None), texts
    if plan.when is not None:
        length = case["asks"]["until"] - case["asks"]["from"]
        later = {**case["asks"], "from": case["fits"], "until": case["fits"] + length}
        assert asked(snapshot, later).decision is Verdict.GRANTED


def test_what_is_granted_beside_holders_is_never_more_than_there_is(tmp_path: Path) -> None:
    """Whatever alice holds and has booked, others get what the larger of the two leaves."""
    for held in range(5):
        for booked in range(5):
            rows = [reservation("b1", "alice", gpus=booked, **{"from": 1, "until": 2})] if booked else []
            mine = [holding(number, f"A100-{number}", "alice") for number in range(held)]
            policy = policy_of("{version: 1, defaults: {limit: 8}}", tmp_path)
            snapshot = world(policy, reservations=rows, held=mine)
            left = 4 - max(held, booked)
            for gpus in range(1, 5):
                plan = asked(snapshot, {"gpus": gpus, "from": 1, "until": 2})
                assert (plan.decision is Verdict.GRANTED) is (gpus <= left), (held, booked, gpus)


def test_a_booking_that_is_changed_rests_on_no_holders_either(tmp_path: Path) -> None:
    """More cards, or another time: as if it were booked anew without the old one; fewer are never refused."""
    mine = [holding(number, f"A100-{number}", "alice") for number in range(2)]
    row = reservation("b1", "bob", gpus=2, **{"from": 1, "until": 2})
    policy = policy_of("{version: 1, defaults: {limit: 8}}", tmp_path)
    snapshot = world(policy, reservations=[row], held=mine)
    more = decide_edit(snapshot, row, gpus=3).plan
    assert [reason.code for reason in more.reasons] == ["no_capacity"]
    assert "alice holds 2 without an end and need not yield" in more.reasons[0].text
    assert decide_edit(snapshot, row, at=hours(5)).plan.decision is Verdict.GRANTED
    assert decide_edit(snapshot, row, gpus=1).plan.decision is Verdict.GRANTED
