"""What clocks and locks promise, asked of the real ones and of the fakes."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from datetime import UTC, timedelta

import pytest
from fakes.system import FakeClock, FakeLocks

from lxgpu.drivers.system import FileLocks, SystemClock
from lxgpu.errors import LxgpuError

HOLD = """
import sys, time
from pathlib import Path
from lxgpu.drivers.system import FileLocks
with FileLocks(Path(sys.argv[1])).hold(sys.argv[2], wait_s=1) as mine:
    print(mine, flush=True)
    time.sleep(100)
"""


@pytest.fixture(params=[SystemClock, FakeClock])
def clock(request):
    """Each clock."""
    return request.param()


def test_waiting_moves_both_clocks(clock):
    """After a sleep the time is later, by the wall clock and by the one that never jumps."""
    wall, steady = clock.now(), clock.monotonic()
    clock.sleep(0.02)
    assert clock.now() - wall >= timedelta(seconds=0.019)
    assert clock.monotonic() - steady >= 0.019


def test_time_is_in_utc(clock):
    """Whatever the zone of the machine, times are UTC."""
    assert clock.now().tzinfo is UTC


class FileWorld:
    """Real locks, and a real process that takes one."""

    def __init__(self, directory):
        self.directory = directory
        self.locks = FileLocks(directory)
        self.processes = []

    def taken_by_another(self, name):
        """Another process holds the lock from now on."""
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        argv = [sys.executable, "-c", HOLD, str(self.directory), name]
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=environment)
        self.processes.append(process)
        assert process.stdout.readline() == "True\n"

    def ended(self):
        """Those processes are killed."""
        while self.processes:
            process = self.processes.pop()
            process.kill()
            process.communicate()


class MemoryWorld:
    """Locks in memory."""

    def __init__(self):
        self.locks = FakeLocks(FakeClock())

    def taken_by_another(self, name):
        """Another process holds the lock from now on."""
        self.locks.others.add(name)

    def ended(self):
        """It has ended."""
        self.locks.others.clear()


@pytest.fixture(params=["real", "fake"])
def world(request, tmp_path):
    """Locks of each kind."""
    made = FileWorld(tmp_path / "locks") if request.param == "real" else MemoryWorld()
    yield made
    made.ended()


def test_a_free_lock_is_held_and_given_back(world):
    """Held inside the block, free after it, and after an error too."""
    with pytest.raises(ZeroDivisionError), world.locks.hold("alice", wait_s=0):
        raise ZeroDivisionError
    with world.locks.hold("alice", wait_s=0) as mine:
        assert mine


def test_a_lock_is_held_once(world):
    """Whoever comes second is told so, even within one process; other names are free."""
    with world.locks.hold("alice", wait_s=0) as first, world.locks.hold("alice", wait_s=0.05) as second:
        assert (first, second) == (True, False)
        with world.locks.hold("bob", wait_s=0) as third:
            assert third


def test_the_lock_of_another_process_is_not_taken_until_it_ends(world):
    """While the other runs it is refused; a killed process keeps nothing."""
    world.taken_by_another("alice")
    with world.locks.hold("alice", wait_s=0.05) as mine:
        assert not mine
    world.ended()
    with world.locks.hold("alice", wait_s=2) as mine:
        assert mine


def test_who_was_refused_does_not_give_back_the_others_lock(world):
    """A refusal leaves the lock where it is."""
    with world.locks.hold("alice", wait_s=0):
        with world.locks.hold("alice", wait_s=0):
            pass
        with world.locks.hold("alice", wait_s=0) as third:
            assert not third


def test_a_waiting_one_gets_it_as_soon_as_it_is_free(tmp_path):
    """Threads of one process wait for each other, and not for the whole time."""
    locks, order = FileLocks(tmp_path), []

    def second():
        with locks.hold("alice", wait_s=10) as mine:
            order.append(mine)

    with locks.hold("alice", wait_s=0):
        waiting = threading.Thread(target=second)
        waiting.start()
        time.sleep(0.1)
        assert not order
    started = time.monotonic()
    waiting.join()
    assert order == [True]
    assert time.monotonic() - started < 10


def test_a_lock_of_a_name_that_comes_once_leaves_nothing(tmp_path):
    """Its file goes with its holder, not with one who was refused; what another waits for stays a lock of its own."""
    locks = FileLocks(tmp_path)
    with locks.hold("run", wait_s=0, once=True) as mine:
        with locks.hold("run", wait_s=0, once=True) as second:
            assert (mine, second) == (True, False)
        assert list(tmp_path.iterdir())
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("names", [("a/b", "a_2f_b"), ("..", "."), ("a b", "a_b"), ("ä", "a")])
def test_every_name_has_a_file_of_its_own_in_the_directory(names, tmp_path):
    """No name leads out of the directory, and no two share a lock."""
    locks = FileLocks(tmp_path / "locks")
    with locks.hold(names[0], wait_s=0) as first, locks.hold(names[1], wait_s=0) as second:
        assert first
        assert second
        assert len(list((tmp_path / "locks").iterdir())) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["locks"]


def test_a_link_in_place_of_a_lock_is_refused(tmp_path):
    """A lock's file is never somebody else's: a link laid there is not followed."""
    (tmp_path / "alice.lock").symlink_to("/etc/hostname")
    with pytest.raises(LxgpuError) as refused, FileLocks(tmp_path).hold("alice", wait_s=0):
        pass
    assert "symbolic links" in " ".join((refused.value.brief, *refused.value.why))
