"""Who a process is, and a signal that meets nobody else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from plain_instance import CGROUPS, wait_for

from lxgpu.drivers.processes import read_stat, send
from lxgpu.ports import Process


@pytest.mark.parametrize("name", ["a b", "a) R 1 2 3", "(((", "\x1b[2J", "tab\tnew\nline"])
def test_a_name_cannot_confuse_the_fields(name):
    """A process may call itself anything; its state, parent and start stay readable, its name printable."""
    rename = "import sys, time; open('/proc/self/comm', 'w').write(sys.argv[1]); print(flush=True); time.sleep(60)"
    child = subprocess.Popen([sys.executable, "-c", rename, name], stdout=subprocess.PIPE)
    try:
        child.stdout.readline()
        found = read_stat(child.pid)
        assert (found.parent, found.threads) == (os.getpid(), 1)
        assert found.start_time > 0
        assert found.command.isprintable()
    finally:
        child.kill()
        child.communicate()


def test_a_zombie_is_gone(cgroups):
    """What has ended and is only not yet waited for holds nothing and takes no signal."""
    child = subprocess.Popen(["true"])
    process = Process(pid=child.pid, start_time=read_stat(child.pid).start_time)
    assert wait_for(lambda: read_stat(child.pid).ended)
    assert not send(process, signal.SIGKILL, cgroups)
    child.wait()


def test_a_process_whose_first_thread_ended_is_not_gone(inside, cgroups, card):
    """It looks like a zombie, holds the card, and takes KILL."""
    process = inside.start("dead-leader", card)
    assert wait_for(lambda: read_stat(process.pid).state == "Z")
    assert not read_stat(process.pid).ended
    assert send(process, signal.SIGKILL, cgroups)
    assert inside.wait_gone(process)


@pytest.mark.parametrize("below", ["", "made-inside", "made-inside/deeper"])
def test_frozen_by_whomever_it_is_killed(below, inside, cgroups, card):
    """Version 1: frozen as a whole, or in a cgroup that root inside made; KILL lands and nothing is left behind."""
    process = inside.start("open", card, below=below)
    inside.freeze(below=below)
    assert send(process, signal.SIGKILL, cgroups)
    assert inside.wait_gone(process)
    assert not list((CGROUPS / "freezer").glob(f"lxgpu.kill-{process.pid}"))


def test_only_the_killed_one_leaves_the_frozen_container(inside, cgroups, card):
    """The rest of a frozen container stays frozen where it is."""
    victim, rest = inside.start("open", card), inside.start("nothing")
    inside.freeze()
    assert send(victim, signal.SIGKILL, cgroups)
    assert inside.wait_gone(victim)
    assert str(rest.pid) in (inside.place("freezer") / "cgroup.procs").read_text().split()
    assert (inside.place("freezer") / "freezer.state").read_text().strip() == "FROZEN"


def test_frozen_by_version_2_it_is_killed(inside, cgroups, card):
    """Version 2's own freezer (it works on a hybrid host, too) lets KILL through."""
    process = inside.start("open", card, below="made-inside")
    freeze = inside.place("unified") / "made-inside" / "cgroup.freeze"
    freeze.write_text("1")
    assert wait_for(lambda: "frozen 1" in freeze.with_name("cgroup.events").read_text())
    assert send(process, signal.SIGKILL, cgroups)
    assert inside.wait_gone(process)


def test_a_stopped_process_is_killed(inside, cgroups, card):
    """SIGSTOP does not save a holder."""
    process = inside.start("open", card)
    assert send(process, signal.SIGSTOP, cgroups)
    assert send(process, signal.SIGKILL, cgroups)
    assert inside.wait_gone(process)
