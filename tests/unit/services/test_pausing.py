"""A pause: nothing new is taken from anybody, whoever ticks, until it ends."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import timedelta

import pytest
from dealings import one_held
from fakes.system import START

from lxgpu.model.request import ReserveRequest
from lxgpu.model.reservation import ReservationState
from lxgpu.services import lending
from lxgpu.services.pausing import FILE, pause, paused, resume
from lxgpu.services.reserve import reserve
from lxgpu.services.statusfile import PauseView
from lxgpu.services.tick import tick

VIEW = PauseView(who="root", why="a driver update", when=START)


@pytest.fixture
def site(tmp_path):
    """Alice holds the one card in a class that yields to bob's."""
    return one_held(tmp_path)


def pass_time(site, seconds, *, step=1):
    """A tick each second, or every `step` of them."""
    for _ in range(seconds // step):
        site.clock.sleep(step)
        tick(site)


def holders(site):
    """Who has the card, and as what."""
    return [(row.instance, row.state.value) for row in site.inventory.read().assignments if row.live]


def test_while_paused_nobody_is_warned_and_nothing_taken_and_then_all_goes_on(site):
    """Not by the daemon's tick and not by the command's own; what was asked for meanwhile is met afterwards."""
    pause(site.settings.run_dir, VIEW)
    reserve(site, ReserveRequest(instance="bob", owner="bob", gpus=1, duration_s=600))
    pass_time(site, 30)
    assert holders(site) == [("alice", "active")]
    assert resume(site.settings.run_dir) == VIEW
    pass_time(site, 30)
    assert holders(site) == [("bob", "active")]


def test_what_is_begun_is_finished(site):
    """A card on its way is not left half way."""
    site.probe.run(site.engine.instance("alice").init_pid, site.engine.cards[0].nodes, ignores_term=True)
    reserve(site, ReserveRequest(instance="bob", owner="bob", gpus=1, duration_s=600))
    pass_time(site, 3)
    assert holders(site) == [("alice", "releasing")]
    pause(site.settings.run_dir, VIEW)
    pass_time(site, 30)
    assert ("alice", "releasing") not in holders(site)
    assert not [row for row in site.inventory.read().operations if row.live]


def test_a_pause_is_read_back_replaced_and_ended_once(tmp_path):
    """Who, why and since when; a second pause has its own reason; ending none is no error."""
    folder = tmp_path / "run"
    assert paused(folder) is None
    assert resume(folder) is None
    pause(folder, VIEW)
    assert paused(folder) == VIEW
    pause(folder, replace(VIEW, why="another"))
    assert resume(folder) == replace(VIEW, why="another")
    assert paused(folder) is None
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("text", ["", "{", "[]", '{"who": 1}', "\x00"])
def test_a_file_that_cannot_be_understood_pauses_all_the_same(tmp_path, text):
    """An admin who only made the file wants a pause, too."""
    (tmp_path / "paused").write_text(text)
    found = paused(tmp_path)
    assert found is not None
    assert found.why
    assert found.when.tzinfo is not None


def test_while_paused_free_cards_are_handed_over_and_nobody_misses_a_booking(site):
    """What takes from nobody goes on: a booking gets its free cards on time, and is not given up as unused."""
    lending.release(site, "alice", count=None, busy=True)
    start = site.clock.now() + timedelta(minutes=20)
    wish = ReserveRequest(instance="bob", owner="bob", gpus=1, at=start, duration_s=4 * 3600)
    row = reserve(site, wish).reservations[0]
    pause(site.settings.run_dir, VIEW)
    pass_time(site, 20 * 60 + 5, step=5)
    assert holders(site) == [("bob", "active")]
    no_show_s = site.policy().rules.bookings.no_show_s
    pass_time(site, no_show_s + 600, step=30)
    assert site.inventory.reservation(row.id).state is ReservationState.ACTIVE
    assert holders(site) == [("bob", "active")]


def test_a_warning_that_is_out_takes_nothing_while_paused(site):
    """The grace may be over: the card stays."""
    reserve(site, ReserveRequest(instance="bob", owner="bob", gpus=1, duration_s=600))
    assert holders(site) == [("alice", "warned")]
    pause(site.settings.run_dir, VIEW)
    pass_time(site, 60)
    assert holders(site) == [("alice", "warned")]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no json",
        "[]",
        "{}",
        '{"who": "root", "why": 7, "when": "2027-03-01T08:00:00Z"}',
        '{"who": "root", "why": "x", "when": "2027-03-01T08:00:00"}',
        '{"who": "root", "why": "\\udcff", "when": "2027-03-01T08:00:00Z"}',
        b"\xff\xfe\x00",
        "[" * 100_000,
        '{"why": "' + "x" * 1_000_000 + '"}',
    ],
    ids=lambda text: str(text[:30]),
)
def test_whatever_stands_in_its_file_is_a_pause_that_can_be_ended(text, tmp_path):
    """Its words can be written on, into the history and to a terminal."""
    (tmp_path / FILE).write_bytes(text if isinstance(text, bytes) else text.encode())
    found = paused(tmp_path)
    assert found is not None
    assert f"{found.who} {found.why}".encode()
    assert found.when.tzinfo is not None
    assert resume(tmp_path) == found
    assert paused(tmp_path) is None


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("nowhere/at all")])
def test_what_is_no_file_in_its_place_is_waited_for_by_nobody(make, tmp_path):
    """A pipe and a folder are a pause, a link to nothing is none; `resume` takes each away."""
    make(tmp_path / FILE)
    found = paused(tmp_path)
    assert (found is None) == (tmp_path / FILE).is_symlink()
    assert resume(tmp_path) == found
    assert not os.path.lexists(tmp_path / FILE)
