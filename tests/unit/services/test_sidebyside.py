"""Several hosts under one inventory: each goes on by itself, and what people have counts on all of them."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import timedelta

import pytest
from dealings import give, held, wish
from fakes.site import newcomer
from two_hosts import FIRST, SECOND, two_hosts

from lxgpu.errors import LxgpuError
from lxgpu.services.reserve import reserve
from lxgpu.services.sidebyside import PART, SideBySide
from lxgpu.services.silent import SilentEngine
from lxgpu.services.tick import tick
from lxgpu.services.ticked import Ticked

LONG_S = 30.0


@pytest.fixture
def sites(tmp_path):
    """Two hosts of two cards; a person may have three."""
    return two_hosts(tmp_path, limit=3)


def every(sites, **more):
    """A tick of both."""
    here, there = sites
    return SideBySide(tick, lambda _here: [there], patience_s=LONG_S, **more)(here)


def test_each_host_has_its_own_containers(sites):
    """What is made on one is in its LXD and nowhere else, and both agree with the inventory afterwards."""
    here, there = sites
    assert newcomer(here, "alice", gpus=1).host == FIRST
    assert newcomer(there, "bob", gpus=2).host == SECOND
    assert [name for _, name in here.engine.machines if "template" not in name] == ["alice"]
    assert [name for _, name in there.engine.machines if "template" not in name] == ["bob"]
    assert (held(here, "alice"), held(there, "bob")) == (["active"], ["active", "active"])
    assert every(sites).troubles == ()
    assert (held(here, "alice"), held(there, "bob")) == (["active"], ["active", "active"])


def test_a_name_is_given_once(sites):
    """Wherever: it is refused with the host that has it, and the container there stays as it was."""
    here, there = sites
    newcomer(here, "alice", gpus=1)
    with pytest.raises(LxgpuError, match="there is a container alice on host1"):
        newcomer(there, "alice", gpus=1)
    assert here.inventory.read().instance("alice").host == FIRST
    assert ("default", "alice") not in there.engine.machines


def test_a_quota_counts_on_all_hosts(sites):
    """Three cards are the most: two here leave one there."""
    here, there = sites
    newcomer(here, "alice", gpus=2)
    with pytest.raises(LxgpuError) as refused:
        newcomer(there, "alice-2", owner="alice", gpus=2)
    assert refused.value.code == "over_limit"
    newcomer(there, "alice-2", owner="alice", gpus=1)
    with pytest.raises(LxgpuError) as refused:
        give(there, "alice-2", 1)
    assert refused.value.code == "over_limit"


def test_bookings_count_on_all_hosts(sites):
    """What somebody has booked on one host is not free for them on another at that time."""
    here, there = sites
    newcomer(here, "alice")
    newcomer(there, "alice-2", owner="alice")
    ahead = {"gpus": 2, "at": here.clock.now() + timedelta(hours=2)}
    reserve(here, wish("alice", **ahead))
    with pytest.raises(LxgpuError) as refused:
        reserve(there, wish("alice-2", **ahead))
    assert refused.value.code == "over_limit"


def test_a_tick_asks_each_engine_as_often_whatever_it_has(sites):
    """One list a host, and no question for each container."""
    here, there = sites
    every(sites)
    newcomer(here, "alice", gpus=1)
    newcomer(there, "bob", gpus=1)
    every(sites)
    few = asked(sites)
    for number in range(6):
        newcomer(there, f"more-{number}", owner=f"more-{number}")
    every(sites)
    assert asked(sites) == few


def asked(sites):
    """How many requests a tick of both, after which nothing is left to do, is to each engine."""
    before = [site.engine.requests for site in sites]
    every(sites)
    return [site.engine.requests - count for site, count in zip(sites, before, strict=True)]


def test_a_host_that_does_not_answer_holds_up_no_other(sites):
    """It is told, nothing of it is decided, and what people have there stays theirs until it comes back."""
    here, there = sites
    newcomer(here, "alice", gpus=1)
    newcomer(there, "bob", gpus=1)
    away = replace(there, engine=SilentEngine(LxgpuError("unavailable", "LXD cannot be reached")))
    ticked = every((here, away))
    assert ticked.troubles == ("host2: LXD cannot be reached",)
    assert ticked.failed == (PART,)
    assert (held(here, "alice"), held(there, "bob")) == (["active"], ["active"])
    give(here, "alice", 1)
    assert every(sites).troubles == ()
    assert held(there, "bob") == ["active"]


def test_a_slow_host_is_heard_of_later(sites):
    """The others do not wait for it, it is not begun twice, and when it is through the next tick comes at once."""
    here, there = sites
    at_it, goes_on, poked, begun = threading.Event(), threading.Event(), threading.Event(), []

    def slowly(site, **_paused):
        begun.append(site.host)
        if site.host == SECOND:
            at_it.set()
            goes_on.wait(LONG_S)
        at_it.wait(LONG_S)
        return Ticked(site.clock.now(), did=1)

    both = SideBySide(slowly, lambda _here: [there], patience_s=0.0, poke=poked.set)
    for _ in range(2):
        ticked = both(here)
        assert ticked.troubles == ("host2: its tick takes long; the other hosts go on without it",)
        assert ticked.did == 1
    assert sorted(begun) == [FIRST, FIRST, SECOND]
    goes_on.set()
    assert poked.wait(LONG_S)
    assert both(here).did == 2


def test_others_go_on_while_this_host_is_slow(sites):
    """What is due there is done, however long this host's own tick takes."""
    here, there = sites
    twice, ticked = threading.Event(), []

    def slowly(site, **_paused):
        if site.host == FIRST:
            assert twice.wait(LONG_S)
        else:
            ticked.append(site.host)
            if len(ticked) == 2:
                twice.set()
        return Ticked(site.clock.now(), next_at=site.clock.now(), did=1)

    assert SideBySide(slowly, lambda _here: [there], patience_s=LONG_S)(here).did == 1 + len(ticked)


def test_a_newer_inventory_ends_all_and_another_one_its_host(sites):
    """`superseded` is for the whole process; that a host belongs to another inventory is that host's trouble."""
    here, there = sites

    def says(code):
        def ticks(site, **_paused):
            if site.host == SECOND:
                raise LxgpuError(code, "not yours")
            return Ticked(site.clock.now())

        return SideBySide(ticks, lambda _here: [there], patience_s=LONG_S)

    with pytest.raises(LxgpuError, match="not yours"):
        says("superseded")(here)
    assert says("other_inventory")(here).troubles == ("host2: not yours",)


def test_this_host_away_the_others_go_on(sites):
    """The tick fails as it does with one host, and the others have had theirs."""
    here, there = sites
    ticked = []

    def ticks(site, **_paused):
        if site.host == FIRST:
            raise LxgpuError("unavailable", "LXD cannot be reached")
        ticked.append(site.host)
        return Ticked(site.clock.now())

    with pytest.raises(LxgpuError, match="cannot be reached"):
        SideBySide(ticks, lambda _here: [there], patience_s=LONG_S)(here)
    assert ticked == [SECOND]
