"""Resize: limits that hold in the kernel, or the old ones; disks never below what is used."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fakes.faults import Fault
from fakes.site import make_site, newcomer

from lxgpu.errors import LxgpuError
from lxgpu.model.instance import Limits
from lxgpu.ports import Ran
from lxgpu.services import power, reshape
from lxgpu.services.room import MARGIN

GIB = 2**30


@pytest.fixture
def site(tmp_path):
    """Alice's container runs."""
    made = make_site(tmp_path)
    newcomer(made, "alice", gpus=1)
    return made


class Inside:
    """Programs inside a container with so much on its disks and in /dev/shm; remembers sizes set."""

    def __init__(self, site, *, used=0, shm=0):
        self.used, self.shm, self.shm_size = used, shm, None
        self.limit = site.inventory.read().instance("alice").limits.disk_bytes
        self.account = site.engine.programs["sh"]
        site.engine.programs["sh"] = self

    def __call__(self, argv, stdin):
        """The three scripts of a resize; any other is the account's."""
        if "fallocate" in argv[2]:
            fits = self.used + int(argv[5]) <= self.limit
            return Ran(0, "") if fits else Ran(1, "fallocate failed: Disk quota exceeded\n")
        if "remount" in argv[2]:
            self.shm_size = int(argv[4])
            return Ran(0, "") if self.shm <= self.shm_size else Ran(3, f"{self.shm} bytes are in it\n")
        return self.account(argv, stdin)


def limits(site):
    """What the inventory says."""
    return site.inventory.read().instance("alice").limits


def in_lxd(site):
    """What LXD was told: memory, CPUs, processes, root's and home's size."""
    machine = site.engine.machines["default", "alice"]
    told = [machine.config.get(f"limits.{key}") for key in ("cpu", "memory", "processes")]
    return [*told, machine.devices["root"].get("size"), site.engine.disks["default"]["home-alice"]]


def test_limits_count_at_once_and_are_read_back(site):
    """CPU, memory, processes and both disks in one command; /dev/shm follows the memory without a restart."""
    inside = Inside(site)
    init = site.engine.init("alice")
    asked = Limits(cpu=3, memory_bytes=8 * GIB, disk_bytes=300 * GIB, processes=999)
    assert reshape.resize(site, "alice", asked)
    assert limits(site) == asked
    assert in_lxd(site) == ["3", "8GiB", "999", "300GiB", 300 * GIB]
    assert inside.shm_size == 4 * GIB
    assert site.engine.init("alice") == init, "it was restarted"
    assert f"size={4 * GIB}" in site.engine.machines["default", "alice"].config["raw.lxc"], "the next start forgets it"


def test_what_is_not_named_stays(site):
    """Only what is asked for changes, and asking for what is there does nothing."""
    Inside(site)
    before = limits(site)
    reshape.resize(site, "alice", Limits(processes=123))
    assert limits(site) == replace(before, processes=123)
    writes = site.engine.writes
    assert not reshape.resize(site, "alice", Limits(processes=123))
    assert site.engine.writes == writes


def test_cpus_are_told_in_a_write_of_their_own(site):
    """LXD loses a new number of CPUs when memory changes in the same write, so it never does."""
    Inside(site)
    seen = []

    def watch(moment, call, name):
        if (moment, call, name) == ("after", "update", "alice"):
            config = site.engine.machines["default", "alice"].config
            seen.append((config["limits.cpu"], config["limits.memory"]))

    site.engine.hook = watch
    old = in_lxd(site)
    reshape.resize(site, "alice", Limits(cpu=2, memory_bytes=8 * GIB))
    assert seen[0] == (old[0], "8GiB")
    assert seen[1] == ("2", "8GiB")


def test_what_the_kernel_does_not_hold_is_put_back(site):
    """When the cgroups do not follow, the old limits stand again everywhere, and the error says which one failed."""
    Inside(site)
    before, told = limits(site), in_lxd(site)
    site.probe.held["alice"] = replace(before, memory_bytes=GIB)
    with pytest.raises(LxgpuError, match="do not hold") as caught:
        reshape.resize(site, "alice", Limits(memory_bytes=8 * GIB, disk_bytes=300 * GIB))
    assert caught.value.code == "limits_failed"
    assert "memory" in caught.value.why[0]
    assert limits(site) == before
    assert in_lxd(site) == told


def test_a_refusal_by_lxd_is_put_back(site):
    """Memory below what is in use: LXD says no, and everything is as before."""
    Inside(site)
    before, told = limits(site), in_lxd(site)
    site.engine.inject(Fault.ERROR, call="update", name="alice", nth=1)
    site.engine.inject(Fault.ERROR, call="update", name="alice", nth=1)
    with pytest.raises(LxgpuError):
        reshape.resize(site, "alice", Limits(memory_bytes=GIB))
    assert limits(site) == before
    assert in_lxd(site) == told


def test_shared_memory_in_use_is_not_cut(site):
    """More in /dev/shm than it would have: refused with the number, and the old limits stand."""
    inside = Inside(site, shm=3 * GIB)
    before = limits(site)
    with pytest.raises(LxgpuError) as caught:
        reshape.resize(site, "alice", Limits(memory_bytes=4 * GIB))
    assert caught.value.code == "limits_failed"
    assert caught.value.why == (f"{3 * GIB} bytes are in it",)
    assert limits(site) == before
    assert inside.shm_size == int(before.memory_bytes * 0.5)


@pytest.mark.parametrize(("short", "fits"), [(0, True), (1, False)])
def test_a_disk_is_never_smaller_than_what_is_used(site, short, fits):
    """To the byte: what is used and the margin must fit, for LXD cannot mend a limit below use."""
    asked = 100 * GIB
    Inside(site, used=asked - MARGIN + short)
    before = limits(site)
    if fits:
        reshape.resize(site, "alice", Limits(disk_bytes=asked))
        assert limits(site).disk_bytes == asked
        return
    with pytest.raises(LxgpuError) as caught:
        reshape.resize(site, "alice", Limits(disk_bytes=asked))
    assert caught.value.code == "disk_in_use"
    assert limits(site) == before
    assert in_lxd(site)[3:] == ["200GiB", 200 * GIB]


def test_a_disk_shrinks_only_where_it_can_be_measured(site):
    """A stopped container's disk is not made smaller; a larger one is taken at once."""
    Inside(site)
    power.stop_instance(site, "alice", force=False)
    with pytest.raises(LxgpuError, match="does not run"):
        reshape.resize(site, "alice", Limits(disk_bytes=100 * GIB))
    assert reshape.resize(site, "alice", Limits(disk_bytes=300 * GIB, memory_bytes=GIB))
    assert in_lxd(site)[3:] == ["300GiB", 300 * GIB]


def test_dry_run_names_what_changes(site):
    """The plan has one step a limit, old and new, and nothing is written or run inside."""
    before, writes = site.inventory.read(), site.engine.writes
    plan = reshape.plan_resize(site, "alice", Limits(cpu=2, memory_bytes=GIB))
    assert [step.why for step in plan.steps] == ["cpu 16 → 2", "memory_bytes 96GiB → 1GiB"]
    assert (site.inventory.read(), site.engine.writes) == (before, writes)
