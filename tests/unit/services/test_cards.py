"""The list of cards: who holds what, what is free, and what is wrong with the rest."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fakes.site import make_gpus, make_site, newcomer
from hypothesis import given
from hypothesis import strategies as st
from inventory_rows import assignment, at, card, slot_record

from lxgpu.model.assignment import AssignmentState
from lxgpu.model.gpu import GpuProcess, Reading, Readings, Slot
from lxgpu.model.snapshot import Observation, Records
from lxgpu.policy.placement import obstacles
from lxgpu.ports import Change
from lxgpu.services import lending, looking
from lxgpu.services.cards import card_views, past_views, verdict
from lxgpu.services.headline import count, headline

GPUS = make_gpus(3)
FIRST, SECOND, THIRD = (gpu.uuid for gpu in GPUS)


@pytest.fixture
def site(tmp_path):
    """A host with three cards and no container."""
    return make_site(tmp_path, gpus=3)


def exclusive(_uuid):
    """No card is divided."""
    return "exclusive"


def look(site):
    """One look at the site."""
    return looking.look(site.engine, site.probe, site.inventory.read(), host=site.host, at=site.clock.now())


def cards_of(site):
    """The cards of a site by UUID, and their notes."""
    seen = look(site)
    found = card_views(seen.records, seen.seen, seen.readings, mode=exclusive)
    return {view.uuid: view for view in found.views}, found.notes


def records(*, held=(), cards=(), slots=()):
    """An inventory with these rows."""
    return Records(version=1, identity=None, assignments=tuple(held), cards=tuple(cards), slots=tuple(slots))


def seen(gpus=GPUS, sightings=(), readings=None):
    """What a host showed."""
    return Observation(
        host="host1", boot_id="b", at=at(0), gpus=tuple(gpus), sightings=tuple(sightings), readings=readings
    )


def one(found, uuid=FIRST):
    """A card of a list."""
    return next(view for view in found.views if view.uuid == uuid)


def test_a_held_card_names_its_holder_and_the_end(site):
    """Holder, state and lease of a lent card; the others are free."""
    newcomer(site, "alice", gpus=1, lease_s=3600)
    views, notes = cards_of(site)
    held = [slot for view in views.values() for slot in view.slots if slot.holder]
    (lent,) = site.inventory.read().held_by("alice")
    assert [(slot.slot, slot.holder, slot.state, slot.lease_until) for slot in held] == [
        (str(lent.slot), "alice", "active", lent.until)
    ]
    assert sum(slot.state == "free" for view in views.values() for slot in view.slots) == 2
    assert not any(notes.values())
    assert {view.health for view in views.values()} == {"ok"}


def test_a_card_attached_without_lxgpu_is_told_by_name(site):
    """Whoever has a card without an assignment is named, ours and others alike, beside the rightful holder."""
    newcomer(site, "alice", gpus=1)
    newcomer(site, "bob")
    (lent,) = site.inventory.read().held_by("alice")
    taken = {"type": "gpu", "pci": next(gpu.pci for gpu in site.engine.cards if gpu.uuid == lent.slot.gpu)}
    site.engine.update("bob", Change(devices={"mine": taken}), etag=None)
    views, notes = cards_of(site)
    assert [(slot.holder, slot.state) for slot in views[lent.slot.gpu].slots] == [
        ("alice", "active"),
        ("bob", "foreign"),
    ]
    assert "bob" in notes[lent.slot.gpu]


def test_a_device_without_selector_makes_every_free_card_foreign(site):
    """A `gpu` device that names no card passes them all; then none is free."""
    newcomer(site, "bob")
    site.engine.update("bob", Change(devices={"all": {"type": "gpu"}}), etag=None)
    views, _ = cards_of(site)
    assert {(slot.holder, slot.state) for view in views.values() for slot in view.slots} == {("bob", "foreign")}


def test_a_card_that_vanished_is_missing_and_keeps_its_holder(site):
    """The inventory remembers a card that the host no longer shows."""
    newcomer(site, "alice", gpus=1)
    (lent,) = site.inventory.read().held_by("alice")
    site.engine.cards = [gpu for gpu in site.engine.cards if gpu.uuid != lent.slot.gpu]
    views, notes = cards_of(site)
    gone = views[lent.slot.gpu]
    assert (gone.health, gone.slots[0].holder, gone.model) == ("missing", "alice", "NVIDIA RTX 3090")
    assert "does not show it" in notes[gone.uuid]
    assert count(views.values(), site.clock.now()).total == 2


@pytest.mark.parametrize(
    ("rows", "health", "state", "note"),
    [
        ({"cards": [card(FIRST, closed="fan broken", closed_by="root")]}, "closed", "closed", "fan broken"),
        ({"slots": [slot_record(FIRST, quarantine="held by python3 (41)")]}, "quarantined", "quarantined", "python3"),
        ({}, "ok", "free", ""),
    ],
    ids=["closed", "quarantined", "well"],
)
def test_why_a_card_goes_to_nobody(rows, health, state, note):
    """A card out of service is not free, and says why."""
    readings = Readings(items=(Reading(uuid=FIRST, sampled_at=at(0)),))
    found = card_views(records(**rows), seen(), readings, mode=exclusive)
    assert (one(found).health, one(found).slots[0].state) == (health, state)
    assert note in found.notes[FIRST]


def test_a_sick_card_hides_no_other(site):
    """A card that NVML lost is sick; the others are told as they are."""
    site.probe.faults[site.engine.cards[0].uuid] = "lost"
    views, notes = cards_of(site)
    sick = views[site.engine.cards[0].uuid]
    assert (sick.health, sick.slots[0].state, sick.utilization_percent, sick.processes) == ("sick", "sick", None, None)
    assert "lost" in notes[sick.uuid]
    assert {view.health for view in views.values() if view is not sick} == {"ok"}


def test_without_nvml_use_is_not_known(site):
    """NVML out of order: no number is made up, no verdict, no health."""
    site.probe.error = "driver/library version mismatch"
    views, _ = cards_of(site)
    told = {(view.utilization_percent, view.memory_used_bytes, view.processes, view.verdict) for view in views.values()}
    assert told == {(None, None, None, None)}
    assert {view.health for view in views.values()} == {None}


def test_without_lxd_nothing_is_free(site):
    """What is attached is not known while LXD does not answer, so no card is called free or missing."""
    newcomer(site, "alice", gpus=1)
    found = card_views(site.inventory.read(), None, site.probe.readings(), mode=exclusive)
    assert {slot.state for view in found.views for slot in view.slots} == {"active", None}
    counted = count(found.views, site.clock.now())
    assert counted.free is None
    assert headline(counted, str).startswith("an unknown number of ")


@pytest.mark.parametrize(
    ("reading", "told"),
    [
        ({"utilization_percent": 0, "processes": ()}, "idle"),
        ({"utilization_percent": 40, "processes": ()}, "busy"),
        ({"utilization_percent": 0, "processes": (GpuProcess(7, None, "compute", instance="a"),)}, "busy"),
        ({"utilization_percent": 0, "processes": (GpuProcess(7, 100, "graphics"),)}, "idle"),
        ({"utilization_percent": 0, "processes": None}, "unknown"),
        ({"utilization_percent": None, "processes": ()}, "unknown"),
        ({"utilization_percent": None, "processes": (GpuProcess(7, None, "compute", instance="a"),)}, "busy"),
        ({"fault": "lost"}, "unknown"),
    ],
)
def test_unknown_is_never_idle(reading, told):
    """Idle needs both: nobody on the list, and a utilisation of zero that NVML did tell."""
    assert verdict(Reading(uuid=FIRST, sampled_at=at(0), **reading)) == told


def test_who_held_what_then(site):
    """At an instant of the past the holders of then are told, and nothing of today's use."""
    newcomer(site, "alice", gpus=1)
    then = site.clock.now()
    site.clock.sleep(60)
    lending.release(site, "alice", count=None)
    site.clock.sleep(60)
    past = past_views(
        site.inventory.assignments_at(then), site.inventory.read(), site.engine.gpus(), then, mode=exclusive
    )
    holders = [slot.holder for view in past.views for slot in view.slots if slot.holder]
    assert holders == ["alice"]
    assert {(view.verdict, view.health, view.sampled_at) for view in past.views} == {(None, None, None)}
    now = site.clock.now()
    present = past_views(
        site.inventory.assignments_at(now), site.inventory.read(), site.engine.gpus(), now, mode=exclusive
    )
    assert not [slot.holder for view in present.views for slot in view.slots if slot.holder]


def test_leases_tell_what_comes():
    """For a time to come the leases count as they stand: ended ones are over, open ones go on."""
    held = [
        assignment("a1", FIRST, until=at(30)),
        assignment("a2", SECOND, until=at(90), instance="bob"),
        assignment("a3", THIRD, instance="carol"),
    ]
    found = looking.as_leased(records(held=held), at(60))
    assert {row.instance for row in found.assignments} == {"bob", "carol"}


def test_the_first_line():
    """How many are free, when the next lease ends, and who is past it."""
    held = [assignment("a1", FIRST, until=at(90)), assignment("a2", SECOND, until=at(-5), instance="bob")]
    found = count(card_views(records(held=held), seen(), None, mode=exclusive).views, at(0))
    assert (found.total, found.free, found.over, found.next_at) == (3, 1, 1, at(90))
    assert headline(found, lambda _: "18:00") == (
        "1 of 3 GPUs free; 1 past its lease, kept until someone waits; next at 18:00"
    )
    assert headline(replace(found, over=0, next_at=None), str) == "1 of 3 GPUs free"
    assert headline(replace(found, total=1, free=0, over=0, next_at=None), str) == "0 of 1 GPU free"
    assert headline(count((), at(0)), str) == "no GPUs"


states = st.sampled_from([state for state in AssignmentState if state is not AssignmentState.CLOSED])


@given(
    held=st.dictionaries(st.sampled_from([FIRST, SECOND, THIRD]), states),
    closed=st.sets(st.sampled_from([FIRST, SECOND, THIRD])),
    quarantined=st.sets(st.sampled_from([FIRST, SECOND, THIRD])),
    lost=st.sets(st.sampled_from([FIRST, SECOND, THIRD])),
    shown=st.sets(st.sampled_from([FIRST, SECOND, THIRD])),
)
def test_what_is_called_free_can_be_lent(held, closed, quarantined, lost, shown):
    """The list calls free exactly the cards that placement would lend now."""
    rows = records(
        held=[assignment(f"a{uuid}", uuid, state=state) for uuid, state in held.items()],
        cards=[card(uuid, closed="x", closed_by="root") for uuid in closed],
        slots=[slot_record(uuid, quarantine="x") for uuid in quarantined],
    )
    readings = Readings(
        items=tuple(Reading(uuid=uuid, sampled_at=at(0), fault="lost" if uuid in lost else None) for uuid in shown)
    )
    host = seen([gpu for gpu in GPUS if gpu.uuid in shown], readings=readings)
    found = card_views(rows, host, readings, mode=exclusive)
    free = {view.uuid for view in found.views if all(slot.state == "free" for slot in view.slots)}
    assert free == {gpu.uuid for gpu in host.gpus} - set(obstacles(rows, host))
    assert len(found.views) == len({view.uuid for view in found.views})
    for view in found.views:
        assert all(Slot(slot.slot).card == view.uuid for slot in view.slots)
