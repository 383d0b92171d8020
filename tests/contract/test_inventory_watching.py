"""What every inventory promises of samples, past assignments, reservations and notices; in SQLite and in memory."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import inventory_rows as make
import pytest
from inventory_rows import T0, at

from lxgpu.inventory.memory import MemoryInventory
from lxgpu.inventory.samples import thinned
from lxgpu.inventory.store import open_inventory
from lxgpu.model.assignment import AssignmentState
from lxgpu.model.gpu import Slot
from lxgpu.model.reservation import Keep, Kind, Notice, Reservation, ReservationState
from lxgpu.model.usage import Sample


@pytest.fixture(params=["sqlite", "memory"])
def inventory(request, tmp_path):
    """An empty inventory of each kind."""
    if request.param == "memory":
        yield MemoryInventory()
        return
    with open_inventory(tmp_path / "inventory.db") as opened:
        yield opened


def put(inventory, *rows):
    """Write rows in one transaction."""
    with inventory.write(actor="root", now=T0) as tx:
        tx.put(*rows)


def sample(seconds, uuid="GPU-1", utilization=0, **more):
    """One reading so many seconds after T0."""
    return Sample(T0 + timedelta(seconds=seconds), uuid, utilization, more.pop("memory", 5), **more)


def reservation(name, **more):
    """A booking of one card."""
    values = {
        "instance": "alice",
        "owner": "alice",
        "kind": Kind.BOOKING,
        "gpus": 1,
        "state": ReservationState.SCHEDULED,
        "created_at": T0,
        "duration_s": 3600,
    }
    return Reservation(name, **{**values, **more})


# ---- samples

FULL = (
    sample(1, processes=3, instance="alice", login=True, shared=7),
    sample(2, utilization=None, memory=None),
    sample(3, processes=0, login=False),
)


def test_samples_come_back_whole_and_oldest_first(inventory):
    """Nothing is lost or rounded; not known stays not known, and no is not the same as that."""
    inventory.add_samples(reversed(FULL))
    assert inventory.samples(since=T0) == FULL


def test_samples_of_one_card_or_of_all_from_an_instant_on(inventory):
    """The instant included; cards at the same instant in the order of their names."""
    found = (sample(1), sample(1, "GPU-2"), sample(2), sample(3, "GPU-2"))
    inventory.add_samples(found)
    assert inventory.samples(since=at(0)) == found
    assert inventory.samples(since=found[2].at) == found[2:]
    assert inventory.samples(since=at(0), uuid="GPU-2") == (found[1], found[3])
    assert inventory.samples(since=found[2].at, uuid="GPU-2") == (found[3],)
    assert inventory.samples(since=at(0), uuid="GPU-3") == ()


def test_a_sample_of_the_same_card_and_instant_is_replaced(inventory):
    """Two ticks of one instant are one look."""
    inventory.add_samples([sample(1, utilization=1), sample(1, utilization=2)])
    inventory.add_samples([sample(1, utilization=3)])
    assert inventory.samples(since=T0) == (sample(1, utilization=3),)


def test_samples_change_no_version(inventory):
    """Watching moves the ground under nobody's decision."""
    put(inventory, make.person("alice"))
    inventory.add_samples(FULL)
    inventory.thin_samples(T0 + timedelta(days=400))
    assert inventory.read().version == 1


def test_an_empty_batch_is_nothing(inventory):
    """A host without cards."""
    inventory.add_samples([])
    assert inventory.samples(since=T0) == ()


def test_old_samples_are_merged_into_the_highest(inventory):
    """After a day one a minute, after a week one in ten minutes, after a year none; holders are not mixed."""
    inventory.add_samples(
        [
            sample(0, utilization=3, memory=9, instance="alice"),
            sample(5, utilization=90, memory=1, instance="alice", login=True),
            sample(10, utilization=None, memory=None, instance="bob"),
            sample(65, utilization=1, instance="alice"),
            sample(86400 * 3, utilization=7),
        ]
    )
    assert inventory.thin_samples(T0 + timedelta(days=2)) == 1
    assert inventory.thin_samples(T0 + timedelta(days=2)) == 0
    first, *rest = inventory.samples(since=T0)
    assert first == sample(0, utilization=90, memory=9, instance="alice", login=True, shared=2)
    assert [one.instance for one in rest] == ["bob", "alice", ""]
    assert inventory.thin_samples(T0 + timedelta(days=8)) == 1
    assert inventory.samples(since=T0)[0].shared == 3
    assert inventory.thin_samples(T0 + timedelta(days=366)) == 2
    assert inventory.samples(since=T0) == (sample(86400 * 3, utilization=7),)


@pytest.mark.parametrize("days", [0, 0.99, 1, 1.001, 6.9, 7.001, 8, 20])
def test_both_merge_by_the_same_rule(inventory, days):
    """Whatever part of the samples has become old by then, step by step or at once."""
    found = [
        sample(number * 17, f"GPU-{number % 2}", (number * 7) % 5 or None, instance=("alice", "bob")[number // 40 % 2])
        for number in range(160)
    ]
    now = T0 + timedelta(days=days, seconds=1500)
    inventory.add_samples(found)
    inventory.thin_samples(T0 + timedelta(days=days / 2))
    inventory.thin_samples(now)
    kept = thinned(thinned(found, T0 + timedelta(days=days / 2)), now)
    assert inventory.samples(since=T0) == tuple(sorted(kept, key=lambda one: (one.at, one.uuid)))


# ---- past assignments, reservations, notices, keeps


def test_what_was_closed_lately_newest_first(inventory):
    """The instant included; of the same instant in the order of their ids; what lives is not among them."""
    closed = [
        make.assignment(f"a{number}", gpu=f"GPU-{number}", state=AssignmentState.CLOSED, closed_at=at(minute))
        for number, minute in enumerate((10, 30, 20, 30))
    ]
    put(inventory, *closed, make.assignment("live", gpu="GPU-9"))
    assert [row.id for row in inventory.closed_since(at(20))] == ["a1", "a3", "a2"]
    assert inventory.closed_since(at(31)) == ()


def test_a_reservation_comes_back_whole(inventory):
    """Every field, and also after it is closed."""
    row = reservation(
        "r1",
        class_name="urgent",
        model="3090",
        host="gpu1",
        pool="NVIDIA RTX 3090",
        start=at(10),
        until=at(70),
        series="s1",
        note="paper",
        soft=True,
        no_warning="incident",
        cause="r0",
        prefers="GPU-1,GPU-2/1",
        dies=at(1000),
        used_at=at(11),
        told={"12h": True},
        closed_at=at(70),
        outcome="used",
        state=ReservationState.FINISHED,
    )
    put(inventory, row)
    assert inventory.reservation("r1") == row
    assert inventory.reservation("r2") is None
    assert inventory.read().reservations == ()
    assert row.preferred == (Slot("GPU-1"), Slot.of("GPU-2", "1"))


def test_reservations_of_a_time_and_all_open_ones(inventory):
    """Made or closed since then, or open, however old; oldest first."""
    rows = [
        reservation("old", state=ReservationState.CANCELLED, closed_at=at(1)),
        reservation("open", state=ReservationState.WAITING),
        reservation("closed late", state=ReservationState.MISSED, closed_at=at(50)),
        reservation("made late", state=ReservationState.FAILED, created_at=at(40), closed_at=at(41)),
    ]
    put(inventory, *rows)
    assert [row.id for row in inventory.reservations_since(at(40))] == ["closed late", "open", "made late"]
    assert [row.id for row in inventory.read().reservations] == ["open"]


def test_notices_of_a_matter_sent_or_not(inventory):
    """All of them, oldest first; only what is not sent is among the living rows."""
    first = Notice("n2", "warned", "alice", "alice", at(1), about="a1", facts={"gpus": ["GPU-1"]})
    second = Notice("n1", "taken", "alice", "alice", at(2), about="a1", sent_at=at(3), outcome={"mail": "sent"})
    other = Notice("n3", "warned", "bob", "bob", at(1), about="a2")
    put(inventory, second, other, first)
    assert inventory.notices_about("a1") == (first, second)
    assert inventory.notices_about("a9") == ()
    assert [row.id for row in inventory.read().notices] == ["n2", "n3"]
    put(inventory, replace(first, sent_at=at(4)))
    assert [row.id for row in inventory.read().notices] == ["n3"]


def test_keeps_stay_until_they_are_dropped(inventory):
    """A keep that is over still counts against what a person may keep."""
    row = Keep("k1", "alice", "alice", at(0), at(60), "deadline")
    put(inventory, row)
    assert inventory.read().keeps == (row,)
    with inventory.write(actor="root", now=T0) as tx:
        tx.drop(row)
    assert inventory.read().keeps == ()
