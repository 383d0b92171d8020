"""kill -9 in the middle of reserve, warn, release, attach and return: the ticks that follow come to the same end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from fakes.faults import Fault, KilledError, When
from inline_pool import without_threads
from taking_world import A, World

from lxgpu.model.reservation import Kind

ROUNDS = 60
STEP_S = 2.0
MOST_WRITES = 200


@pytest.fixture(autouse=True)
def _one_after_another():
    """Which write is the n-th must not depend on threads."""
    with without_threads():
        yield


@dataclass(frozen=True)
class Story:
    """What is there before, and what is then asked for."""

    before: Callable[[World], object]
    act: Callable[[World], object]


def carol_works(world: World) -> None:
    """Carol has all three cards in class low, and works on them."""
    world.attach("carol", 3, class_name="low")
    world.job("carol", mood="slow")


def carol_works_deaf(world: World) -> None:
    """The same, with a program that ignores TERM and comes back after KILL."""
    world.attach("carol", 3, class_name="low")
    world.job("carol", mood="deaf")
    world.job("carol", mood="phoenix")


STORIES = {
    "take and give back": Story(carol_works, lambda world: world.reserve("bob", 2, 30)),
    "from who resists": Story(carol_works_deaf, lambda world: world.reserve("bob", 2, 30)),
    "booked ahead": Story(carol_works, lambda world: world.reserve("alice", 3, 25, ahead=20)),
    "without a warning": Story(carol_works, lambda world: world.reserve("bob", 1, 25, no_warning="deadline")),
}


def go_on(world: World, rounds: int = ROUNDS) -> None:
    """The daemon at work, until nothing is left to come."""
    for _ in range(rounds):
        world.sleep(STEP_S)
        world.tick()
        world.check()
        if not world.restless():
            return


def outcome(world: World) -> dict[str, object]:
    """What must be the same in the end: who holds what, what became of each reservation, what LXD shows."""
    records = world.judge.inner.read()
    closed = world.judge.inner.reservations_since(world.site.clock.now().replace(year=2000))
    return {
        "held": sorted((row.instance, row.state.value) for row in records.assignments),
        "reservations": sorted((row.kind.value, row.instance, row.gpus, row.state.value) for row in closed),
        "attached": {name: len(world.cards_of(name)) for name in ("alice", "bob", "carol")},
        "left": world.restless(),
    }


def told_through(story: Story, doom: Callable[[World], object]) -> tuple[World, bool]:
    """The story with one death in it; whether that came at all."""
    world = World((A, A, A))
    story.before(world)
    doom(world)
    story.act(world)
    if not world.judge.inner.reservations_since(world.site.clock.now().replace(year=2000)):
        story.act(world)  # killed before anything was written: the person asks once more
    go_on(world)
    return world, world.dead > 0


def uninterrupted(story: Story) -> dict[str, object]:
    """The same end is wanted whatever happens; and it is one in which somebody had to yield and was given back."""
    world, died = told_through(story, lambda _world: None)
    found = outcome(world)
    kinds = {row.kind for row in world.judge.inner.reservations_since(world.site.clock.now().replace(year=2000))}
    assert not died
    assert kinds == {Kind.BOOKING, Kind.RETURN}, "nobody was displaced"
    assert found["left"] == []
    assert found["held"] == [("carol", "active")] * 3
    return found


@pytest.mark.parametrize("name", STORIES)
@pytest.mark.parametrize("when", [When.BEFORE, When.AFTER])
def test_killed_at_any_write_to_the_inventory_while_cards_change_hands(name: str, when: When) -> None:
    """Before or after each commit of the whole story."""
    story = STORIES[name]
    end = uninterrupted(story)
    for number in range(1, MOST_WRITES):
        world, died = told_through(story, lambda world, number=number: world.mortal.doom(number, when))
        assert outcome(world) == end, f"killed {when} write {number}"
        if not died:
            assert number > 20, "it was hardly ever killed"
            return
    pytest.fail("the story does not end")


@pytest.mark.parametrize("name", STORIES)
@pytest.mark.parametrize("when", list(When))
def test_killed_at_any_write_to_lxd_while_cards_change_hands(name: str, when: When) -> None:
    """Before, after, or with the write still on its way."""
    story = STORIES[name]
    end = uninterrupted(story)
    for number in range(1, MOST_WRITES):

        def doom(world: World, number: int = number) -> None:
            world.site.engine.kill(when, write=world.site.engine.writes + number)

        world, died = told_through(story, doom)
        assert outcome(world) == end, f"killed {when} write {number}"
        if not died:
            assert number > 5, "it was hardly ever killed"
            return
    pytest.fail("the story does not end")


@pytest.mark.parametrize("name", STORIES)
@pytest.mark.parametrize("fault", [fault for fault in Fault if fault is not Fault.HALF])
def test_one_fault_of_lxd_while_cards_change_hands(name: str, fault: Fault) -> None:
    """Errors, lost answers, late writes, stale ETags, LXD away: the end is the same."""
    story = STORIES[name]
    end = uninterrupted(story)
    for number in range(1, MOST_WRITES):
        world = World((A, A, A))
        story.before(world)
        before = world.site.engine.writes
        world.site.engine.inject(fault, write=before + number)
        story.act(world)
        go_on(world)
        assert outcome(world) == end, f"{fault} at write {number}"
        if world.site.engine.writes - before < number:
            return
    pytest.fail("the story does not end")


@pytest.mark.parametrize("when", [When.BEFORE, When.AFTER])
def test_killed_at_any_write_while_cards_go_back_that_could_not_be_attached(when: When) -> None:
    """LXD refuses them; no card stays behind, held by nobody's operation."""
    for number in range(1, MOST_WRITES):
        world = World((A, A, A))
        for _ in range(2):
            world.site.engine.inject(Fault.ERROR, call="update")
        world.mortal.doom(number, when)
        world.attach("bob", 2)
        go_on(world)
        assert world.restless() == [], f"killed {when} write {number}"
        if not world.dead:
            ends = {row.outcome for row in world.judge.inner.closed_since(world.site.clock.now().replace(year=2000))}
            assert ends == {"failed"}, "the attach did not fail"
            return
    pytest.fail("the story does not end")


def test_the_process_that_dies_really_dies() -> None:
    """A killed command leaves through no `except` of ours."""
    world = World((A, A, A))
    world.mortal.doom(1, When.AFTER)
    with pytest.raises(KilledError), world.mortal.write(actor="root", now=world.site.clock.now()):
        pass
