"""Looks at several hosts: one that is slow or away is not known, and holds up no other."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
from fakes.site import newcomer
from two_hosts import FIRST, SECOND, two_hosts

from lxgpu.errors import LxgpuError
from lxgpu.model.onehost import everywhere
from lxgpu.services.hostlooks import Place, cards_of, glance_at_all, instances_of, look_at_all, together
from lxgpu.services.silent import SilentEngine

AWAY = SilentEngine(LxgpuError("unavailable", "LXD cannot be reached", fix="start it"))


@pytest.fixture
def sites(tmp_path):
    """Alice with a card on the first host, bob with one on the second; each has another."""
    here, there = two_hosts(tmp_path)
    newcomer(here, "alice", gpus=1)
    newcomer(there, "bob", gpus=1)
    return here, there


def looked(here, there, **more):
    """A look at both."""
    places = [Place(site.host, site.engine, site.probe, site.settings) for site in (here, there)]
    return look_at_all(places, everywhere(here.inventory.read()), at=here.clock.now(), **more)


def shown(looks):
    """The states of containers, and of cards with their hosts."""
    cards = cards_of(looks, mode=lambda _uuid: "exclusive").views
    return (
        {view.name: view.state for view in instances_of(looks)},
        [(view.host, view.slots[0].state, view.slots[0].holder) for view in cards],
    )


def test_both_are_shown(sites):
    """Each container and each card once, with its host."""
    looks = looked(*sites)
    assert shown(looks) == (
        {"alice": "running", "bob": "running"},
        [(FIRST, "active", "alice"), (FIRST, "free", None), (SECOND, "active", "bob"), (SECOND, "free", None)],
    )
    assert together(looks, everywhere(sites[0].inventory.read()), at=sites[0].clock.now()).trouble is None


def test_of_a_host_that_is_away_nothing_is_free(sites):
    """Its container is unreachable, its cards are with whom they were, and the rest is unknown; the first says so."""
    here, there = sites
    looks = looked(here, replace(there, engine=AWAY))
    containers, cards = shown(looks)
    assert containers == {"alice": "running", "bob": "unreachable"}
    assert cards[:3] == [(FIRST, "active", "alice"), (FIRST, "free", None), (SECOND, "active", "bob")]
    assert [state for host, state, _ in cards if host == SECOND and state == "free"] == []
    trouble = together(looks, everywhere(here.inventory.read()), at=here.clock.now()).trouble
    assert (trouble.brief, trouble.fix) == ("host2: LXD cannot be reached", "start it")


def test_a_slow_host_is_not_waited_for(sites):
    """After the time for it, it is as if it were away."""
    here, there = sites
    goes_on = threading.Event()

    class Slow(SilentEngine):
        def gpus(self):
            goes_on.wait(30)
            return there.engine.gpus()

    looks = looked(here, replace(there, engine=Slow(LxgpuError("unavailable", "late"))), within_s=0.05)
    goes_on.set()
    assert shown(looks)[0] == {"alice": "running", "bob": "unreachable"}
    assert "did not answer within 0.05 s" in looks[1].look.trouble.brief


def test_a_list_is_one_request_a_host(sites):
    """Whatever the number of containers, and one that is away is told with its name."""
    here, there = sites
    places = [Place(site.host, site.engine, site.probe, site.settings) for site in sites]
    before = [site.engine.requests for site in sites]
    found = glance_at_all(places, everywhere(here.inventory.read()))
    assert [site.engine.requests - count for site, count in zip(sites, before, strict=True)] == [1, 1]
    assert [[row.name for row in glance.records.instances] for _, glance in found] == [["alice"], ["bob"]]
    places[1] = replace(places[1], engine=AWAY)
    (_, first), (_, second) = glance_at_all(places, everywhere(here.inventory.read()))
    assert (first.trouble, second.sightings) == (None, None)
    assert second.trouble.brief == "host2: LXD cannot be reached"
    assert there.inventory.read().instance("bob") is not None
