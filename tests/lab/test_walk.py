"""Two hundred random steps on a real LXD: whatever people do in whatever order, nobody holds a card twice."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress

import pytest
from house import House, house_for, until

from lxgpu.errors import Exit, LxgpuError
from lxgpu.lab import Lab
from lxgpu.lab.jobs import JobSpec, start_job

pytestmark = [pytest.mark.lab, pytest.mark.timeout(1800)]  # the steps took five minutes on a busy machine

STEPS = 200
PEOPLE = ("alice", "bob", "carol")
CLASSES = ("scavenge", "normal", "urgent")
REFUSALS = {Exit.OK, Exit.NOT_FOUND, Exit.REFUSED, Exit.CONFLICT, Exit.NO_CAPACITY}
"""How a command may end that cannot have what it asks; a fault, a time-out or a bad usage is none of these."""
SEED = int(os.environ.get("LXGPU_TEST_SEED", "20270301"))


@pytest.fixture(scope="module")
def house(lab: Lab) -> Iterator[House]:
    """Three people with containers, and four cards."""
    for house in house_for(lab):
        for name in PEOPLE:
            house.ok("create", name)
        yield house


def step(house: House, dice: random.Random) -> str:
    """One thing that somebody does; how it ended."""
    name, count, chosen = dice.choice(PEOPLE), dice.choice("1123"), dice.choice(CLASSES)
    length = dice.choice(("3s", "8s", "1h"))
    kind = dice.choices(
        ("reserve", "ahead", "attach", "release", "cancel", "job", "stop", "start", "tick", "killed"),
        weights=(4, 2, 3, 3, 2, 3, 1, 2, 6, 1),
    )[0]
    words = {
        "reserve": ("reserve", name, "--gpus", count, "--for", length, "--class", chosen),
        "ahead": ("reserve", name, "--gpus", count, "--for", length, "--at", "+5s"),
        "attach": ("attach", name, "--gpus", f"+{count}", "--class", chosen),
        "release": ("release", name, "--all", "--yes"),
        "stop": ("stop", name, "--yes"),
        "start": ("start", name),
        "tick": ("daemon", "run", "--once"),
    }.get(kind)
    if words is not None:
        ran = house.run(*words)
        assert ran.status in REFUSALS, f"{' '.join(words)}: {ran.status}\n{ran.err}"
    elif kind == "cancel":
        for row in house.records().reservations[:1]:
            house.run("reservation", "cancel", row.id, "--yes")
    elif kind == "killed":
        process = house.start("daemon", "run", "--once")
        until(lambda: process.poll() is not None, limit_s=dice.random())
        process.kill()
        process.communicate()
    else:
        _work(house, name, dice)
    return kind


def _work(house: House, name: str, dice: random.Random) -> None:
    spec = JobSpec(instance=name, ignore_term=dice.random() < 0.3, respawn=dice.random() < 0.3)
    with suppress(LxgpuError):  # it has no card just now, or loses it
        start_job(house.lab, spec)


def nobody_twice(house: House) -> None:
    """LXD shows each card at one container at most, and never one that the inventory gives to another."""
    attached, records = house.attached(), house.records()
    assert all(len(names) == 1 for names in attached.values()), attached
    for card in house.lab.gpus:
        names = attached.get(card.pci, [])
        holders = {row.instance for row in records.assignments if row.live and row.slot.gpu == card.uuid}
        assert len(holders) <= 1
        assert not holders or not names or set(names) == holders, (card.uuid, names, holders)


def test_two_hundred_random_steps(house: House) -> None:
    """And in the end everything that was begun ends, and everybody can have a card again."""
    dice, done = random.Random(SEED), Counter[str]()  # noqa: S311 -- dice, no secrets
    for _ in range(STEPS):
        done[step(house, dice)] += 1
        nobody_twice(house)
    assert len(done) >= 8, done
    assert until(lambda: at_rest(house), limit_s=120), (house.records().assignments, house.records().operations)
    house.settled()


def at_rest(house: House) -> bool:
    """Everybody gives everything back; whether nothing is open any more."""
    for row in house.records().reservations:
        house.run("reservation", "cancel", row.id, "--yes")
    for name in {row.instance for row in house.records().assignments}:
        house.run("start", name)
        house.run("release", name, "--all", "--yes")
    house.ok("daemon", "run", "--once")
    records = house.records()
    stuck = [row.slot.gpu for row in records.slots if row.quarantine]
    for uuid in stuck:
        house.run("gpu", "open", uuid)
    return not (stuck or records.assignments or any(row.live for row in records.operations))
