"""What a killed LXD leaves of an attach is cured by lxgpu itself, without a restart of the container."""

from __future__ import annotations

from contextlib import suppress

import pytest
from fakes.faults import Fault
from fakes.site import make_site, newcomer

from lxgpu.errors import LxgpuError
from lxgpu.model.request import GpuRequest
from lxgpu.services import lending
from lxgpu.services.recover import recover


@pytest.fixture
def site(tmp_path):
    """Alice runs without a card."""
    made = make_site(tmp_path)
    newcomer(made, "alice")
    return made


def attach(site):
    """One card more for alice."""
    request = GpuRequest(instance="alice", owner="", more=0)
    lending.attach(site, "alice", number=1, more=True, request=request, lease_s=None)


def nodes_inside(site):
    """The card nodes in alice's /dev."""
    every = [node for card in site.engine.cards for node in card.nodes]
    return site.probe.nodes_inside(site.engine.init("alice"), every)


@pytest.mark.parametrize("nth", [1, 2])
def test_the_attach_itself_cures_it(site, nth):
    """LXD dies in the middle of the write: the same command clears what is left, and ends with the card inside."""
    for _ in range(nth - 1):
        attach(site)
    init = site.engine.init("alice")
    site.engine.inject(Fault.HALF, call="update", name="alice")
    attach(site)
    held = {row.slot.gpu for row in site.inventory.read().held_by("alice")}
    assert len(held) == nth
    assert nodes_inside(site) == {node for card in site.engine.cards if card.uuid in held for node in card.nodes}
    assert site.engine.left_nodes("alice") == ()
    assert site.engine.init("alice") == init, "it was restarted"
    assert any("interrupted attach" in line for line in site.say.lines)


def test_an_attach_that_is_undone_leaves_nothing(site):
    """LXD dies and stays away: once it is back the attach is undone, and neither nodes nor files are left."""
    site.engine.inject(Fault.HALF, call="update", name="alice")
    site.engine.inject(Fault.DOWN, call="barrier", name="alice", after=3)
    with pytest.raises(LxgpuError):
        attach(site)
    assert site.engine.machines["default", "alice"].left
    for _ in range(4):
        with suppress(LxgpuError):
            recover(site)
    assert not [row for row in site.inventory.read().operations if row.live]
    assert site.engine.left_nodes("alice") == ()
    held = {row.slot.gpu for row in site.inventory.read().held_by("alice")}
    assert nodes_inside(site) == {node for card in site.engine.cards if card.uuid in held for node in card.nodes}
    attach(site)


def test_left_files_of_an_earlier_life_are_cured_by_the_next_attach(site):
    """Nobody looked for days: the next attach of that card finds the files, clears them, and works."""
    request = GpuRequest(instance="alice", owner="", more=0, uuids=(site.engine.cards[0].uuid,))
    site.engine.inject(Fault.HALF, call="update", name="alice")
    lending.attach(site, "alice", number=1, more=True, request=request, lease_s=None)
    lending.release(site, "alice", count=None, busy=True)
    machine = site.engine.machines["default", "alice"]
    name = f"gpu-{site.engine.cards[0].uuid.removeprefix('GPU-')}"
    machine.left, machine.left_nodes = frozenset({name}), frozenset(site.engine.cards[0].nodes[:1])
    lending.attach(site, "alice", number=1, more=True, request=request, lease_s=None)
    assert nodes_inside(site) == frozenset(site.engine.cards[0].nodes)
    assert site.engine.left_nodes("alice") == ()
