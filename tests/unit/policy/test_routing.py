"""On which of several hosts a need is looked at first: where it can be met, and where it disturbs least."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from lxgpu.model.assignment import Assignment, AssignmentState
from lxgpu.model.gpu import Gpu, Slot
from lxgpu.model.instance import Instance, InstanceState
from lxgpu.model.quota import Policy, Terms
from lxgpu.model.request import Need
from lxgpu.model.reservation import Kind, Reservation, ReservationState
from lxgpu.model.rules import PriorityClass
from lxgpu.model.snapshot import Observation, Records, Snapshot
from lxgpu.policy.routing import Route, hosts_for
from lxgpu.policy.supply import Supply, soonest, supply

NOW = datetime(2027, 3, 1, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
POLICY = Policy(
    classes={"normal": PriorityClass("normal", priority=50, min_runtime_s=600, grace_s=60, term_wait_s=60)},
    defaults=Terms(limit=8, class_name="normal"),
    users={"ann": Terms(guaranteed=2)},
)
MADE = tuple(Instance(who, who, "h0", InstanceState.READY, NOW, running=True) for who in ("ann", "bob", "cid"))


def _hosts(*models, held=(), booked=()):
    """Hosts h0, h1 … with a card of each of these models; what bob holds since an hour, what cid has booked."""
    rows = tuple(
        Assignment(
            f"a{gpu}", Slot(gpu), "bob", AssignmentState.ACTIVE, NOW - HOUR, since=NOW - HOUR, class_name="normal"
        )
        for gpu in held
    )
    records = Records(version=1, identity=None, instances=MADE, assignments=rows, reservations=tuple(booked))
    cards = [
        [Gpu(f"h{n}-{at}", f"0000:0{at}:00.0", model, f"h{n}") for at, model in enumerate(one)]
        for n, one in enumerate(models)
    ]
    seen = [Observation(f"h{n}", "boot", NOW, gpus=tuple(one)) for n, one in enumerate(cards)]
    return [Snapshot(NOW, records, one, POLICY) for one in seen]


def _booking(host, *, gpus, begins):
    return Reservation(
        "b1", "cid", "cid", Kind.BOOKING, gpus, ReservationState.SCHEDULED, NOW, 4 * 3600,
        class_name="normal", host=host, pool="T4", start=begins, until=begins + 4 * HOUR,
    )  # fmt: skip


def _need(gpus, *, hours=4):
    at = soonest(NOW, POLICY)
    return Need("ann", "ann", gpus, "normal", at, at + hours * HOUR)


FULL = ("T4", "T4")


@pytest.mark.parametrize(
    ("hosts", "need", "route"),
    [
        pytest.param(_hosts(FULL, FULL), _need(2), Route(now=(0, 1)), id="free ones as they are numbered"),
        pytest.param(_hosts(FULL, FULL, held=["h1-0"]), _need(1), Route(now=(1, 0)), id="the fewest kept free"),
        pytest.param(
            _hosts(FULL, FULL, held=["h1-0", "h1-1"], booked=[_booking("h0", gpus=2, begins=NOW + 2 * HOUR)]),
            _need(2), Route(now=(1,)), id="free but booked too soon: a borrower elsewhere gives way",
        ),
        pytest.param(
            _hosts(FULL, FULL, held=["h1-0", "h1-1"], booked=[_booking("h0", gpus=2, begins=NOW + 2 * HOUR)]),
            _need(2, hours=1), Route(now=(0,)), id="free and booked late enough",
        ),
        pytest.param(
            _hosts(("A100", "T4"), FULL, held=["h1-0", "h1-1"]), _need(2), Route(now=(1,)),
            id="a card each of two models are no two cards",
        ),
        pytest.param([], _need(1), Route(), id="no host"),
    ],
)  # fmt: skip
def test_a_need_is_looked_at_where_it_can_be_met(hosts, need, route):
    """And each host that is named for now has an answer."""
    assert hosts_for(hosts, need) == route
    assert all(isinstance(supply(hosts[place], need), Supply) for place in route.now)
