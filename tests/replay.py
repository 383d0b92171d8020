"""A few weeks of random deeds in a world under pressure, and some simulated days: what came of them, line by line."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable

from inline_pool import without_threads
from seeded_ids import seeded_ids
from taking_world import PEOPLE, A, B, World

from lxgpu.simulate.engine import play
from lxgpu.simulate.jobs import Lab
from lxgpu.simulate.rules.ours import ours
from lxgpu.simulate.synthetic import generate

WEEKS, DEEDS = 6, 40
CLASSES = ("", "urgent", "low", "fixed")
LENGTHS = (10, 120, 600)


def deeds(world: World, dice: random.Random) -> tuple[Callable[[], object], ...]:
    """What can be done next."""
    who, gpus, seconds = dice.choice(PEOPLE), dice.randint(1, 3), dice.choice(LENGTHS)
    chosen, open_ones = dice.choice(CLASSES), world.judge.inner.read().reservations
    return (
        lambda: world.reserve(who, gpus, seconds, class_name=chosen),
        lambda: world.reserve(who, gpus, seconds, ahead=dice.choice((2, 40, 300)), class_name=chosen),
        lambda: world.attach(who, gpus, class_name=chosen, lease_s=dice.choice((None, 20))),
        lambda: world.release(who, gpus),
        lambda: world.job(who, mood=dice.choice(("good", "deaf", "lazy"))),
        lambda: world.end_jobs(who),
        lambda: world.cancel(dice.choice(open_ones).id) if open_ones else None,
        lambda: world.edit(dice.choice(open_ones).id, gpus=gpus) if open_ones else None,
        lambda: world.jump(dice.choice((-3600, 60, 4000))),
    )


def week(seed: int) -> list[str]:
    """What history says at the end."""
    dice = random.Random(seed)  # noqa: S311 -- dice, no secrets
    world = World((A, A, B, B))
    for _ in range(DEEDS):
        dice.choice(deeds(world, dice))()
        world.sleep(dice.choice((0.5, 5, 60)))
        world.tick()
        world.check()
    events = world.judge.inner.events(limit=100_000)
    return [f"{one.at} {one.kind} {one.subject} {one.rule} {one.detail}" for one in reversed(events)]


def simulated() -> list[str]:
    """What happened to each job in some days of a made-up lab."""
    lab = Lab(2, 4)
    floor, rule = ours(generate("lab", lab, days=3, seed=3), lab, None)
    play(floor, rule)
    return [
        f"{job.id} {floor.first_start[at]} {floor.finish[at]} {floor.stops[at]}" for at, job in enumerate(floor.jobs)
    ]


if __name__ == "__main__":
    with without_threads(), seeded_ids():
        for number in range(WEEKS):
            sys.stdout.writelines(f"{line}\n" for line in week(number))
    sys.stdout.writelines(f"{line}\n" for line in simulated())
