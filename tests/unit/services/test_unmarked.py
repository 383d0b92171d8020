"""A container whose mark in LXD was removed by hand is still the one that the inventory means."""

from __future__ import annotations

import pytest
from fakes.site import make_site, newcomer

from lxgpu.services import lending, power
from lxgpu.services.wanted import KEY_UUID


@pytest.fixture
def site(tmp_path):
    """Alice holds one card, and somebody unset her container's mark."""
    made = make_site(tmp_path)
    newcomer(made, "alice", gpus=1)
    config = made.engine.machines["default", "alice"].config
    made.engine.machines["default", "alice"].config = {key: config[key] for key in config if key != KEY_UUID}
    return made


def _cards(site):
    machine = site.engine.machines["default", "alice"]
    return [device["pci"] for device in machine.devices.values() if device.get("type") == "gpu"]


def test_a_release_takes_the_card_off(site):
    """No release is called done while LXD has the card there and the rule lets it be opened."""
    lending.release(site, "alice", count=None, busy=True)
    assert _cards(site) == []
    nodes = [node for card in site.engine.cards for node in card.nodes]
    assert site.probe.openable(site.engine.init("alice"), nodes) == frozenset()


def test_a_restart_marks_it_again(site):
    """What `inventory verify` gives as the remedy is one."""
    power.restart(site, "alice", force=False)
    machine = site.engine.machines["default", "alice"]
    assert machine.config[KEY_UUID] == machine.config["volatile.uuid"]
    assert len(_cards(site)) == 1
