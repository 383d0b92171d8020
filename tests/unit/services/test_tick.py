"""Reserve, take back, give back: what the tick makes of it, on a whole site of fakes."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import pytest
from dealings import FENCE, GRACE, TERM_WAIT, events, go_on, held, two_at_work, wish, work

from lxgpu.model.assignment import AssignmentState
from lxgpu.model.plan import Verdict
from lxgpu.model.reservation import Kind, ReservationState
from lxgpu.services.reserve import cancel, plan_reserve, reserve
from lxgpu.services.tick import tick


@pytest.fixture
def site(tmp_path):
    """Two cards, which alice holds at low class and works on; bob has none."""
    return two_at_work(tmp_path)


def test_a_reservation_takes_from_a_lower_class_after_warning_and_grace(site):
    """Bob in class normal waits, alice in class low yields."""
    plan = plan_reserve(site, wish()).plan
    assert plan.decision is Verdict.AFTER_PREEMPTION
    assert plan.victims == ("alice",)
    booked = reserve(site, wish())
    assert [row.state for row in booked.reservations] == [ReservationState.PREPARING]
    assert held(site, "alice") == ["warned", "warned"]
    assert held(site, "bob") == []
    go_on(site, GRACE + TERM_WAIT + FENCE)
    assert held(site, "bob") == ["active", "active"]
    assert held(site, "alice") == []
    row = site.inventory.read().reservation(booked.reservations[0].id)
    assert row.state is ReservationState.ACTIVE
    assert row.kind is Kind.BOOKING


def test_the_displaced_get_the_same_cards_back_when_the_booking_is_over(site):
    """A claim needs nobody's command."""
    before = {row.slot for row in site.inventory.read().held_by("alice")}
    reserve(site, wish(seconds=60))
    go_on(site, 12)
    assert held(site, "bob") == ["active", "active"]
    work(site, "bob", site.engine.cards[0])
    go_on(site, 80)
    assert {row.slot for row in site.inventory.read().held_by("alice")} == before
    assert held(site, "bob") == []
    assert [event.subject for event in events(site, "returned")] == ["alice"]


def test_nothing_is_taken_before_the_grace_is_over(site):
    """And the warning was tried."""
    reserve(site, wish())
    go_on(site, GRACE - 1)
    assert held(site, "alice") == ["warned", "warned"]
    assert not events(site, "releasing")
    assert [event.subject for event in events(site, "told")].count("alice") >= 1


def test_cancelled_in_the_grace_nothing_is_left_of_it(site):
    """No promise, no warning, now or later."""
    booked = reserve(site, wish())
    cancel(site, booked.reservations[0].id)
    assert held(site, "alice") == ["active", "active"]
    assert not [row for row in site.inventory.read().assignments if row.state is AssignmentState.PLANNED]
    go_on(site, 20)
    assert held(site, "alice") == ["active", "active"]


def test_what_cannot_be_met_takes_nothing_from_anybody(site):
    """All or nothing."""
    plan = reserve(site, wish(gpus=3)).plan
    assert plan.decision is Verdict.WAITING
    go_on(site, 20)
    assert held(site, "alice") == ["active", "active"]
    assert not events(site, "warned")


def test_a_booking_ahead_begins_at_its_time(site):
    """Warned in time, and no sooner."""
    start = site.clock.now() + timedelta(seconds=60)
    booked = reserve(site, wish(at=start, seconds=100))
    assert booked.reservations[0].state is ReservationState.SCHEDULED
    go_on(site, 40)
    assert held(site, "alice") == ["active", "active"]
    go_on(site, 21)
    assert held(site, "bob") == ["active", "active"]
    assert events(site, "started")[0].at - start <= timedelta(seconds=2)
    warned = events(site, "warned")[0].at
    assert start - warned <= timedelta(seconds=GRACE + TERM_WAIT + FENCE + 1)


def test_a_booking_that_nobody_uses_frees_its_cards(site):
    """And whoever was displaced for it has them again."""
    reserve(site, wish(seconds=3600))
    go_on(site, 12)
    assert held(site, "bob") == ["active", "active"]
    go_on(site, 30)
    assert [event.subject for event in events(site, "missed")] == ["bob"]
    assert held(site, "alice") == ["active", "active"]


def test_a_slow_tick_shows_signs_of_life(site):
    """Where each look at LXD takes long, the watchdog still hears of it within its time."""
    signs, look = [site.clock.monotonic()], site.engine.instances

    def slow(**how):
        site.clock.sleep(40)
        return look(**how)

    site.engine.instances = slow
    alive = replace(site, alive=lambda: signs.append(site.clock.monotonic()))
    reserve(alive, wish(), begin=False)
    tick(alive)
    signs.append(site.clock.monotonic())
    assert signs[-1] - signs[0] >= 300, "one tick takes longer than the watchdog waits"
    assert max(later - sooner for sooner, later in pairwise(signs)) <= 100
