"""What every brake promises, asked of the real one (real processes and cgroups of this kernel) and of the fake."""

from __future__ import annotations

import contextlib
import signal

import pytest
from fakes.people import FakeBrake
from nvml_library import Library
from probe_worlds import CARD, OTHER, FakeWorld, RealWorld

from lxgpu.drivers.brake import FreezerBrake

KEY = "testkey"


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    """The stand-in NVML library of the lab, with two cards."""
    return Library(tmp_path_factory.mktemp("nvml"), (CARD, OTHER))


@pytest.fixture(params=["fake", "real"])
def world(request, library, monkeypatch):
    """A host with a container, of each kind."""
    if request.param == "fake":
        yield FakeWorld()
        return
    monkeypatch.setenv("LD_LIBRARY_PATH", str(library.directory))
    library.write()
    with contextlib.ExitStack() as stack:
        yield RealWorld(library, "v1", stack)


@pytest.fixture
def brake(world):
    """The brake of that host; nothing of it is left after a test."""
    found = FakeBrake(world.probe) if isinstance(world, FakeWorld) else FreezerBrake()
    yield found
    found.free(KEY, world.init)
    assert found.held(KEY) == ()


def named(processes):
    """Who it is."""
    return {(one.pid, one.start_time) for one in processes}


def test_who_is_held_is_named_until_it_is_free(world, brake):
    """Held twice is held once; freed twice is freed."""
    process = world.hold()
    assert brake.held(KEY) == ()
    for _ in range(2):
        brake.hold(KEY, world.init, [process.pid])
        assert named(brake.held(KEY)) == named([process])
    for _ in range(2):
        brake.free(KEY, world.init)
        assert brake.held(KEY) == ()


def test_nobody_elses_process_is_held(world, brake):
    """A pid that is another container's, or nobody's, is left alone."""
    other = world.hold_elsewhere()
    brake.hold(KEY, world.init, [other.pid, 2**22 - 1])
    assert brake.held(KEY) == ()


def test_a_held_process_still_holds_its_card_and_is_killed_by_the_probe(world, brake):
    """It is found where it was, and KILL lands at once."""
    process = world.hold()
    brake.hold(KEY, world.init, [process.pid])
    assert named(world.probe.holders([world.init], [CARD], still=False)[CARD.uuid].processes) == named([process])
    assert world.probe.signal(process, signal.SIGKILL)
    assert world.gone(process)
    assert brake.held(KEY) == ()


def test_who_was_killed_by_somebody_else_is_let_out_to_end(world, brake):
    """The next time that it is held: a frozen process does not end by itself, and keeps its container from stopping."""
    process = world.hold()
    brake.hold(KEY, world.init, [process.pid])
    world.killed(process)
    brake.hold(KEY, world.init, [])
    assert world.gone(process)
