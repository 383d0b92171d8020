"""After a boot of the host: who held cards learns that the host restarted and the job ended, once."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fakes.site import make_site, newcomer

from lxgpu.services import ending, power
from lxgpu.services.tick import tick
from lxgpu.services.watch import Watch


@pytest.fixture
def site(tmp_path):
    """Alice, bob and carol have a card each, dave has none; bob has stopped his container."""
    site = make_site(tmp_path, gpus=4)
    for name in ("alice", "bob", "carol"):
        newcomer(site, name, gpus=1)
    newcomer(site, "dave")
    power.stop_instance(site, "bob", force=True)
    return site


def told(site):
    """Who was told of a boot, in order."""
    events = reversed(site.inventory.events())
    return [event.subject for event in events if event.kind == "told" and event.rule == "restarted"]


def test_after_a_boot_who_held_cards_in_a_running_container_is_told_once(site):
    """Whoever ticks, and however often; a container that was stopped anyway has lost nothing."""
    tick(site)
    site.clock.sleep(3600)
    site.probe.boot = "boot-2"
    tick(site)
    tick(replace(site, watch=Watch()))
    tick(site)
    assert sorted(told(site)) == ["alice", "carol"]
    text = site.board.files["alice", "notice"]
    assert "host1 restarted 09:00 UTC: your job in alice ended." in text
    assert "You hold RTX 3090 (GPU-00000001) still." in text
    site.probe.boot = "boot-3"
    tick(replace(site, watch=Watch()))
    assert len(told(site)) == 4


def test_the_first_boot_that_is_seen_is_no_news(site):
    """A new installation tells nobody that their job ended."""
    tick(site)
    tick(replace(site, watch=Watch()))
    assert told(site) == []


def test_who_has_gone_is_not_told(site):
    """Nor is one whose container is closed."""
    tick(site)
    ending.delete(site, "carol", purge=False)
    ending.suspend(site, "alice", reason="holidays")
    site.probe.boot = "boot-2"
    tick(site)
    assert told(site) == []
