"""A pause: nothing new is taken from anybody, whoever ticks, until it ends."""

from __future__ import annotations

from dataclasses import replace

import pytest
from dealings import one_held
from fakes.system import START

from lxgpu.model.request import ReserveRequest
from lxgpu.services.pausing import pause, paused, resume
from lxgpu.services.reserve import reserve
from lxgpu.services.statusfile import PauseView
from lxgpu.services.tick import tick

VIEW = PauseView(who="root", why="a driver update", when=START)


@pytest.fixture
def site(tmp_path):
    """Alice holds the one card in a class that yields to bob's."""
    return one_held(tmp_path)


def pass_time(site, seconds):
    """A tick each second."""
    for _ in range(seconds):
        site.clock.sleep(1)
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
