"""What people are told holds: grace, what calls a warning off, pauses, no-shows, and whose time a card is."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from dealings import GRACE, events, go_on, held, policy, two_at_work, wish, work
from fakes.site import newcomer

from lxgpu.errors import LxgpuError
from lxgpu.model.assignment import AssignmentState
from lxgpu.model.plan import Verdict
from lxgpu.model.reservation import ReservationState
from lxgpu.model.rules import Allowance, PriorityClass
from lxgpu.policy.fairness import looks_back_s
from lxgpu.services import explain, looking, notices
from lxgpu.services.cards import card_views
from lxgpu.services.lending import release
from lxgpu.services.reserve import cancel, edit, reserve
from lxgpu.services.tick import tick


@pytest.fixture
def site(tmp_path):
    """Two cards, which alice holds at low class and works on; bob has none."""
    return two_at_work(tmp_path)


def due(site, name):
    """When the first warned card of an instance is to go."""
    return min(row.due_at for row in site.inventory.read().held_by(name) if row.due_at)


def test_a_warning_that_was_sent_late_leaves_its_grace_whole(site):
    """Whoever was to send it hung for a while."""
    site.locks.others.add(notices.LOCK)
    reserve(site, wish())
    site.locks.others.clear()
    site.clock.sleep(40)
    notices.send_due(site)
    assert due(site, "alice") >= site.clock.now() + timedelta(seconds=GRACE - 1)
    tick(site)
    assert held(site, "alice") == ["warned", "warned"]


def test_work_calls_the_warning_of_an_idle_card_off_whatever_other_rule_there_is(tmp_path):
    """She was told that work keeps it; by another rule she would have to be warned anew, within its bounds."""
    rules = policy()
    low = PriorityClass("low", priority=10, min_runtime_s=7200, grace_s=30, term_wait_s=2)
    site = two_at_work(tmp_path, rules=replace(rules, classes={**rules.classes, "low": low}))
    for process in list(site.probe.processes):
        site.probe.end(process.process)
    go_on(site, 15)
    reserve(site, wish(gpus=2))
    assert held(site, "alice") == ["warned", "warned"]
    for gpu in site.engine.cards:
        work(site, "alice", gpu)
        site.probe.utilization[gpu.uuid] = 90
    go_on(site, 40)
    assert held(site, "alice") == ["active", "active"]
    assert not events(site, "displaced")


def test_nobody_is_taken_to_have_missed_what_nobody_watched(site):
    """The time to come begins anew when the looks do."""
    reserve(site, wish())
    go_on(site, 12)
    assert held(site, "bob") == ["active", "active"]
    site.clock.sleep(3000)
    go_on(site, 10)
    assert held(site, "bob") == ["active", "active"]
    go_on(site, 20)
    assert [event.subject for event in events(site, "missed")] == ["bob"]


def test_why_of_a_card_whose_person_never_came_says_so(site):
    """Nobody gave it back; alice, who was displaced, gave her claim up."""
    reserve(site, wish())
    while len(held(site, "bob")) < 2:
        go_on(site, 1)
    (claim,) = [row for row in site.inventory.read().reservations if row.instance == "alice"]
    cancel(site, claim.id)
    while held(site, "bob") or not events(site, "missed"):
        go_on(site, 1)
    rows = site.inventory.read()
    seen = looking.look(site.engine, site.probe, rows, host=site.host, at=site.clock.now())
    cards = card_views(rows, seen.seen, seen.readings, mode=lambda _: None)
    for view in cards.views:
        about = looking.events_about(lambda: site.inventory, view.uuid, most=100)
        (reason,) = explain.about_gpu(rows, view, "", about, show=str)
        assert reason.text.startswith("nobody holds it: bob had booked it and nobody came")


def test_a_missed_booking_goes_after_a_warning_and_stays_when_somebody_comes(site):
    """The grace is for those who are late."""
    reserve(site, wish())
    while not events(site, "missed"):
        go_on(site, 1)
    assert set(held(site, "bob")) == {"warned"}
    for gpu in site.engine.cards:
        work(site, "bob", gpu)
    go_on(site, 10)
    assert held(site, "bob") == ["active", "active"]
    assert "unwarned" in [event.kind for event in site.inventory.events(subject="bob")]


def test_a_pause_takes_nothing_and_makes_nobody_miss_anything(site):
    """Warned cards stay, no-shows wait, and what is free is handed over all the same."""
    reserve(site, wish())
    go_on(site, 12)
    for _ in range(60):
        site.clock.sleep(1)
        tick(site, paused=True)
    assert held(site, "bob") == ["active", "active"]
    assert not events(site, "missed")


def test_a_booking_of_free_cards_begins_in_a_pause_too(tmp_path):
    """Nobody has to yield for it."""
    site = two_at_work(tmp_path)
    cancel_all(site)
    booked = reserve(site, wish(at=site.clock.now() + timedelta(seconds=30), seconds=100))
    for _ in range(40):
        site.clock.sleep(1)
        tick(site, paused=True)
    assert site.inventory.reservation(booked.reservations[0].id).state is ReservationState.ACTIVE


def cancel_all(site):
    """Alice gives everything back."""
    release(site, "alice", count=None, busy=True)


def test_what_comes_back_ends_when_it_would_have(site):
    """A claim prolongs nobody's lease."""
    ends = max(row.until for row in site.inventory.read().held_by("alice"))
    reserve(site, wish(seconds=60))
    go_on(site, 12)
    for gpu in site.engine.cards:
        work(site, "bob", gpu)
    go_on(site, 80)
    assert held(site, "alice") == ["active", "active"]
    assert max(row.until for row in site.inventory.read().held_by("alice")) == ends


def test_a_booking_does_not_rest_on_somebody_being_idle_now(tmp_path):
    """Who is idle now may work by then."""
    rules = policy()
    firm = PriorityClass("low", priority=50, min_runtime_s=0, grace_s=2, term_wait_s=2)
    site = two_at_work(tmp_path, rules=replace(rules, classes={**rules.classes, "low": firm}))
    for process in list(site.probe.processes):
        site.probe.end(process.process)
    go_on(site, 15)
    with pytest.raises(LxgpuError, match="need not yield"):
        reserve(site, wish(at=site.clock.now() + timedelta(hours=3)))


def test_cancelled_while_its_cards_are_attached_they_are_nobodys_by_right(site):
    """What came in that moment ends at once: it is kept only until somebody waits."""
    booked = reserve(site, wish(seconds=6 * 3600))
    go_on(site, 12)
    with site.write() as tx:
        for row in tx.records.held_by("bob"):
            tx.put(replace(row, state=AssignmentState.ATTACHING))
    cancel(site, booked.reservations[0].id)
    assert all(row.until <= site.clock.now() for row in site.inventory.read().held_by("bob"))


def test_a_smaller_running_booking_gives_the_rest_up(site):
    """The surplus is no part of it any more, so others get it."""
    booked = reserve(site, wish(seconds=6 * 3600))
    go_on(site, 12)
    edit(site, booked.reservations[0].id, gpus=1)
    rows = site.inventory.read().held_by("bob")
    assert sorted(row.reservation is None for row in rows) == [False, True]
    assert [row.until <= site.clock.now() for row in rows if row.reservation is None] == [True]


def test_what_waits_has_no_time_to_be_changed(site):
    """It begins when its turn comes."""
    booked = reserve(site, wish(gpus=2, seconds=60, class_name="low"))
    assert booked.plan.decision is Verdict.WAITING
    with pytest.raises(LxgpuError, match="has no time yet"):
        edit(site, booked.reservations[0].id, at=site.clock.now() + timedelta(days=1))


def test_an_admins_word_goes_before_the_line(site):
    """Behind a request that cannot begin it takes all the same."""
    newcomer(site, "carol")
    reserve(site, wish(gpus=2, class_name="low"))
    reserve(site, wish("carol", gpus=1, no_warning="the paper is due"))
    go_on(site, 12)
    assert held(site, "carol") == ["active"]


def test_use_that_still_counts_is_read():
    """A window of GPU-hours longer than the half-lives reaches back as far as it says."""
    rules = policy()
    wide = replace(rules, defaults=replace(rules.defaults, gpu_hours=Allowance(1000, 90 * 86400)))
    assert looks_back_s(wide) == 90 * 86400
    assert looks_back_s(rules) == 35 * 86400


def test_a_failing_attach_is_tried_less_and_less_often(site):
    """Each try is an attach and its undoing in somebody's container."""
    cancel_all(site)
    site.probe.walled.add(site.engine.instance("bob").init_pid)
    reserve(site, wish(gpus=1))
    go_on(site, 20)
    tries = len([event for event in events(site, "released") if event.subject == "bob"])
    assert 1 <= tries <= 6


def test_a_short_reservation_has_its_time_however_long_others_leads_are(tmp_path):
    """A class that nobody uses, with a long grace, takes nothing of it."""
    rules = policy()
    slow = PriorityClass("slow", priority=99, preemptible=False, grace_s=300, term_wait_s=120)
    site = two_at_work(tmp_path, rules=replace(rules, classes={**rules.classes, "slow": slow}))
    booked = reserve(site, wish(seconds=20))
    go_on(site, 8)
    row = site.inventory.reservation(booked.reservations[0].id)
    assert row.state is ReservationState.ACTIVE
    assert row.until - row.start == timedelta(seconds=20)


def test_a_booking_shortens_no_lease_of_its_own_owner(site):
    """The cards that she had for a day are booked for an hour, and hers for the rest of the day."""
    ends = {row.until for row in site.inventory.read().held_by("alice")}
    reserve(site, wish("alice", gpus=2, seconds=60, class_name="normal"))
    tick(site)
    assert {row.until for row in site.inventory.read().held_by("alice")} == ends
    go_on(site, 70)
    assert held(site, "alice") == ["active", "active"]
    assert {row.until for row in site.inventory.read().held_by("alice")} == ends


def test_an_admins_word_that_takes_nothing_is_refused(site):
    """It does not wait in the line for a chance to take at once."""
    with pytest.raises(LxgpuError, match="changes no class"):
        reserve(site, wish(gpus=2, class_name="low", no_warning="the paper is due"))


def test_a_start_is_waited_for_anew_after_a_pause(site):
    """What could not be taken meanwhile is taken then, and not given up."""
    booked = reserve(site, wish(at=site.clock.now() + timedelta(seconds=10), seconds=3600))
    for _ in range(100):
        site.clock.sleep(1)
        tick(site, paused=True)
    with site.write() as tx:
        tx.event("resumed", site.host)
    go_on(site, 12)
    assert site.inventory.reservation(booked.reservations[0].id).state is ReservationState.ACTIVE
