"""The rows of one host out of several: each row is somewhere, once, and nothing gets lost on the way."""

from __future__ import annotations

from dataclasses import fields

import inventory_rows as make
import pytest
from inventory_rows import T0

from lxgpu.model.onehost import everywhere, home_of, hosts_of, rows_of
from lxgpu.model.reservation import Keep, Kind, Notice, Reservation, ReservationState
from lxgpu.model.snapshot import Records

HOSTS = ("gpu1", "gpu2")


def booking(identifier, instance, **more):
    """A booking of a container."""
    usual = {"gpus": 1, "state": ReservationState.SCHEDULED, "created_at": T0, "duration_s": 60}
    return Reservation(id=identifier, kind=Kind.BOOKING, instance=instance, owner=instance, **usual, **more)


@pytest.fixture
def records():
    """Alice on gpu1, bob and alice's sibling on gpu2, each with rows of every kind."""
    two = {"host": "gpu2"}
    return Records(
        version=7,
        identity=None,
        persons=(make.person("alice"), make.person("bob")),
        keys=(make.key("alice"),),
        instances=(make.instance("alice"), make.instance("bob", **two), make.instance("alice-2", owner="alice", **two)),
        assignments=(make.assignment("a1"), make.assignment("a2", "GPU-2", instance="bob")),
        slots=(make.slot_record("GPU-1"), make.slot_record("GPU-2", **two), make.slot_record("GPU-3", host="")),
        cards=(make.card("GPU-1"), make.card("GPU-2", **two)),
        operations=(make.operation("o1"), make.operation("o2", instance="bob"), make.operation("o3", instance="zoe")),
        reservations=(booking("r1", "alice"), booking("r2", "bob"), booking("r3", "gone", host="gpu2")),
        keeps=(Keep("k1", "bob", "bob", T0, T0, "thesis"),),
        notices=(Notice("n1", "warned", "bob", "bob", T0), Notice("n2", "hello", "", "alice", T0)),
    )


def names(records):
    """What is in each table."""
    found = {one.name: getattr(records, one.name) for one in fields(Records) if one.name != "elsewhere"}
    return {name: sorted(map(repr, rows)) for name, rows in found.items() if isinstance(rows, tuple)}


def test_a_host_has_its_own_rows(records):
    """Those of its containers and cards; people and keys are everybody's."""
    found = rows_of(records, "gpu2", hosts=HOSTS)
    assert [row.name for row in found.instances] == ["bob", "alice-2"]
    assert [row.id for row in found.assignments] == ["a2"]
    assert [row.slot.gpu for row in found.slots] == ["GPU-2"]
    assert [row.uuid for row in found.cards] == ["GPU-2"]
    assert [row.id for row in found.operations] == ["o2"]
    assert [row.id for row in found.reservations] == ["r2", "r3"]
    assert [row.id for row in found.keeps] == ["k1"]
    assert [row.id for row in found.notices] == ["n1"]
    assert (found.persons, found.keys, found.version) == (records.persons, records.keys, 7)


def test_the_first_host_has_what_is_nowhere(records):
    """An operation on what is gone, a slot of a card that nobody knows, a notice to a person."""
    found = rows_of(records, "gpu1", hosts=HOSTS)
    assert [row.id for row in found.operations] == ["o1", "o3"]
    assert [row.slot.gpu for row in found.slots] == ["GPU-1", "GPU-3"]
    assert [row.id for row in found.notices] == ["n2"]


def test_a_host_that_was_called_otherwise_is_the_first(records):
    """Its rows are not lost because the settings name it anew."""
    found = rows_of(records, "new", hosts=("new", "gpu2"))
    assert [row.name for row in found.instances] == ["alice"]
    assert [row.uuid for row in found.cards] == ["GPU-1"]
    assert [row.slot.gpu for row in found.slots] == ["GPU-1", "GPU-3"]


@pytest.mark.parametrize("host", HOSTS)
def test_nothing_is_lost(records, host):
    """A host's rows and those elsewhere are all there are, whichever host it is."""
    assert names(everywhere(rows_of(records, host, hosts=HOSTS))) == names(records)


@pytest.mark.parametrize(
    ("subject", "host"),
    [
        ("alice", "gpu1"),
        ("alice-2", "gpu2"),
        ("GPU-2", "gpu2"),
        ("r2", "gpu2"),
        ("r", "gpu1"),
        ("bob", "gpu2"),
        ("nobody", "gpu1"),
    ],
)
def test_what_a_text_names_is_on_one_host(records, subject, host):
    """A container, a card, a reservation that no other begins like; what nobody knows is on the first."""
    assert home_of(records, subject, hosts=HOSTS) == host


def test_a_person_is_where_their_containers_are(records):
    """Each host once; the first for who has none."""
    assert hosts_of(records, "alice", hosts=HOSTS) == ("gpu1", "gpu2")
    assert hosts_of(records, "carol", hosts=HOSTS) == ("gpu1",)
