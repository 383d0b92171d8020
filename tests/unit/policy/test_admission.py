"""Who may have how many cards: cases in tests/cases/admission."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from lxgpu.model.assignment import Assignment, AssignmentState
from lxgpu.model.gpu import Slot
from lxgpu.model.instance import Instance, InstanceState
from lxgpu.model.operation import Identity
from lxgpu.model.quota import Group, Policy, Terms, Total
from lxgpu.model.request import GpuRequest
from lxgpu.model.rules import PriorityClass
from lxgpu.model.snapshot import Observation, Records, Snapshot
from lxgpu.policy.admission import admit

NOW = datetime(2027, 3, 1, tzinfo=UTC)
CASES = yaml.safe_load((Path(__file__).parents[2] / "cases/admission/cases.yaml").read_text())
POLICY = Policy(
    classes={
        "urgent": PriorityClass("urgent", priority=100, who=("root-friend",), max_gpus=1),
        "normal": PriorityClass("normal", priority=50),
        "scavenge": PriorityClass("scavenge", priority=10),
    },
    defaults=Terms(limit=2),
    groups={"vision": Group("vision", members=("bob", "carol"), total=Total(limit=3))},
    users={"dave": Terms(until=datetime(2027, 1, 1, tzinfo=UTC)), "carol": Terms(limit=4)},
)


def snapshot(held: dict[str, dict[str, int]]) -> Snapshot:
    """People with containers of their own names, holding so many cards in each class."""
    instances = tuple(Instance(name, name, "h", InstanceState.READY, NOW) for name in held)
    cards = [(who, name) for who, classes in held.items() for name, count in classes.items() for _ in range(count)]
    rows = tuple(
        Assignment(str(number), Slot(f"GPU-{number}"), who, AssignmentState.ACTIVE, NOW, class_name=name)
        for number, (who, name) in enumerate(cards)
    )
    records = Records(version=1, identity=Identity("i", 1), instances=instances, assignments=rows)
    return Snapshot(now=NOW, records=records, seen=Observation("h", "boot", NOW), policy=POLICY)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["promise"])
def test_admission(case: dict[str, object]) -> None:
    """Each case's own promise, on one policy."""
    asks = case["asks"]
    request = GpuRequest(instance=asks["who"], owner=asks["who"], more=asks["more"], class_name=asks.get("class", ""))
    reasons = admit(snapshot(case.get("held", {})), request)
    assert sorted(reason.code for reason in reasons) == sorted(case["refused"])
