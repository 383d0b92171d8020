"""A wall clock that somebody sets: whoever ticks next finds out, takes nothing, and everybody's time runs on."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

import pytest
from fakes.site import lab_policy, make_site, newcomer
from inventory_rows import operation

from lxgpu.errors import LxgpuError
from lxgpu.model.assignment import AssignmentState
from lxgpu.model.request import GpuRequest, ReserveRequest
from lxgpu.model.rules import BookingRules, PriorityClass
from lxgpu.services import clockset
from lxgpu.services.clockset import FILE, LOCK, watch_clock
from lxgpu.services.lending import attach
from lxgpu.services.reserve import reserve
from lxgpu.services.tick import tick
from lxgpu.services.watch import Watch

JUMPS = [3600.0, -3600.0, 5.5, -5.5]


@pytest.fixture
def site(tmp_path):
    """Alice holds the one card in a class that yields to bob's, with half a minute of grace; a tick was made."""
    policy = lab_policy()
    low = PriorityClass("low", priority=10, min_runtime_s=0, grace_s=30, term_wait_s=2)
    rules = replace(policy.rules, bookings=BookingRules(give_up_after_s=86400))
    policy = replace(policy, rules=rules, classes={**policy.classes, "low": low})
    made = make_site(tmp_path, gpus=1, policy=policy)
    newcomer(made, "alice")
    newcomer(made, "bob")
    request = GpuRequest(instance="alice", owner="alice", more=1, class_name="low")
    attach(made, "alice", number=1, more=True, request=request, lease_s=None)
    tick(made)
    return made


def process(site):
    """The same host in the eyes of a process that has just begun."""
    return replace(site, watch=Watch())


def warned(site):
    """Alice's warned card."""
    (row,) = site.inventory.read().held_by("alice")
    assert row.state is AssignmentState.WARNED
    return row


def sets(site):
    """By how much the history says that the clock was set."""
    return [event.detail["moved_s"] for event in reversed(site.inventory.events()) if event.kind == "clock_set"]


def wish(site):
    """Bob asks for the card."""
    reserve(site, ReserveRequest(instance="bob", owner="bob", gpus=1, duration_s=8 * 3600))


@pytest.mark.parametrize("moved", JUMPS)
def test_grace_runs_on_whatever_is_done_to_the_clock(site, moved):
    """Told "in 30 s" one has 30 s: by a command's tick as by the daemon's, forward and back."""
    wish(site)
    site.clock.jump(moved)
    tick(process(site))
    assert (warned(site).due_at - site.clock.now()).total_seconds() == pytest.approx(30)
    site.clock.sleep(29)
    tick(process(site))
    assert warned(site)
    site.clock.sleep(2)
    tick(process(site))
    assert [row.state.value for row in site.inventory.read().held_by("alice")] != ["warned"]
    assert sets(site) == [moved]


def test_the_tick_that_finds_it_warns_nobody_and_the_next_one_does(site):
    """Also when it is the tick of the very command that asks for cards."""
    site.clock.jump(3600)
    wish(process(site))
    assert [row.state.value for row in site.inventory.read().held_by("alice")] == ["active"]
    tick(process(site))
    assert warned(site)


def test_a_tick_that_fails_after_a_jump_leaves_the_next_one_careful(site, monkeypatch):
    """That nothing is taken holds until a tick came to its end."""
    site.clock.jump(3600)
    with monkeypatch.context() as broken:
        broken.setattr(site.engine, "instances", _away)
        with pytest.raises(LxgpuError):
            tick(process(site))
    wish(process(site))
    assert [row.state.value for row in site.inventory.read().held_by("alice")] == ["active"]
    tick(site)
    assert warned(site)
    assert sets(site) == [3600]


def _away(**_how):
    raise LxgpuError("unavailable", "LXD cannot be reached")


def test_small_steps_are_none_of_our_business(site):
    """NTP slews a few seconds; nobody's grace changes for that."""
    wish(site)
    due = warned(site).due_at
    for _ in range(3):
        site.clock.jump(4.9)
        tick(process(site))
    assert warned(site).due_at == due
    assert sets(site) == []


def test_what_steps_wait_for_moves_along(site):
    """The deadline in the journal, and what steps note of the wall clock; what they note else stays."""
    at = site.clock.now() + timedelta(seconds=20)
    args = {"down_since": at.isoformat(), "hook_until": at.isoformat(), "park_until": "", "slots": ["x"], "n": 1}
    with site.write() as tx:
        tx.put(operation("o1", kind="release", instance="alice", step="term", due_at=at, args=args))
        tx.put(operation("o2", kind="release", instance="bob", args={"hook_until": "what is this"}))
    clockset.follow_clock(site, 3600)
    rows = {row.id: row for row in site.inventory.read().operations}
    later = (at + timedelta(hours=1)).isoformat()
    assert rows["o1"].due_at == at + timedelta(hours=1)
    assert rows["o1"].args == {**args, "down_since": later, "hook_until": later}
    assert (rows["o2"].due_at, rows["o2"].args) == (None, {"hook_until": "what is this"})


def test_a_place_that_cannot_be_written_moves_nothing_twice(site, monkeypatch):
    """/run is full, or the process dies in between: the next tick finds the same jump, and that it was dealt with."""
    wish(site)
    site.clock.jump(3600)
    with monkeypatch.context() as broken:
        broken.setattr(clockset, "_note", _full)
        ticked = tick(process(site))
    assert "clock: a fault in lxgpu: OSError: [Errno 28] No space left on device" in ticked.troubles
    for _ in range(2):
        site.clock.sleep(1)
        tick(process(site))
    assert (warned(site).due_at - site.clock.now()).total_seconds() == pytest.approx(28)
    assert sets(site) == [3600]


def _full(*_args):
    raise OSError(28, "No space left on device")


def test_what_another_process_found_counts_for_this_one_too(site):
    """A command saw the jump: the daemon's samples from before it do not count any more."""
    site.clock.jump(-3600)
    tick(process(site))
    assert site.watch.not_before is None
    tick(site)
    assert site.watch.not_before == site.clock.now()


def test_a_boot_begins_anew(site):
    """The other clock begins at nought, which is no jump; how long the clock was steady is not known any more."""
    site.clock.sleep(100)
    assert watch_clock(site).steady_s == 100
    site.probe.boot = "boot-2"
    site.clock.jump(86400)
    assert watch_clock(site) == clockset.ClockLook(jumped=False, steady_s=0)
    assert sets(site) == []


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"boot": 1}'])
def test_a_note_that_cannot_be_read_is_as_none(site, text):
    """No jump is made of it, and the next note is whole."""
    (site.settings.run_dir / FILE).write_text(text)
    assert not watch_clock(site).jumped
    assert json.loads((site.settings.run_dir / FILE).read_text())["seconds"] == site.clock.monotonic()


def test_while_another_process_compares_nothing_is_believed(site):
    """It may be in the midst of moving what is due."""
    site.locks.others.add(LOCK)
    assert watch_clock(site) == clockset.ClockLook(jumped=True, steady_s=0)


def test_steady_is_since_the_last_jump(site):
    """However long it was before."""
    site.clock.sleep(500)
    assert watch_clock(site).steady_s == 500
    site.clock.jump(60)
    assert watch_clock(site).steady_s == 0
    site.clock.sleep(40)
    assert watch_clock(site).steady_s == 40
