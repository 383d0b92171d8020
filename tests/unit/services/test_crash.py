"""kill -9 inside and between the steps: the next command converges to what an uninterrupted run gives."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from fakes.faults import Fault, KilledError, When
from fakes.mortal import MortalInventory
from fakes.site import make_site, newcomer

from lxgpu.config.keys import parse_keys
from lxgpu.errors import LxgpuError
from lxgpu.inventory.memory import MemoryInventory
from lxgpu.model.assignment import AssignmentState
from lxgpu.model.instance import InstanceState, Limits
from lxgpu.model.request import GpuRequest
from lxgpu.services import adopt, ending, keys, lending, power, renaming, renewal, reshape, snapshots, untrash
from lxgpu.services.recover import recover
from lxgpu.services.site import Site

IDENTITY_WRITES = 1
MOST_WRITES = 80
LAPTOP = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGCxwX5Je8bgcNoDkkrBxz/PhQdDwATq6Fc2QCMtSeSh laptop"


@dataclass(frozen=True)
class Story:
    """What is there before, and what is then done."""

    before: Callable[[Site], object]
    act: Callable[[Site], object]


def nothing(_site: Site) -> None:
    """An empty host."""


def alice(site: Site) -> None:
    """Alice holds one card."""
    newcomer(site, "alice", gpus=1)


def suspended(site: Site) -> None:
    """Alice's container is closed."""
    alice(site)
    ending.suspend(site, "alice", reason="holidays")


def by_hand(site: Site) -> None:
    """Somebody made eve's container with LXD's own tools; it has a card, and an account with a home."""
    nic = {"type": "nic", "network": "lxdbr0", "name": "eth0"}
    card = {"type": "gpu", "pci": site.engine.cards[0].pci}
    site.engine.add_stranger("eve", devices={"eth0": nic, "g0": card}, running=True)
    site.engine.push("eve", "/etc/passwd", b"eve:x:1000:1000::/home/eve:/bin/bash\n", mode=0o644)
    site.engine.push("eve", "/home/eve/.ssh/authorized_keys", LAPTOP.encode(), mode=0o600)


def deleted(site: Site) -> None:
    """Alice's container lies in the trash."""
    alice(site)
    ending.delete(site, "alice", purge=False)


def kept(site: Site) -> None:
    """A snapshot of the day when alice held one card; she holds two now."""
    alice(site)
    snapshots.take_snapshot(site, "alice", "s1")
    attach(site)


def attach(site: Site) -> None:
    """One card more for alice."""
    request = GpuRequest(instance="alice", owner="", more=0)
    lending.attach(site, "alice", number=1, more=True, request=request, lease_s=None)


STORIES = {
    "create": Story(nothing, lambda site: newcomer(site, "alice", gpus=1)),
    "attach": Story(alice, attach),
    "release": Story(alice, lambda site: lending.release(site, "alice", count=None, busy=True)),
    "delete": Story(alice, lambda site: ending.delete(site, "alice", purge=False)),
    "purge": Story(alice, lambda site: ending.delete(site, "alice", purge=True)),
    "suspend": Story(alice, lambda site: ending.suspend(site, "alice", reason="holidays")),
    "resume": Story(suspended, lambda site: ending.resume(site, "alice")),
    "rebuild": Story(alice, lambda site: renewal.rebuild(site, "alice", image="")),
    "resize": Story(alice, lambda site: reshape.resize(site, "alice", Limits(cpu=2, memory_bytes=2**33))),
    "rename": Story(alice, lambda site: renaming.rename(site, "alice", "eve")),
    "snapshot": Story(alice, lambda site: snapshots.take_snapshot(site, "alice", "s1")),
    "restore": Story(kept, lambda site: snapshots.restore(site, "alice", "s1")),
    "adopt": Story(by_hand, lambda site: adopt.adopt(site, "eve", owner="")),
    "untrash": Story(deleted, lambda site: untrash.untrash(site, "trash-alice")),
    "keys": Story(alice, lambda site: keys.add(site, "alice", parse_keys(LAPTOP))),
    "restart": Story(alice, lambda site: power.restart(site, "alice", force=False)),
}


def world(site: Site) -> dict[str, object]:
    """What must be the same in the end, without times and ids."""
    records = site.inventory.read()
    machines = {
        name: (found.power, sorted(found.devices), found.config.get("raw.lxc"))
        for (_, name), found in site.engine.machines.items()
        if not name.startswith("lxgpu-template-")
    }
    return {
        "instances": [(row.name, row.owner, row.state, row.address, row.running) for row in records.instances],
        "held": sorted((row.instance, str(row.slot), row.state) for row in records.assignments),
        "people": [(row.name, row.uid, row.ssh_port) for row in records.persons],
        "keys": [(row.person, row.fingerprint) for row in records.keys],
        "machines": machines,
        "snapshots": {name: sorted(found.snapshots) for (_, name), found in site.engine.machines.items()},
        "volumes": sorted(site.engine.disks["default"]),
    }


def check_sane(site: Site) -> None:
    """Nothing half done, and LXD shows exactly what the inventory says."""
    records = site.inventory.read()
    assert not [row for row in records.operations if row.live]
    assert all(row.state is not InstanceState.CREATING for row in records.instances)
    holders = [row.slot for row in records.assignments if row.live]
    assert len(holders) == len(set(holders))
    off = [row for row in records.slots if row.detached_at is not None and row.slot not in holders]
    assert all(row.proven(site.probe.boot_id()) for row in off), "a card was given back without a proof"
    shown = {
        (name, device.removeprefix("gpu-"))
        for (_, name), found in site.engine.machines.items()
        for device in found.devices
        if device.startswith("gpu-")
    }
    meant = {
        (row.instance, row.slot.gpu.removeprefix("GPU-"))
        for row in records.assignments
        if row.state in {AssignmentState.ATTACHING, AssignmentState.ACTIVE}
    }
    assert shown == meant


def fresh(folder: Path, story: Story) -> Site:
    """A host with the story's beginning, and a process that can be killed."""
    site = make_site(folder, gpus=2, inventory=MortalInventory(MemoryInventory()))
    warm = newcomer(site, "warmup")  # the image's template is made and the identity set before anything is killed
    ending.delete(site, warm.name, purge=True)
    story.before(site)
    site.inventory.writes = 0
    site.engine.writes = 0
    return site


@pytest.mark.parametrize("name", STORIES)
@pytest.mark.parametrize("when", [When.BEFORE, When.AFTER])
def test_killed_at_any_write_to_the_inventory(tmp_path: Path, name: str, when: When) -> None:
    """Before or after each commit: the next command ends in the state before, or in the state after."""
    story = STORIES[name]
    start, end = fresh(tmp_path, story), fresh(tmp_path, story)
    story.act(end)
    for number in range(1, MOST_WRITES):
        site = fresh(tmp_path, story)
        site.inventory.death = (number, when)
        try:
            story.act(site)
        except KilledError:
            written = any(row.live for row in site.inventory.read().operations)
            site.inventory.death = None
            recover(site)
            check_sane(site)
            assert world(site) == world(end) if written else world(site) in (world(start), world(end))
        else:
            assert number > 2, "it was never killed"
            return
    pytest.fail("the story does not end")


@pytest.mark.parametrize("name", STORIES)
@pytest.mark.parametrize("when", [When.BEFORE, When.AFTER])
def test_interrupted_at_any_write_to_the_inventory(tmp_path: Path, name: str, when: When) -> None:
    """Ctrl-C before or after each commit: undone or done, by itself or by the next command, and never half."""
    story = STORIES[name]
    start, end = fresh(tmp_path, story), fresh(tmp_path, story)
    story.act(end)
    for number in range(1, MOST_WRITES):
        site = fresh(tmp_path, story)
        site.inventory.death, site.inventory.by = (number, when), KeyboardInterrupt
        try:
            story.act(site)
        except KeyboardInterrupt:
            recover(site)
            check_sane(site)
            assert world(site) in (world(start), world(end)), f"interrupted {when} write {number}"
        else:
            return
    pytest.fail("the story does not end")


@pytest.mark.parametrize("name", STORIES)
@pytest.mark.parametrize("when", list(When))
def test_killed_at_any_write_to_lxd(tmp_path: Path, name: str, when: When) -> None:
    """Before, after, or with the write still on its way: the next command ends what was begun."""
    story = STORIES[name]
    end = fresh(tmp_path, story)
    story.act(end)
    for number in range(1, MOST_WRITES):
        site = fresh(tmp_path, story)
        site.engine.kill(when, write=number)
        try:
            story.act(site)
        except KilledError:
            recover(site)
            check_sane(site)
            assert world(site) == world(end), f"killed {when} write {number}"
        else:
            assert number > 1, "it was never killed"
            return
    pytest.fail("the story does not end")


@pytest.mark.parametrize("name", STORIES)
@pytest.mark.parametrize("fault", [fault for fault in Fault if fault is not Fault.HALF])
def test_one_fault_of_lxd_at_any_write(tmp_path: Path, name: str, fault: Fault) -> None:
    """Errors, lost answers, late writes, stale ETags: done or undone in the end, never half."""
    story = STORIES[name]
    start, end = fresh(tmp_path, story), fresh(tmp_path, story)
    story.act(end)
    for number in range(1, MOST_WRITES):
        site = fresh(tmp_path, story)
        site.engine.inject(fault, write=number)
        before = site.engine.writes
        try:
            story.act(site)
        except LxgpuError:
            for _ in range(3):  # as many commands later, some of which may meet LXD while it is still away
                with suppress(LxgpuError):
                    recover(site)
        assert world(site) == world(start) or world(site) == world(end), f"{fault} at write {number}"
        check_sane(site)
        if site.engine.writes - before < number:
            return
    pytest.fail("the story does not end")
