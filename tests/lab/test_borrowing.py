"""A card that its holder leaves idle on a real LXD: somebody else works on it, and never when the holder does."""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from house import House, house_for, until

from lxgpu.lab import Lab
from lxgpu.lab.jobs import Job, JobSpec, start_job
from lxgpu.lab.spec import Card

pytestmark = pytest.mark.lab

STOPS_S = 2.0
"""From the holder's first work until the borrower stands still."""
YIELD_END_S = 6
RULES = f"sharing: {{borrow: {{idle: 2s, reserve: 10%, yield_end: {YIELD_END_S}s}}}}"
COUNT = "i=0; echo $$ >/run/pid; exec 9<>{node}; while :; do i=$((i+1)); echo $i >/run/count; sleep 0.05; done"


@pytest.fixture(scope="module")
def house(lab: Lab) -> Iterator[House]:
    """Alice holds a card and lends it on, bob has a container, and a daemon is at work."""
    path = lab.paths.policy
    good = path.read_text()
    text = good.replace("scavenge: {priority: 10,", "scavenge: {priority: 10, borrow: true,")
    path.write_text(text.replace("{class: normal,", "{class: normal, lend_idle: true,") + RULES + "\n")
    for house in house_for(lab):
        house.ok("create", "alice", "--gpus", "1")
        house.ok("create", "bob")
        try:
            yield house
        finally:
            path.write_text(good)


@pytest.fixture
def daemon(house: House) -> Iterator[Any]:
    """A daemon; whatever a test did, nothing is borrowed after it, and LXD and the inventory agree."""
    process = house.start("daemon", "run")
    yield process
    if process.poll() is not None:  # the sentry that it left behind goes when another begins
        killed, process = process, house.start("daemon", "run")
        assert until(lambda: house.run("daemon", "status").status == 0)
        killed.communicate()
    house.sh("bob", "pkill -f /run/count", check=False)
    house.sh("alice", "pkill -x lxgpu-job", check=False)
    house.run("release", "bob", "--all", "--yes")
    found = house.run("inventory", "verify", "-o", "json")
    process.terminate()
    _, err = process.communicate(timeout=60)
    assert "Traceback" not in err, err
    assert (found.status, found.items) == (0, []), found.out + found.err
    assert not house.records().borrowings


def card(house: House) -> Card:
    """Alice's card."""
    (row,) = house.records().held_by("alice")
    return next(one for one in house.lab.gpus if one.uuid == row.slot.card)


def borrow(house: House) -> None:
    """Bob gets alice's card, as soon as it has been idle for long enough."""
    words = ("attach", "bob", "--gpus", "1", "--class", "scavenge", "--borrow")
    assert until(lambda: house.run(*words).status == 0, limit_s=40), house.run(*words).err


def counts(house: House) -> int:
    """A program of bob's that has the card open; its pid."""
    node = card(house).nodes[0].path
    house.sh("bob", f"setsid sh -c '{COUNT.format(node=node)}' </dev/null >/dev/null 2>&1 &")
    assert until(lambda: counted(house) > 2)
    return counted(house)


def counted(house: House) -> int:
    """How far bob's program has come."""
    try:
        return int(Path(f"/proc/{house.init('bob')}/root/run/count").read_text() or 0)
    except FileNotFoundError:
        return 0


def stands_still(house: House) -> bool:
    """Whether bob's program makes no step within four of its times."""
    before = counted(house)
    time.sleep(0.2)
    return counted(house) == before


def state(house: House) -> str:
    """How the borrowing stands; empty without one."""
    return next((row.state.value for row in house.records().borrowings), "")


def ends(job: Job) -> None:
    """The holder's work is over."""
    os.kill(job.pid, signal.SIGKILL)


def works(house: House) -> tuple[Job, float]:
    """Alice begins to work on her card; when that was."""
    job = start_job(house.lab, JobSpec(instance="alice", gpu=card(house).uuid))
    return job, time.monotonic()


def test_the_borrower_stops_when_the_holder_works_and_goes_on_afterwards(house: House, daemon: Any) -> None:
    """Within two seconds bob's program stands still and nothing of his opens the card; later it goes on."""
    del daemon
    borrow(house)
    counts(house)
    path = card(house).nodes[0].path
    assert house.opens("bob", path) == [0]
    for words in (("gpus", "-o", "wide"), ("why", card(house).uuid), ("show", "alice")):
        assert "lent on to bob while alice leaves it idle" in " ".join(house.ok(*words).out.split()), words
    assert "may stop at any moment" in house.ok("show", "bob").out
    job, began = works(house)
    assert until(lambda: stands_still(house), limit_s=10)
    took = time.monotonic() - began
    assert took <= STOPS_S
    assert house.opens("bob", path) == [errno.EPERM]
    assert house.opens("alice", path) == [0]
    assert until(lambda: state(house) == "stopped", limit_s=5)
    ends(job)
    assert until(lambda: not stands_still(house), limit_s=15)
    assert until(lambda: state(house) == "lent", limit_s=5)
    (stop,) = [
        row for row in house.ok("history", "--subject", "bob", "-o", "json").items if row["kind"] == "borrow_stopped"
    ]
    assert 0 < stop["detail"]["latency_s"] <= STOPS_S


def test_a_killed_sentry_and_a_freezer_left_help_nobody(house: House, daemon: Any) -> None:
    """Who goes on alone is stopped by the daemon, whom root lets out is killed, and a holder who stays is alone."""
    del daemon
    borrow(house)
    counts(house)
    os.kill(int((house.lab.paths.run / "sentry").read_text()), signal.SIGKILL)
    assert until(lambda: stands_still(house), limit_s=5)
    assert until(lambda: not stands_still(house), limit_s=20)
    works(house)
    assert until(lambda: stands_still(house), limit_s=5)
    house.sh("bob", "cat /run/pid >/sys/fs/cgroup/freezer/cgroup.procs")
    assert until(lambda: house.sh("bob", "kill -0 $(cat /run/pid) 2>/dev/null || echo gone") == "gone", limit_s=5)
    assert until(lambda: not state(house), limit_s=YIELD_END_S + 10)
    assert house.opens("bob", card(house).nodes[0].path) == [errno.ENOENT]
    assert house.opens("alice", card(house).nodes[0].path) == [0]


def test_a_killed_daemon_leaves_the_holder_safe(house: House, daemon: Any) -> None:
    """Kill -9 of the daemon: within ten seconds the borrower stands still, and his container is none the worse."""
    borrow(house)
    counts(house)
    daemon.kill()
    daemon.wait()
    began = time.monotonic()
    assert until(lambda: stands_still(house), limit_s=15)
    took = time.monotonic() - began
    assert took <= 10
    house.ok("restart", "bob", "--yes")
    assert not state(house)
    assert house.opens("bob", card(house).nodes[0].path) == [errno.ENOENT]
