"""Faults that the machine of tests/property/test_taking_machine.py found, each as a short story."""

from __future__ import annotations

from datetime import timedelta

import pytest
from fakes.faults import Fault
from inline_pool import without_threads
from taking_world import POLICIES, A, B, World

from lxgpu.model.assignment import AssignmentState
from lxgpu.policy.placement import matching
from lxgpu.services import lending


@pytest.fixture(autouse=True)
def _one_after_another():
    """Every story goes the same way each time."""
    with without_threads():
        yield


def go_on(world: World, seconds: float, *, step: float = 1.0) -> None:
    """Time passes, with a tick at each step."""
    passed = 0.0
    while passed < seconds:
        world.sleep(step)
        passed += step
        world.tick()
        world.check()


def jobs_apart(world: World, name: str) -> None:
    """A program of its own on each of somebody's cards."""
    for uuid in sorted(world.cards_of(name)):
        world.site.probe.run(world.site.engine.init(name), world.card(uuid).nodes)


def held(world: World, name: str) -> list[str]:
    """The states of what somebody holds, by slot."""
    rows = world.judge.inner.read().held_by(name)
    return [row.state.value for row in sorted(rows, key=lambda row: row.slot)]


def states(world: World, name: str) -> list[str]:
    """The states of somebody's open reservations, oldest first."""
    rows = [row for row in world.judge.inner.read().reservations if row.instance == name]
    return [f"{row.kind.value} {row.state.value}" for row in rows]


def events(world: World, kind: str) -> list[str]:
    """Whom events of a kind were about, oldest first."""
    return [event.subject for event in reversed(world.judge.inner.events()) if event.kind == kind]


def test_a_model_that_is_the_beginning_of_another_ones_name_means_itself_alone() -> None:
    """Who asks for a 3090 is not given a 3090 Ti, of which there are more."""
    assert matching([A, B], A) == {A}
    assert matching([A, B], "3090") == {A, B}
    world = World((A, B, B))
    world.reserve("bob", 1, 60, model=A)
    world.check()
    assert [world.card(uuid).model for uuid in world.cards_of("bob")] == [A]


def test_cards_of_two_models_make_no_booking_of_one() -> None:
    """A booking counts on one model; only cards of that are adopted."""
    world = World((B, A, A))
    world.attach("carol", 3)
    world.reserve("carol", 2, 60)
    rows = [row for row in world.judge.inner.read().reservations if row.state.value == "active"]
    assert [(row.gpus, row.pool) for row in rows] == [(2, A)]


def test_a_lease_that_becomes_a_booking_needs_room_as_well() -> None:
    """Two of three cards are booked from soon on: who holds one of them cannot have two for longer."""
    world = World((A, A, A))
    assert world.reserve("bob", 2, 120, ahead=40) is not None
    world.attach("alice", 1)
    world.reserve("alice", 2, 600)
    world.check()
    assert states(world, "alice") == ["request waiting"]


def test_a_request_begins_no_sooner_than_there_is_room_for_it() -> None:
    """Idle cards come sooner than others; those that their holder has booked for then are not taken for it."""
    world = World((A, A, B, B))
    world.attach("bob", 2)
    world.reserve("alice", 2, 600, model=A)
    assert world.reserve("bob", 1, 10, ahead=300, model=A) is not None
    world.settle()


def test_who_asks_for_more_than_there_is_stands_in_nobodys_way() -> None:
    """What is free goes to the next one in the queue."""
    world = World((A, A, B))
    world.reserve("alice", 3, 10)
    world.reserve("bob", 3, 40, model=B)
    world.reserve("bob", 2, 10, model=A)
    go_on(world, 10)
    assert states(world, "alice") == ["request waiting"]
    assert events(world, "started") == ["bob"]


def test_an_admins_word_waives_the_grace_and_not_the_minimum_runtime() -> None:
    """What was attached two seconds ago runs on until its time is over."""
    world = World((A, A, A))
    world.attach("carol", 3)
    go_on(world, 2)
    assert world.reserve("bob", 1, 40, no_warning="deadline") is not None
    assert held(world, "bob") == []
    go_on(world, 8)
    assert held(world, "bob") == ["active"]


def test_what_expires_stays_until_the_wall_says_so() -> None:
    """The clock is set back by an hour between the warning and the end of a lease."""
    world = World((A, A, B))
    world.reserve("carol", 1, 10, ahead=40)
    world.sleep(20)
    world.tick()
    go_on(world, 30, step=5)
    world.reserve("bob", 2, 10)
    assert "warned" in held(world, "carol")
    world.jump(-3600)
    go_on(world, 30)
    assert events(world, "displaced") == []


def test_an_attach_that_failed_costs_nobody_else_a_card() -> None:
    """The card that came back is given again; the second victim keeps theirs."""
    world = World((A, A, A))
    world.attach("carol", 3, class_name="low")
    world.job("carol", mood="slow")
    before = world.site.engine.writes
    world.site.engine.inject(Fault.DOWN, write=before + 4)
    world.reserve("bob", 1, 25, no_warning="deadline")
    go_on(world, 10)
    assert held(world, "bob") == ["active"]
    assert events(world, "displaced") == ["carol"]


def test_a_card_that_comes_free_in_the_grace_spares_the_victim() -> None:
    """Nobody yields while as many cards lie free."""
    world = World((A, A, A))
    world.attach("alice", 1)
    world.attach("carol", 2, class_name="low")
    world.job("carol")
    world.reserve("bob", 1, 60)
    assert held(world, "carol") == ["warned", "active"]
    world.release("alice", None)
    go_on(world, 5)
    assert held(world, "carol") == ["active", "active"]
    assert held(world, "bob") == ["active"]
    assert events(world, "unwarned") == ["carol"]


def test_cards_given_back_in_the_grace_do_not_break_the_guarantee() -> None:
    """Two of three may go when the warning is given; when the third is given back meanwhile, only one may."""
    world = World((A, A, A))
    world.attach("bob", 3, class_name="low")
    jobs_apart(world, "bob")
    world.reserve("alice", 2, 60)
    assert sorted(held(world, "bob")) == ["active", "warned", "warned"]
    free = next(row.slot.gpu for row in world.judge.inner.read().held_by("bob") if row.state.value == "active")
    world.service(free, closed=True)
    world.do(lambda site: lending.release(site, "bob", count=None, uuids=(free,), busy=True), by="bob")
    go_on(world, 10)
    assert "active" in held(world, "bob")


def test_who_is_over_the_limit_no_more_does_not_go_without_a_claim() -> None:
    """Another rule is another warning, with another grace, and what is taken by it comes back."""
    world = World((A, A))
    world.attach("carol", 2, class_name="low")
    jobs_apart(world, "carol")
    world.policy = POLICIES["tight"]
    world.reserve("bob", 1, 20)
    assert "warned" in held(world, "carol")
    world.policy = POLICIES["usual"]
    go_on(world, 10)
    assert events(world, "unwarned") == ["carol"]
    go_on(world, 60)
    assert held(world, "carol") == ["active", "active"]


def test_nobody_is_warned_for_a_start_that_is_given_up_now() -> None:
    """The daemon was away when a booking was to begin, and comes back long after."""
    world = World((A, A, B))
    world.reserve("carol", 1, 40)
    assert world.reserve("bob", 2, 120, ahead=40) is not None
    world.sleep(86400)
    world.tick()
    assert events(world, "failed") == ["bob"]
    assert events(world, "warned") == []


def test_a_booking_that_rests_on_a_lease_keeps_its_time_though_the_card_is_idle() -> None:
    """The lease lasts longer than the booking; whoever waits has the card when the booking is over, and no sooner."""
    world = World((A, A, A))
    world.attach("alice", 1)
    go_on(world, 8)
    world.reserve("alice", 2, 10, model="3090")
    begun = world.site.clock.now()
    go_on(world, 3)
    world.reserve("bob", 3, 40, model="3090")
    while (world.site.clock.now() - begun).total_seconds() < 10:
        assert "releasing" not in held(world, "alice")
        go_on(world, 1)
    go_on(world, 10)
    assert len(held(world, "bob")) == 3
    assert "alice" in events(world, "displaced")


def test_a_claim_takes_nothing_of_a_booking_whose_cards_have_just_come() -> None:
    """A booking that begins late has its whole time; nobody is warned by the time that was thought before."""
    world = World((A, A, A))
    world.attach("carol", 3, class_name="low")
    world.job("carol", mood="slow")
    world.reserve("bob", 2, 10)
    world.sleep(25)
    world.tick()
    world.sleep(1)
    world.tick()
    rows = world.judge.inner.read().held_by("bob")
    assert [row.state.value for row in rows] == ["warned", "warned"]
    assert all(row.due_at == row.until for row in rows)
    world.check()


def test_a_lease_that_a_booking_counts_on_is_taken_over_once_and_by_nobody_else() -> None:
    """After a long silence two requests of its holder and one of somebody else find the same lease over."""
    world = World((A, A, B))
    world.reserve("alice", 1, 120)
    world.reserve("alice", 1, 40, model=A)
    world.reserve("alice", 1, 10, model=A)
    world.reserve("carol", 2, 10)
    world.settle()


def test_nobody_yields_for_a_start_that_is_given_up() -> None:
    """The daemon was away: grace is over, and so is the time to wait for the start."""
    world = World((A, A, A))
    world.attach("bob", 2)
    world.reserve("alice", 2, 10, ahead=40)
    world.sleep(90)
    world.tick()
    assert sum(row.state is AssignmentState.WARNED for row in world.judge.inner.read().assignments) == 1
    world.sleep(20)
    world.tick()
    world.check()
    held = [(row.instance, row.state) for row in world.judge.inner.read().assignments]
    assert held == [("bob", AssignmentState.ACTIVE)] * 2
    assert not world.judge.inner.read().reservations


def test_what_is_got_ready_when_the_clock_is_set_back_waits_for_its_time() -> None:
    """A booking of eight begins at eight, also when it is six again; its cards stay promised to it."""
    world = World((A, A, A))
    world.reserve("alice", 2, 10, ahead=2)
    for _ in range(2):
        world.sleep(0.5)
        world.tick(paused=True)
        assert states(world, "alice") == ["booking preparing"]
        world.jump(-3600)
    (booked,) = world.judge.inner.read().reservations
    world.settle()
    (begun,) = [event for event in world.judge.inner.events() if event.kind == "started"]
    assert booked.start <= begun.at < booked.start + timedelta(seconds=5)
    assert held(world, "alice") == ["active", "active"]
