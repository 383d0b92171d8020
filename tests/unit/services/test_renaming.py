"""Rename: another name for the container, everything of the person as it was."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fakes.faults import Fault, KilledError
from fakes.site import make_site, newcomer

from lxgpu.errors import LxgpuError
from lxgpu.model.instance import Power
from lxgpu.model.reservation import Keep, Kind, Notice, Reservation, ReservationState
from lxgpu.services import links, power, renaming
from lxgpu.services.recover import recover
from lxgpu.services.visits import Visits
from lxgpu.services.wanted import KEY_UUID


@pytest.fixture
def site(tmp_path):
    """Alice holds one card."""
    (tmp_path / "state").mkdir()
    made = make_site(tmp_path)
    newcomer(made, "alice", gpus=1)
    return made


def test_only_the_name_changes(site):
    """Card, owner, port, address, home and identity go along; the account is still the person's."""
    before = site.inventory.read()
    old = site.engine.machines["default", "alice"]
    devices, uuid = dict(old.devices), old.config["volatile.uuid"]
    devices["lxgpu"] = {**devices["lxgpu"], "source": site.guest("box")}
    renaming.rename(site, "alice", "box")
    after = site.inventory.read()
    row = after.instance("box")
    assert after.instance("alice") is None
    assert replace(row, name="alice") == before.instance("alice")
    assert [held.slot for held in after.held_by("box")] == [held.slot for held in before.held_by("alice")]
    assert after.persons == before.persons
    machine = site.engine.machines["default", "box"]
    assert (machine.devices, machine.power) == (devices, Power.RUNNING)
    assert machine.config[KEY_UUID] == uuid
    assert ("default", "alice") not in site.engine.machines
    assert "/etc/ssh/authorized_keys.d/alice" in machine.files


def test_what_is_booked_and_kept_goes_along(site):
    """A booking, a word to keep idle cards, a notice not sent yet: nothing is left under the old name."""
    now = site.clock.now()
    booking = Reservation(
        "r1", "alice", "alice", Kind.BOOKING, 1, ReservationState.SCHEDULED, now, 60, start=now, until=now
    )
    notice = Notice("n1", "warned", "alice", "alice", now)
    with site.write() as tx:
        tx.put(booking, Keep("k1", "alice", "alice", now, now, "a run"), notice)
    renaming.rename(site, "alice", "box")
    after = site.inventory.read()
    assert [row.instance for row in (*after.reservations, *after.keeps, *after.notices)] == ["box"] * 3


def test_a_stopped_one_stays_stopped(site):
    """What did not run is renamed and left alone."""
    power.stop_instance(site, "alice", force=False)
    renaming.rename(site, "alice", "box")
    assert site.engine.machines["default", "box"].power is Power.STOPPED
    assert not site.inventory.read().instance("box").running


def test_the_card_is_open_under_the_new_name(site):
    """After the rename exactly its own card opens inside."""
    renaming.rename(site, "alice", "box")
    (held,) = site.inventory.read().held_by("box")
    mine = next(card for card in site.engine.cards if card.uuid == held.slot.gpu)
    other = next(card for card in site.engine.cards if card.uuid != held.slot.gpu)
    init = site.engine.init("box")
    assert site.probe.openable(init, [*mine.nodes, *other.nodes]) == frozenset(mine.nodes)


def test_a_name_that_is_taken_is_refused_before_anything_stops(site):
    """By a container, by somebody else's instance in LXD, or by itself."""
    newcomer(site, "bob")
    site.engine.add_stranger("carol", devices={})
    init = site.engine.init("alice")
    for new in ("bob", "carol", "alice"):
        with pytest.raises(LxgpuError) as caught:
            renaming.rename(site, "alice", new)
        assert caught.value.code == "exists"
    assert site.engine.init("alice") == init


def test_a_stranger_that_comes_in_between_wins(site):
    """An instance that takes the name after it was looked at: undone, and the container runs under its old name."""

    def come(moment, call, name):
        if (moment, call, name) == ("before", "stop", "alice"):
            site.engine.hook = None
            site.engine.add_stranger("box", devices={})

    site.engine.hook = come
    with pytest.raises(LxgpuError) as caught:
        renaming.rename(site, "alice", "box")
    assert caught.value.code == "exists"
    records = site.inventory.read()
    assert records.instance("box") is None
    assert records.held_by("alice")
    assert site.engine.machines["default", "alice"].power is Power.RUNNING
    assert not site.engine.machines["default", "box"].config.get(KEY_UUID)


def test_a_start_that_fails_leaves_the_new_name(site):
    """Once LXD has the new name it stays, and the error tells what is left to do."""
    for _ in range(2):
        site.engine.inject(Fault.ERROR, call="start", name="box")
    with pytest.raises(LxgpuError):
        renaming.rename(site, "alice", "box")
    records = site.inventory.read()
    assert not [row for row in records.operations if row.live]
    assert records.instance("box").engine_name == ""
    assert ("default", "box") in site.engine.machines
    power.start(site, "box")


def test_dry_run_writes_nothing(site):
    """The plan says that it is stopped and started."""
    before, writes = site.inventory.read(), site.engine.writes
    plan = renaming.plan_rename(site, "alice", "box")
    assert [step.do for step in plan.steps] == ["stop", "rename", "start"]
    assert (site.inventory.read(), site.engine.writes) == (before, writes)


def link_to(site, name):
    """The secret part of a link to the page."""
    return links.link(site, name).url.partition("#")[2]


def test_sessions_and_links_of_the_page_go_along(site):
    """They are the container's, whatever it is called; one that gets the old name has none of them, and ends none."""
    door = Visits(lambda: site)
    newcomer(site, "bob")
    session, link = door.enter(link_to(site, "alice")).session, link_to(site, "alice")
    renaming.rename(site, "alice", "box")
    renaming.rename(site, "bob", "alice")
    assert door.who(session).name == "box"
    assert door.enter(link).name == "box"
    assert links.close(site, "alice") == 0
    assert links.close(site, "box") == 2
    assert door.who(session) is None


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_session_speaks_for_its_container_through_a_crash_and_an_undoing(site, when):
    """Killed in the middle of a rename, or undone: by whichever name the container has then."""
    door = Visits(lambda: site)
    session = door.enter(link_to(site, "alice")).session

    def die(moment, call, _name):
        if (moment, call) == (when, "rename"):
            site.engine.hook = None
            raise KilledError

    site.engine.hook = die
    with pytest.raises(KilledError):
        renaming.rename(site, "alice", "box")
    assert door.who(session).name == "box"
    recover(site)
    assert door.who(session).name == "box"
    site.engine.inject(Fault.ERROR, call="rename")
    with pytest.raises(LxgpuError):
        renaming.rename(site, "box", "alice")
    assert site.inventory.read().instance("box")
    assert door.who(session).name == "box"
