"""Snapshots: the system goes back, what the inventory says today stays; also when somebody restores behind our back."""

from __future__ import annotations

import json

import pytest
from fakes.faults import Fault
from fakes.site import make_site, newcomer

from lxgpu.errors import LxgpuError
from lxgpu.model.instance import Limits, Power
from lxgpu.model.request import GpuRequest
from lxgpu.services import lending, power, reshape, snapshots
from lxgpu.services.recover import recover
from lxgpu.services.wanted import KEY_HOLDS, KEY_UUID


@pytest.fixture
def site(tmp_path):
    """Alice held the first card when the snapshot was taken; today she holds the second, and has other limits."""
    made = make_site(tmp_path)
    newcomer(made, "alice", gpus=1)
    snapshots.take_snapshot(made, "alice", "then")
    made.engine.push("alice", "/etc/later", b"", mode=0o644)
    lending.release(made, "alice", count=None, busy=True)
    second = GpuRequest(instance="alice", owner="", more=0, uuids=(made.engine.cards[1].uuid,))
    lending.attach(made, "alice", number=1, more=True, request=second, lease_s=None)
    reshape.resize(made, "alice", Limits(processes=777))
    return made


def cards_in_lxd(site, name="alice"):
    """The cards that LXD passes, by device and by the holds that the instance carries."""
    machine = site.engine.machines["default", name]
    devices = {f"GPU-{device.removeprefix('gpu-')}" for device in machine.devices if device.startswith("gpu-")}
    return devices, {hold["slot"] for hold in json.loads(machine.config[KEY_HOLDS])}


def test_the_system_goes_back_and_today_stays(site):
    """Files are those of then; card, holds, limits and keys are those of today, and a login worked."""
    before, second = site.inventory.read(), {site.engine.cards[1].uuid}
    snapshots.restore(site, "alice", "then")
    machine = site.engine.machines["default", "alice"]
    assert "/etc/later" not in machine.files
    assert cards_in_lxd(site) == (second, second)
    assert machine.config["limits.processes"] == "777"
    assert machine.power is Power.RUNNING
    after = site.inventory.read()
    assert (after.instances, after.assignments, after.keys) == (before.instances, before.assignments, before.keys)
    nodes = [node for card in site.engine.cards for node in card.nodes]
    assert site.probe.openable(site.engine.init("alice"), nodes) == frozenset(site.engine.cards[1].nodes)


def test_what_is_restored_behind_our_back_does_not_count(site):
    """The first card went to bob; alice's old devices and holds come back by LXD's own restore: bob keeps it."""
    newcomer(site, "bob", gpus=1)
    first, second = ({card.uuid} for card in site.engine.cards[:2])
    assert cards_in_lxd(site, "bob")[0] == first
    power.stop_instance(site, "alice", force=False)
    site.engine.restore("alice", "then")
    assert cards_in_lxd(site) == (first, first), "the snapshot brings them back"
    recover(site)
    power.start(site, "alice")
    assert cards_in_lxd(site) == (second, second)
    nodes = [node for card in site.engine.cards for node in card.nodes]
    assert site.probe.openable(site.engine.init("alice"), nodes) == frozenset(site.engine.cards[1].nodes)
    assert cards_in_lxd(site, "bob") == (first, first)


def test_a_snapshot_older_than_our_mark_is_no_stranger(site):
    """A snapshot from before lxgpu knew the container has no mark; LXD's own identity is what counts."""
    taken, kept = site.engine.machines["default", "alice"].snapshots["then"]
    kept.config = {key: value for key, value in kept.config.items() if not key.startswith("user.")}
    kept.devices["by-hand"] = {"type": "gpu", "pci": site.engine.cards[0].pci}
    site.engine.machines["default", "alice"].snapshots["then"] = (taken, kept)
    snapshots.restore(site, "alice", "then")
    machine = site.engine.machines["default", "alice"]
    assert machine.config[KEY_UUID] == machine.config["volatile.uuid"]
    assert "by-hand" not in machine.devices
    assert cards_in_lxd(site)[0] == {site.engine.cards[1].uuid}


def test_another_instance_under_the_name_is_not_touched(site):
    """Somebody deleted alice's and made another one of that name: refused, and it is left as it is."""
    power.stop_instance(site, "alice", force=False)
    site.engine.delete("alice")
    site.engine.add_stranger("alice", devices={})
    site.engine.snapshot("alice", "then")
    with pytest.raises(LxgpuError) as caught:
        snapshots.restore(site, "alice", "then")
    assert caught.value.code in {"not_ours", "missing"}
    assert not [key for key in site.engine.machines["default", "alice"].config if key.startswith("user.lxgpu")]


def test_one_that_did_not_run_does_not_run_afterwards(site):
    """It is started for the proof, and stopped again."""
    power.stop_instance(site, "alice", force=False)
    snapshots.restore(site, "alice", "then")
    assert site.engine.machines["default", "alice"].power is Power.STOPPED
    assert not site.inventory.read().instance("alice").running


def test_a_failure_leaves_it_running_and_nothing_open(site):
    """LXD refuses to restore: the container runs with today's card, and no operation is left."""
    for _ in range(2):
        site.engine.inject(Fault.ERROR, call="restore", name="alice")
    with pytest.raises(LxgpuError):
        snapshots.restore(site, "alice", "then")
    assert not [row for row in site.inventory.read().operations if row.live]
    assert site.engine.machines["default", "alice"].power is Power.RUNNING
    assert cards_in_lxd(site)[0] == {site.engine.cards[1].uuid}


def test_taking_listing_and_deleting(site):
    """Names are told oldest first; one that is there is not taken twice, one that is not there is not deleted."""
    snapshots.take_snapshot(site, "alice", "now.2")
    assert [view.name for view in snapshots.views(site, "alice")] == ["then", "now.2"]
    for act, name, code in (
        (snapshots.take_snapshot, "then", "exists"),
        (snapshots.take_snapshot, "a/b", "bad_name"),
        (snapshots.take_snapshot, "-x", "bad_name"),
        (snapshots.delete_snapshot, "never", "not_found"),
        (snapshots.restore, "never", "not_found"),
    ):
        with pytest.raises(LxgpuError) as caught:
            act(site, "alice", name)
        assert caught.value.code == code
    snapshots.delete_snapshot(site, "alice", "then")
    assert [view.name for view in snapshots.views(site, "alice")] == ["now.2"]


def test_dry_run_writes_nothing(site):
    """The three plans change neither the inventory nor LXD."""
    before, writes = site.inventory.read(), site.engine.writes
    plans = (
        snapshots.plan_snapshot(site, "alice", "new"),
        snapshots.plan_delete(site, "alice", "then"),
        snapshots.plan_restore(site, "alice", "then"),
    )
    assert [plan.steps[0].do for plan in plans] == ["snapshot", "delete_snapshot", "stop"]
    assert (site.inventory.read(), site.engine.writes) == (before, writes)
