"""The list of containers: one word for the state of each, what it holds, and nothing that is not known."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
from fakes.site import LISTEN, make_site, newcomer
from inventory_rows import assignment, at, card, instance, person

from lxgpu.model.assignment import AssignmentState
from lxgpu.model.instance import InstanceState, Power, Sighting
from lxgpu.model.snapshot import Records
from lxgpu.services import ending, listing, looking
from lxgpu.services.report import instance_views, ssh_host


@pytest.fixture
def site(tmp_path):
    """A host with four cards and no container."""
    return make_site(tmp_path, gpus=4)


def records(*rows, people=("alice",), held=(), cards=()):
    """An inventory of these instances."""
    return Records(
        version=1,
        identity=None,
        persons=tuple(person(name) for name in people),
        instances=rows,
        assignments=tuple(held),
        cards=tuple(cards),
    )


def sighting(name="alice", power=Power.RUNNING, uuid="u1", mark="u1", **fields):
    """An instance as LXD shows it."""
    config = {"volatile.uuid": uuid, "user.lxgpu.uuid": mark}
    usual = {"project": "default", "config": config, "devices": {}, "expanded_devices": {}}
    return Sighting(name=name, power=power, **{**usual, **fields})


def items(found, seen, **how):
    """The list."""
    return listing.instance_items(found, seen, "gpu1", **how)


@pytest.mark.parametrize(
    ("meant", "power", "state"),
    [
        (InstanceState.READY, Power.RUNNING, "running"),
        (InstanceState.READY, Power.STOPPED, "stopped"),
        (InstanceState.READY, Power.FROZEN, "frozen"),
        (InstanceState.READY, Power.ERROR, "error"),
        (InstanceState.READY, Power.OTHER, None),
        (InstanceState.READY, None, "missing"),
        (InstanceState.SUSPENDED, Power.STOPPED, "suspended"),
        (InstanceState.SUSPENDED, None, "missing"),
        (InstanceState.CREATING, None, "creating"),
        (InstanceState.CREATING, Power.RUNNING, "creating"),
        (InstanceState.DELETING, None, "deleting"),
        (InstanceState.TRASHED, Power.STOPPED, "trashed"),
        (InstanceState.TRASHED, None, "missing"),
    ],
)
def test_the_state_is_one_word(meant, power, state):
    """What the inventory means and what LXD shows make one word; what is passing has none."""
    seen = [] if power is None else [sighting(power=power)]
    (item,) = items(records(instance(uuid="u1", state=meant)), seen, trashed=True)
    assert item["state"] == state


@pytest.mark.parametrize(
    ("meant", "state"),
    [
        (InstanceState.READY, "unreachable"),
        (InstanceState.CREATING, "creating"),
        (InstanceState.SUSPENDED, "suspended"),
    ],
)
def test_without_lxd_the_inventory_answers(meant, state):
    """While LXD does not answer nothing is called missing, stopped or running."""
    (item,) = items(records(instance(uuid="u1", state=meant)), None)
    assert item["state"] == state


def test_another_instance_of_the_name_is_not_ours():
    """What was made again by hand under the name is foreign; ours is missing."""
    found = items(records(instance(uuid="u1")), [sighting(uuid="u2", mark="")], foreign=True)
    assert sorted((item["name"], item["state"]) for item in found) == [("alice", "foreign"), ("alice", "missing")]


def test_foreign_ones_templates_and_trash_stay_out_unless_asked_for():
    """A list for people and scripts has what lxgpu looks after; templates never show."""
    rows = [instance(uuid="u1"), instance("trash-bob", owner="bob", uuid="u3", state=InstanceState.TRASHED)]
    seen = [
        sighting(),
        sighting("trash-bob", uuid="u3", power=Power.STOPPED),
        sighting("web", uuid="u9", mark=""),
        sighting("ml", uuid="u8", mark="", project="other"),
        sighting("lxgpu-template-1", uuid="u7", mark=""),
    ]
    found = records(*rows, people=("alice", "bob"))
    assert [item["name"] for item in items(found, seen)] == ["alice"]
    everything = items(found, seen, trashed=True, foreign=True)
    assert [(item["name"], item["state"]) for item in everything] == [
        ("alice", "running"),
        ("other/ml", "foreign"),
        ("trash-bob", "trashed"),
        ("web", "foreign"),
    ]


def test_a_marked_container_that_the_inventory_lacks_is_told():
    """A lost inventory is noticed by the marks that LXD still carries; a copy's mark is no mark."""
    seen = [sighting(), sighting("bob", uuid="u2", mark="u2"), sighting("copy", uuid="u5", mark="u2")]
    found = records(instance(uuid="u1"))
    assert listing.lost(found, seen) == ("bob",)
    states = {item["name"]: item["state"] for item in items(found, seen, foreign=True)}
    assert states == {"alice": "running", "bob": "lost", "copy": "foreign"}
    assert listing.some([f"n{number}" for number in range(7)]) == "n0, n1, n2, n3, n4 and 2 more"


def test_cards_are_listed_with_what_is_known_of_them():
    """Live assignments only, oldest first; a card that nobody remembers has its address from LXD, and no model."""
    held = [
        assignment("a2", "GPU-2", since=at(5), until=at(90)),
        assignment("a1", "GPU-1", since=at(1), state=AssignmentState.WARNED, reservation="r1"),
        assignment("a3", "GPU-3", state=AssignmentState.CLOSED),
        assignment("a4", "GPU-4", state=AssignmentState.PLANNED),
    ]
    seen = [sighting(devices={"gpu-2": {"type": "gpu", "pci": "0000:03:00.0"}})]
    (item,) = items(records(instance(uuid="u1"), held=held, cards=[card("GPU-1")]), seen)
    first, second = item["gpus"]
    assert (first["uuid"], first["state"], first["model"], first["reservation"]) == (
        "GPU-1",
        "warned",
        "NVIDIA A100",
        "r1",
    )
    assert (second["uuid"], second["pci"], second["model"], second["lease_until"]) == (
        "GPU-2",
        "0000:03:00.0",
        None,
        at(90),
    )


def test_a_card_of_a_foreign_container_is_told_by_its_address():
    """By what devices it has a card is seen without asking for the cards; whose card it is stays unknown."""
    seen = [sighting("web", mark="", expanded_devices={"g": {"type": "gpu", "pci": "0000:02:00.0"}, "d": {}})]
    (item,) = items(records(people=()), seen, foreign=True)
    assert [(held["pci"], held["uuid"], held["state"]) for held in item["gpus"]] == [("0000:02:00.0", None, "foreign")]


def test_the_list_of_a_whole_life(site):
    """A container made, suspended, deleted is listed with its login as long as it has one."""
    newcomer(site, "alice", gpus=2)

    def one(**how):
        views = instance_views(site.inventory.read(), site.engine.instances(with_state=False), site.settings, **how)
        return {view.name: view for view in views}

    alice = one()["alice"]
    assert (alice.state, alice.owner, len(alice.gpus), alice.ssh.host) == ("running", "alice", 2, LISTEN)
    assert alice.ssh.port == site.inventory.read().person("alice").ssh_port
    assert {held.model for held in alice.gpus} == {"NVIDIA RTX 3090"}
    ending.suspend(site, "alice", reason="thesis handed in")
    assert (one()["alice"].state, one()["alice"].gpus) == ("suspended", ())
    ending.delete(site, "alice", purge=False)
    assert one() == {}
    trashed = one(trashed=True)["trash-alice"]
    assert (trashed.state, trashed.ssh.port) == ("trashed", None)


def test_one_request_whatever_the_number(site):
    """`ls` asks LXD once."""
    for name in ("alice", "bob", "carol"):
        newcomer(site, name)
    before = site.engine.requests
    found = looking.glance(site.engine, site.inventory.read())
    assert len(instance_views(found.records, found.sightings, site.settings)) == 3
    assert site.engine.requests - before == 1


def test_a_stopped_container_outside_lxgpu_is_seen(site):
    """What LXD says counts, not what was asked for last."""
    newcomer(site, "alice")
    site.engine.stop("alice", timeout_s=0, force=True)
    (view,) = instance_views(site.inventory.read(), site.engine.instances(with_state=False), site.settings)
    assert view.state == "stopped"


@pytest.mark.parametrize(
    ("address", "listen", "told"),
    [("gpu1.lab.example", "10.0.0.1", "gpu1.lab.example"), ("", "10.0.0.1", "10.0.0.1")],
)
def test_people_are_told_where_to_log_in(site, address, listen, told):
    """The address set, else the one that is listened on."""
    assert ssh_host(replace(site.settings.network, address=address, listen=listen)) == told


def test_bare_rows_are_as_good_as_the_models(site):
    """The short way of ls hands in rows with the same names and texts for states: the list is the same."""
    newcomer(site, "alice", gpus=1)
    found, seen = site.inventory.read(), site.engine.instances(with_state=False)

    def bare(row, *extra):
        names = [*row.__dataclass_fields__, *extra]
        return SimpleNamespace(**{name: getattr(row, name) for name in names})

    loose = SimpleNamespace(
        instances=[bare(row) for row in found.instances],
        assignments=[bare(row, "live") for row in found.assignments],
        persons=[bare(row) for row in found.persons],
        cards=[bare(row) for row in found.cards],
        reservations=[bare(row) for row in found.reservations],
    )
    for row in [*loose.instances, *loose.assignments]:
        row.state = row.state.value
    bare_seen = [bare(one, "uuid", "ours") for one in seen]
    for one in bare_seen:
        one.power = one.power.value
    assert items(loose, bare_seen) == items(found, seen)
