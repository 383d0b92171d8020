"""Holding a container still: for what, and that it is never left so."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from nvml_library import Library
from plain_instance import plain_instance, wait_for

from lxgpu.drivers.cgroups import Cgroups
from lxgpu.drivers.probe import LocalProbe
from lxgpu.drivers.stillness import held_still
from lxgpu.model.gpu import Gpu

HOLD = """
import sys, time
from lxgpu.drivers.cgroups import Cgroups
from lxgpu.drivers.stillness import held_still
with held_still(Cgroups(), int(sys.argv[1])):
    print("still", flush=True)
    time.sleep(100)
"""


@pytest.fixture
def frozen(inside):
    """Whether the instance is frozen at this moment."""
    events = inside.place("unified") / "cgroup.events"
    return lambda: "frozen 1" in events.read_text()


def test_a_card_handed_round_is_never_free(inside, card, tmp_path, monkeypatch):
    """Four processes pass the open card on without end: no look finds nobody, and afterwards they go on."""
    gpu = Gpu(uuid="GPU-a", pci="0000:11:00.0", model="m", host="h", nodes=(card,), index=0)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(Library(tmp_path, [gpu]).directory))
    inside.start("ring", card)
    probe = LocalProbe()
    looks = [probe.holders([inside.init], [gpu], readings=probe.readings())[gpu.uuid] for _ in range(40)]
    assert not [look for look in looks if look.free]


def test_everything_rests_inside_the_block_and_runs_after_it(inside, frozen):
    """Frozen within, thawed after, and after an error too."""
    inside.start("nothing", below="made-inside")
    with held_still(Cgroups(), inside.init):
        assert frozen()
    assert wait_for(lambda: not frozen())
    with pytest.raises(ZeroDivisionError), held_still(Cgroups(), inside.init):
        raise ZeroDivisionError
    assert wait_for(lambda: not frozen())


def test_several_rest_at_once(inside, frozen):
    """All of them within the block, none after it; one that has ended meanwhile is no hindrance."""
    with plain_instance([]) as other, plain_instance([]) as ended:
        events = other.place("unified") / "cgroup.events"
        ended.stop()
        with held_still(Cgroups(), inside.init, other.init, ended.init):
            assert frozen()
            assert "frozen 1" in events.read_text()
        assert wait_for(lambda: not frozen() and "frozen 0" in events.read_text())


def test_it_is_thawed_when_its_holder_is_killed(inside, frozen):
    """A kill of lxgpu at this very moment leaves no frozen container."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    argv = [sys.executable, "-c", HOLD, str(inside.init)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=environment) as holder:
        assert holder.stdout.readline() == "still\n"
        assert frozen()
        holder.send_signal(signal.SIGKILL)
    assert wait_for(lambda: not frozen())


def test_a_container_paused_by_others_stays_paused(inside, frozen):
    """Who froze it thaws it."""
    (inside.place("unified") / "cgroup.freeze").write_text("1")
    assert wait_for(frozen)
    with held_still(Cgroups(), inside.init):
        assert frozen()
    assert frozen()


def test_a_container_that_has_ended_is_no_error(inside):
    """Between two looks it may be gone; the look will say so."""
    inside.stop()
    with held_still(Cgroups(), inside.init):
        pass
