"""kill -9 of the real lxgpu and of the real LXD at any moment: the next command converges, nothing is lost or twice."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator

import pytest
from house import House, house_for
from leftovers import trials_left

from lxgpu.lab import Lab, LabSpec, up
from lxgpu.lab.jobs import JobSpec, start_job

pytestmark = pytest.mark.lab

SEED = 20270501
ROUNDS = 2


@pytest.fixture(scope="module")
def house(lab: Lab) -> Iterator[House]:
    """Bob holds one card throughout; the template is there."""
    for house in house_for(lab):
        house.ok("create", "bob", "--gpus", "1")
        yield house


def killed(house: House, after_s: float, *words: str) -> bool:
    """Start a command and kill it at a moment; whether it was still running then."""
    process = house.start(*words)
    try:
        process.wait(timeout=after_s)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
    process.communicate()
    return process.returncode == -signal.SIGKILL


def converge(house: House) -> None:
    """Any next change; it ends what was begun, and all is as it should be."""
    card = house.lab.gpus[0].uuid
    house.ok("gpu", "open", card)
    house.settled()
    assert house.cards_of("bob"), "bob's card was not anybody's to take"


def moments(rng: random.Random, whole_s: float) -> list[float]:
    """One moment in each part of a command, so that none is left out."""
    return [whole_s * (part + rng.random()) / ROUNDS for part in range(ROUNDS)]


def timed(do: Callable[[], object]) -> float:
    """How long something takes."""
    start = time.monotonic()
    do()
    return time.monotonic() - start


def test_lxgpu_killed(house: House) -> None:
    """Create, attach, release and delete, each killed at moments over its whole length: what follows is whole."""
    rng = random.Random(SEED)  # noqa: S311 -- moments, no secrets
    whole = {
        "create": timed(lambda: house.ok("create", "zoe", "--gpus", "1")),
        "attach": timed(lambda: house.ok("attach", "zoe", "--gpus", "+1")),
    }
    start_job(house.lab, JobSpec(instance="zoe", ignore_term=True))
    whole["release"] = timed(lambda: house.ok("release", "zoe", "--all", "--yes"))
    whole["delete"] = timed(lambda: house.ok("delete", "zoe", "--purge", "--yes"))
    plan = {kind: moments(rng, whole_s) for kind, whole_s in whole.items()}
    hits = 0
    for turn in range(ROUNDS):
        hits += killed(house, plan["create"][turn], "create", "zoe", "--gpus", "1")
        converge(house)
        house.ok("create", "zoe", "--gpus", "1", "--if-not-exists")
        house.ok("attach", "zoe", "--gpus", "1")
        hits += killed(house, plan["attach"][turn], "attach", "zoe", "--gpus", "2")
        converge(house)
        start_job(house.lab, JobSpec(instance="zoe", ignore_term=True))
        hits += killed(house, plan["release"][turn], "release", "zoe", "--all", "--yes")
        converge(house)
        hits += killed(house, plan["delete"][turn], "delete", "zoe", "--purge", "--yes")
        converge(house)
        if "zoe" in house.instances():
            house.ok("delete", "zoe", "--purge", "--yes")
        house.settled()
    assert hits >= ROUNDS * len(plan) // 2, "most commands had ended before they were killed"
    left = trials_left()
    house.ok("create", "zoe", "--gpus", "1")
    assert not set(left) & set(trials_left()), "what a killed trial left in /dev is swept by the next one"
    house.ok("delete", "zoe", "--purge", "--yes")


def test_killed_twice(house: House) -> None:
    """Killed, and the command that would end it killed as well: the third one does."""
    rng = random.Random(SEED + 1)  # noqa: S311
    house.ok("create", "yan")
    whole = timed(lambda: house.ok("attach", "yan", "--gpus", "1"))
    killed(house, whole * rng.uniform(0.4, 0.9), "release", "yan", "--all")
    killed(house, whole * rng.uniform(0.3, 0.9), "gpu", "open", house.lab.gpus[0].uuid)
    killed(house, whole * rng.uniform(0.3, 0.9), "delete", "yan", "--purge", "--yes")
    converge(house)
    if "yan" in house.instances():
        house.ok("delete", "yan", "--purge", "--yes")
    house.settled()


@pytest.mark.parametrize(
    ("command", "step", "later_s"),
    [
        ("create", "container and home volume", 0.1),
        ("create", "starting", 0.15),
        ("attach", "attaching", 0.02),
        ("attach", "attaching", 0.05),
    ],
)
def test_lxd_killed(house: House, command: str, step: str, later_s: float) -> None:
    """LXD killed in the middle of a command and started again: done or undone in the end, and every card is whole."""
    if command == "attach":
        house.ok("create", "zoe")
    process = house.start(command, "zoe", "--gpus", "1")
    assert process.stderr is not None
    assert any(step in line for line in process.stderr), "the step is not told any more"
    time.sleep(later_s)
    os.kill(house.daemon(), signal.SIGKILL)
    _, err = process.communicate(timeout=100)
    up(LabSpec(name=house.lab.name))
    assert process.returncode in {0, 6, 8, 9}, err
    if process.returncode:
        assert "error[" in err
    converge(house)
    if command == "create":
        house.ok("create", "zoe", "--gpus", "1", "--if-not-exists")
    else:
        house.ok("attach", "zoe", "--gpus", "1")
    house.settled()
    assert len(house.cards_of("zoe")) == 1
    house.ok("delete", "zoe", "--purge", "--yes")
    house.settled()
