"""Rebuild: a fresh system under everything else that stays."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fakes.faults import Fault
from fakes.site import make_site, newcomer

from lxgpu.errors import LxgpuError
from lxgpu.model.instance import Power
from lxgpu.services import power, renewal, snapshots


@pytest.fixture
def site(tmp_path):
    """Alice holds one card; something lies in her system."""
    made = make_site(tmp_path)
    newcomer(made, "alice", gpus=1)
    made.engine.push("alice", "/etc/mine", b"mine", mode=0o644)
    return made


def test_the_system_is_new_and_the_rest_stays(site):
    """Files outside the home are gone; keys, card, devices, limits and identity are as before, and a login worked."""
    before, machine = site.inventory.read(), site.engine.machines["default", "alice"]
    devices, uuid, logins = dict(machine.devices), machine.config["volatile.uuid"], len(site.login.checked)
    renewal.rebuild(site, "alice", image="")
    machine = site.engine.machines["default", "alice"]
    assert "/etc/mine" not in machine.files
    assert "/etc/ssh/authorized_keys.d/alice" in machine.files
    assert (machine.devices, machine.config["volatile.uuid"], machine.power) == (devices, uuid, Power.RUNNING)
    after = site.inventory.read()
    assert (after.instances, after.assignments, after.keys) == (before.instances, before.assignments, before.keys)
    assert len(site.login.checked) == logins + 1
    assert any("host keys are new" in line for line in site.say.lines)


def test_another_image_is_remembered(site):
    """The image asked for becomes the container's own."""
    other = site.engine.add_image("newer")
    renewal.rebuild(site, "alice", image="newer")
    assert site.inventory.read().instance("alice").image == other.fingerprint


def test_an_image_that_is_gone_gives_way_to_that_of_the_settings(site):
    """Without --image the container's own image counts as long as it is there, then the one of the settings."""
    old = site.engine.add_image("old")
    renewal.rebuild(site, "alice", image="old")
    del site.engine.store[old.fingerprint]
    renewal.rebuild(site, "alice", image="")
    base = next(image for image in site.engine.images() if "base" in image.aliases)
    assert site.inventory.read().instance("alice").image == base.fingerprint


def test_one_that_did_not_run_does_not_run_afterwards(site):
    """It is started for the proof, and stopped again."""
    power.stop_instance(site, "alice", force=False)
    renewal.rebuild(site, "alice", image="")
    assert site.engine.machines["default", "alice"].power is Power.STOPPED
    assert not site.inventory.read().instance("alice").running


def test_snapshots_are_not_lost_by_it(site):
    """A container with snapshots is refused, with their names, before it is stopped."""
    snapshots.take_snapshot(site, "alice", "before-paper")
    init = site.engine.init("alice")
    with pytest.raises(LxgpuError, match="has snapshots") as caught:
        renewal.rebuild(site, "alice", image="")
    assert (caught.value.code, caught.value.why) == ("conflict", ("before-paper",))
    assert site.engine.init("alice") == init


def test_a_login_that_fails_is_told_and_ends(site):
    """The new system does not let her in: an error, no operation left open, and the next rebuild may come."""
    works = site.engine.programs["sh"]
    site.engine.programs["sh"] = lambda argv, stdin: replace(works(argv, stdin), status=1)
    with pytest.raises(LxgpuError) as caught:
        renewal.rebuild(site, "alice", image="")
    assert caught.value.code == "bootstrap_failed"
    assert not [row for row in site.inventory.read().operations if row.live]
    assert any("not proven" in line for line in site.say.lines)
    site.engine.programs["sh"] = works
    renewal.rebuild(site, "alice", image="")


def test_a_failure_before_anything_is_replaced_changes_nothing(site):
    """LXD refuses: the old system runs again, and the row still names the old image."""
    before = site.inventory.read()
    site.engine.add_image("newer")
    for _ in range(2):
        site.engine.inject(Fault.ERROR, call="rebuild_root", name="alice")
    with pytest.raises(LxgpuError):
        renewal.rebuild(site, "alice", image="newer")
    assert site.inventory.read().instances == before.instances
    machine = site.engine.machines["default", "alice"]
    assert (machine.power, "/etc/mine" in machine.files) == (Power.RUNNING, True)


def test_dry_run_writes_nothing(site):
    """The plan names the image and what stays."""
    before, writes = site.inventory.read(), site.engine.writes
    plan = renewal.plan_rebuild(site, "alice", image="")
    assert [step.do for step in plan.steps] == ["stop", "rebuild", "verify"]
    assert "from image base" in plan.steps[1].why
    assert (site.inventory.read(), site.engine.writes) == (before, writes)
