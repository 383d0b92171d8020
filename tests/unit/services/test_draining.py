"""Emptying a host: from its date on nobody is given its cards, and nothing is taken from who has some."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from dealings import give, go_on, held
from fakes.site import make_site, newcomer
from two_hosts import two_hosts

from lxgpu.errors import LxgpuError
from lxgpu.services.draining import FILE, Drain, drain, drains, plan_drain, undrain
from lxgpu.services.inservice import close
from lxgpu.services.silent import SilentEngine
from lxgpu.services.tick import tick


@pytest.fixture
def site(tmp_path):
    """Three cards, of which alice holds one."""
    site = make_site(tmp_path, gpus=3)
    site.settings.state_dir.mkdir()
    newcomer(site, "alice", gpus=1)
    return site


def meant(site, *, in_s=0, note="new fans"):
    """A drain of the site's host."""
    return Drain(site.host, site.clock.now() + timedelta(seconds=in_s), "root", note)


def closed(site):
    """The reasons for which cards are closed."""
    return [card.closed for card in site.inventory.read().cards if card.closed]


def test_nobody_is_given_a_card_and_nothing_is_taken(site):
    """All cards are closed at once, with the note; alice keeps hers."""
    drain(site, meant(site))
    assert closed(site) == ["drained: new fans"] * 3
    assert held(site, "alice") == ["active"]
    with pytest.raises(LxgpuError, match="free"):
        give(site, "alice", 1)
    assert tick(site).troubles == ()
    assert held(site, "alice") == ["active"]


def test_it_begins_on_its_date(site):
    """Until then cards are given; the tick at that time closes them."""
    drain(site, meant(site, in_s=10))
    give(site, "alice", 1)
    assert closed(site) == []
    go_on(site, 12)
    assert closed(site) == ["drained: new fans"] * 3
    assert held(site, "alice") == ["active", "active"]


def test_the_plan_says_who_is_in_the_way(site):
    """Each card with who keeps it; nothing is written by it."""
    before = site.inventory.read()
    plan = plan_drain(site, meant(site))
    assert [(step.do, step.instance) for step in plan.steps].count(("close", "alice")) == 1
    assert [step.do for step in plan.steps] == ["close"] * 3
    assert site.inventory.read() == before
    assert drains(site.settings.state_dir) == {}


def test_opened_again_but_for_what_was_closed_otherwise(site):
    """A card that an admin closed for another reason stays so; what was meant is forgotten."""
    other = site.engine.cards[2].uuid
    close(site, other, reason="broken fan")
    drain(site, meant(site))
    assert undrain(site) == 2
    assert closed(site) == ["broken fan"]
    tick(site)
    assert closed(site) == ["broken fan"]
    assert undrain(site) == 0


def test_a_drain_is_told_anew(site):
    """The later word counts: another date, another note."""
    drain(site, meant(site, in_s=10))
    drain(site, meant(site, in_s=99999, note="later"))
    go_on(site, 12)
    assert closed(site) == []
    assert drains(site.settings.state_dir)[site.host].note == "later"


def test_one_host_is_drained_and_no_other(tmp_path):
    """Cards of the other host are lent as before."""
    here, there = two_hosts(tmp_path)
    newcomer(here, "alice")
    newcomer(there, "bob", gpus=1)
    here.settings.state_dir.mkdir(parents=True)
    drain(here, meant(here))
    give(there, "bob", 1)
    assert held(there, "bob") == ["active", "active"]
    assert len(closed(here)) == 2
    assert closed(there) == []


def test_a_host_that_is_away_is_drained_when_it_answers(site):
    """What is meant is kept, and its cards are closed by the first tick that sees them."""
    away = replace(site, engine=SilentEngine(LxgpuError("unavailable", "LXD cannot be reached")))
    drain(away, meant(site))
    assert closed(site) == []
    tick(site)
    assert closed(site) == ["drained: new fans"] * 3


def test_a_file_that_nobody_can_read_is_told(site):
    """And is no reason to give cards of which nobody knows whether they may be given: the tick names it."""
    (site.settings.state_dir / FILE).write_text("{")
    (trouble,) = tick(site).troubles
    assert "drains.json cannot be read" in trouble
