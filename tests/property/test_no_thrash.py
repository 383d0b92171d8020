"""A day of random demand in virtual time: nobody is hit too often, no card flits from hand to hand, all turns come."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inline_pool import without_threads
from seeded_ids import seeded_ids
from taking_world import PEOPLE, POLICIES, A, World

from lxgpu.model.quota import Policy
from lxgpu.model.reservation import ReservationState
from lxgpu.model.rules import Allowance, PriorityClass

RUNS = int(os.environ.get("LXGPU_DAY_RUNS", "3"))
pytestmark = pytest.mark.timeout(1800)
DAY_S, LOOK_S = 86400, 600
CAP = Allowance(3, DAY_S)
RUNTIME_S = {"high": 1800, "normal": 1200, "low": 600}
Wish = tuple[int, str, str, int, int, str]
"""After how many seconds, what, who, how many cards, for how long, in which class."""
OPEN = {ReservationState.WAITING, ReservationState.SCHEDULED, ReservationState.PREPARING}


def day_policy() -> Policy:
    """Minutes instead of hours; everybody may ask in every class."""
    usual = POLICIES["usual"]
    classes = {
        name: PriorityClass(
            name,
            priority,
            who=("*",),
            min_runtime_s=RUNTIME_S[name],
            grace_s=60,
            term_wait_s=20,
            max_preemptions=CAP,
        )
        for name, priority in (("high", 80), ("normal", 50), ("low", 10))
    }
    bookings = replace(usual.rules.bookings, no_show_s=7200, give_up_after_s=900, bind_before_s=600, claim_life_s=14400)
    idle = replace(usual.rules.idle, window_s=3600)
    return replace(
        usual,
        classes=classes,
        defaults=replace(usual.defaults, lease_s=7200),
        rules=replace(usual.rules, bookings=bookings, idle=idle),
    )


demand = st.lists(
    st.tuples(
        st.integers(0, DAY_S - 1),
        st.sampled_from(("request", "request", "booking", "lease", "release")),
        st.sampled_from(PEOPLE),
        st.integers(1, 3),
        st.sampled_from((900, 1800, 3600, 7200)),
        st.sampled_from(sorted(RUNTIME_S)),
    ),
    min_size=10,
    max_size=60,
).map(sorted)


@pytest.fixture(autouse=True, scope="module")
def _one_after_another():
    """Without threads, and with ids from a seed, a run can be repeated."""
    with without_threads(), seeded_ids():
        yield


def act(world: World, wish: Wish) -> None:
    """One wish of somebody."""
    _, kind, who, gpus, seconds, chosen = wish
    if kind == "request":
        world.reserve(who, gpus, seconds, class_name=chosen)
    elif kind == "booking":
        world.reserve(who, gpus, seconds, ahead=3600, class_name=chosen)
    elif kind == "lease":
        world.attach(who, gpus, class_name=chosen)
    else:
        world.release(who, gpus)


def look(world: World) -> None:
    """A tick; everybody uses what they have."""
    world.tick()
    for name in PEOPLE:
        world.end_jobs(name)
        world.job(name)
    world.check()


def through_the_day(world: World, wishes: list[Wish], *, until: int) -> None:
    """A look every five minutes and whenever something is due or wished for."""
    begin = world.site.clock.now()
    left = list(wishes)
    while (gone := (world.site.clock.now() - begin).total_seconds()) < until:
        look(world)
        due = world.next.next_at if world.next else None
        steps = [LOOK_S, until - gone + 1]
        if due is not None:
            steps.append(max(1.0, (due - world.site.clock.now()).total_seconds()))
        if left:
            steps.append(max(0.0, left[0][0] - gone))
        world.sleep(min(steps))
        while left and left[0][0] <= (world.site.clock.now() - begin).total_seconds():
            act(world, left.pop(0))


@given(wishes=demand)
@settings(max_examples=RUNS, deadline=None)
def test_a_day_of_demand_thrashes_nobody(wishes) -> None:
    """Caps and minimum runtimes hold over a whole day, and every request that could be met has ended a day later."""
    world = World((A, A, A))
    world.policy = day_policy()
    through_the_day(world, wishes, until=DAY_S)
    hits = world.judge.hits
    often = Counter(who for who, _ in {(hit.owner, hit.cause) for hit in hits})
    assert all(number <= CAP.amount for number in often.values()), often
    assert all(hit.held_s >= RUNTIME_S[hit.class_name] for hit in hits), hits
    through_the_day(world, [], until=DAY_S)
    waiting = [row for row in world.judge.inner.read().reservations if row.state in OPEN]
    assert not waiting, waiting
