"""MIG on the stand-in NVML library, asked through the real pynvml in a process of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lxgpu.lab import record, state
from lxgpu.lab.faults import set_fault
from lxgpu.lab.processes import started_at
from lxgpu.lab.record import Lab
from lxgpu.lab.spec import LabSpec, plan_cards

IN_USE, NOT_SUPPORTED, NO_ROOM = "error 19", "error 3", "error 23"
BEGIN = """
import json
from ctypes import byref, c_uint
from pynvml import *
nvmlInit()
card = nvmlDeviceGetHandleByIndex(0)
def call(function, *arguments):
    try:
        return function(*arguments)
    except NVMLError as error:
        return f"error {error.value}"
def profile(number):
    return nvmlDeviceGetGpuInstanceProfileInfo(card, number)
def compute(instance):
    whole = {1: 0, 2: 1, 3: 2, 4: 3, 7: 4}
    kinds = {profile(n).id: profile(n).sliceCount for n in (0, 1, 2, 3, 4, 9)}
    return nvmlGpuInstanceCreateComputeInstance(instance, whole[kinds[nvmlGpuInstanceGetInfo(instance).profileId]])
def make(number):
    instance = call(nvmlDeviceCreateGpuInstance, card, profile(number).id)
    if isinstance(instance, str):
        return instance
    compute(instance)
    at = nvmlGpuInstanceGetInfo(instance).placement
    return [at.start, at.size]
def places(number):
    room, count = (c_nvmlGpuInstancePlacement_t * 8)(), c_uint(8)
    nvmlDeviceGetGpuInstancePossiblePlacements(card, profile(number).id, room, byref(count))
    return [room[at].start for at in range(count.value)]
def place(number, start, size):
    wanted = byref(c_nvmlGpuInstancePlacement_t(start, size))
    made = call(nvmlDeviceCreateGpuInstanceWithPlacement, card, profile(number).id, wanted)
    return made if isinstance(made, str) else nvmlGpuInstanceGetInfo(made).id
def instances(number):
    found, count = (c_nvmlGpuInstance_t * 8)(), c_uint(8)
    nvmlDeviceGetGpuInstances(card, profile(number).id, found, byref(count))
    return [nvmlGpuInstanceGetInfo(found[at]).id for at in range(count.value)]
def compute_kind(number, kind):
    instance = nvmlDeviceGetGpuInstanceById(card, number)
    found = call(nvmlGpuInstanceGetComputeInstanceProfileInfo, instance, kind, 0, 1)
    return found if isinstance(found, str) else [found.id, found.sliceCount]
def slices():
    found, index = [], 0
    while not isinstance(one := call(nvmlDeviceGetMigDeviceHandleByIndex, card, index), str):
        found.append([nvmlDeviceGetUUID(one), nvmlDeviceGetGpuInstanceId(one), nvmlDeviceGetComputeInstanceId(one)])
        index += 1
    return found
def end(number):
    instance = nvmlDeviceGetGpuInstanceById(card, number)
    return [call(nvmlGpuInstanceDestroy, instance),
            call(nvmlComputeInstanceDestroy, nvmlGpuInstanceGetComputeInstanceById(instance, 0)),
            call(nvmlGpuInstanceDestroy, instance)]
"""


@pytest.fixture
def mig_lab(tmp_path: Path, built_library: Path) -> Lab:
    """A card that can be divided and one that cannot."""
    cards = plan_cards(LabSpec(name="mig", models=("A100 40GB", "T4")), consoles=(20, 21), taken_pci=())
    lab = Lab(name="mig", directory=tmp_path / "mig", gpus=cards, bridge="lg-mig", subnet="10.99.2.0/24")
    lab.paths.make()
    shutil.copy(built_library, lab.paths.nvml)
    with state.editing(lab):
        pass
    return lab


def _ask(lab: Lab, *expressions: str) -> list[Any]:
    code = f"{BEGIN}\nprint(json.dumps([{', '.join(expressions)}]))"
    env = {**os.environ, **lab.env()}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=20, check=False
    )
    assert done.returncode == 0, done.stderr
    said: list[Any] = json.loads(done.stdout)
    return said


def test_profiles(mig_lab: Lab) -> None:
    """A card tells what it can be divided into; one without MIG says that it has none."""
    three = "[(p := profile(2)).id, p.sliceCount, p.instanceCount, p.memorySizeMB, p.name]"
    other = "call(nvmlDeviceGetMigMode, nvmlDeviceGetHandleByIndex(1))"
    assert _ask(mig_lab, three, "nvmlDeviceGetMigMode(card)", other) == [
        [9, 3, 2, 20096, "MIG 3g.20gb"],
        [0, 0],
        NOT_SUPPORTED,
    ]


def test_slices_are_made_and_stay(mig_lab: Lab) -> None:
    """Slices are made where they fit, are seen by every process with UUIDs of their own, and no more fit than do."""
    assert _ask(mig_lab, "make(2)")[0] == NOT_SUPPORTED
    made = ("nvmlDeviceSetMigMode(card, 1)", "make(2)", "make(1)", "make(1)", "make(2)")
    assert _ask(mig_lab, *made) == [0, [4, 4], [2, 2], [0, 2], NO_ROOM]
    (seen,) = _ask(mig_lab, "slices()")
    assert [row[1:] for row in seen] == [[1, 0], [2, 0], [3, 0]]
    assert len({row[0] for row in seen}) == len(seen)
    assert all(row[0].startswith("MIG-") for row in seen)


def test_use_hinders(mig_lab: Lab) -> None:
    """Nothing in use is destroyed: an instance with its compute instance, slices of a card that computes, the mode."""
    _ask(mig_lab, "nvmlDeviceSetMigMode(card, 1)", "make(2)")
    with subprocess.Popen(["sleep", "60"]) as job:
        with state.editing(mig_lab) as nvml:
            nvml.jobs.append(f"proc 0 {job.pid} {started_at(job.pid)} 100 C 5")
        assert _ask(mig_lab, "end(1)", "call(nvmlDeviceSetMigMode, card, 0)") == [[IN_USE] * 3, IN_USE]
        job.kill()
    assert _ask(mig_lab, "end(1)", "slices()", "nvmlDeviceSetMigMode(card, 0)") == [[IN_USE, 0, 0], [], 0]


def test_a_mode_that_waits(mig_lab: Lab) -> None:
    """The mode of a card in use changes at the next start of the machine, and says so until then."""
    with subprocess.Popen(["sleep", "60"]) as job:
        with state.editing(mig_lab) as nvml:
            nvml.jobs.append(f"proc 0 {job.pid} {started_at(job.pid)} 100 C 5")
        assert _ask(mig_lab, "nvmlDeviceSetMigMode(card, 1)", "nvmlDeviceGetMigMode(card)") == [19, [0, 1]]
        job.kill()
    set_fault(mig_lab, "all", "reboot")
    assert _ask(mig_lab, "nvmlDeviceGetMigMode(card)") == [[1, 1]]


def test_slices_vanish_at_a_reboot(mig_lab: Lab) -> None:
    """After a restart of the machine the slices are gone; made again in their places they have the UUIDs of before."""
    _ask(mig_lab, "nvmlDeviceSetMigMode(card, 1)", "make(2)", "make(1)")
    (before,) = _ask(mig_lab, "slices()")
    set_fault(mig_lab, "all", "reboot")
    assert _ask(mig_lab, "slices()", "nvmlDeviceGetMigMode(card)") == [[], [1, 1]]
    assert _ask(mig_lab, "make(2)", "make(1)", "slices()")[2] == before


def test_no_utilisation(mig_lab: Lab) -> None:
    """A card in MIG mode has no utilisation, and its memory is told as ever."""
    rates = "call(lambda: nvmlDeviceGetUtilizationRates(card).gpu)"
    asked = (rates, "nvmlDeviceSetMigMode(card, 1)", rates, "nvmlDeviceGetMemoryInfo(card).total")
    assert _ask(mig_lab, *asked) == [0, 0, NOT_SUPPORTED, 40960 << 20]


def test_places(mig_lab: Lab) -> None:
    """A slice is made at a place that was asked for when it may begin there and has room, and not otherwise."""
    asked = ("places(2)", "places(9)", "nvmlDeviceSetMigMode(card, 1)", "place(2, 0, 4)", "place(1, 2, 2)")
    assert _ask(mig_lab, *asked) == [[0, 4], [0, 2, 4, 6], 0, 1, NO_ROOM]
    assert _ask(mig_lab, "place(1, 3, 2)", "place(1, 4, 2)", "instances(1)") == [NO_ROOM, 2, [2]]
    assert _ask(mig_lab, "compute_kind(1, 2)", "compute_kind(1, 0)") == [[2, 3], NOT_SUPPORTED]


def test_a_slice_knows_its_card(mig_lab: Lab) -> None:
    """A slice is told from a card, and names the card it is of."""
    _ask(mig_lab, "nvmlDeviceSetMigMode(card, 1)", "make(2)")
    one = "nvmlDeviceGetMigDeviceHandleByIndex(card, 0)"
    parent = f"nvmlDeviceGetUUID(nvmlDeviceGetDeviceHandleFromMigDeviceHandle({one}))"
    kinds = [f"nvmlDeviceIsMigDeviceHandle({handle}).value" for handle in (one, "card")]
    assert _ask(mig_lab, parent, *kinds) == [mig_lab.gpus[0].uuid, 1, 0]


@pytest.mark.parametrize(
    "call", ["GpuInstanceDestroy, one", "ComputeInstanceDestroy, part", "GpuInstanceCreateComputeInstance, one, 2"]
)
def test_a_hanging_card_can_be_cleared(mig_lab: Lab, call: str) -> None:
    """A change that hangs with its card goes on once the fault is cleared, which it does not hinder."""
    _ask(mig_lab, "nvmlDeviceSetMigMode(card, 1)", "make(2)")
    handles = "one = nvmlDeviceGetGpuInstanceById(card, 1)\npart = nvmlGpuInstanceGetComputeInstanceById(one, 0)"
    code = f"{BEGIN}\n{handles}\nprint('ready', flush=True)\ninput()\ncall(nvml{call})\nprint('done', flush=True)"
    env = {**os.environ, **mig_lab.env()}
    argv = [sys.executable, "-c", code]
    with subprocess.Popen(argv, env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as asker:
        assert asker.stdout is not None
        assert asker.stdout.readline() == "ready\n"
        set_fault(mig_lab, "0", "hang")
        with pytest.raises(subprocess.TimeoutExpired):
            asker.communicate("go\n", timeout=1)
        clear = "from lxgpu.lab import record\nfrom lxgpu.lab.faults import set_fault\n"
        record.save(mig_lab)
        clear += "set_fault(record.load('mig'), '0', 'clear')"
        root = {**os.environ, "LXGPU_LAB_ROOT": str(mig_lab.directory.parent)}
        try:
            subprocess.run([sys.executable, "-c", clear], env=root, timeout=20, check=True)
            assert asker.communicate(timeout=20)[0].endswith("done\n")
        finally:
            asker.kill()
