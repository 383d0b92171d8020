"""Where a container is made when its owner does not mind: where it breaks into the fewest free cards."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fakes.site import newcomer, request_for
from two_hosts import FIRST, SECOND, two_hosts

from lxgpu.errors import LxgpuError
from lxgpu.services.placing import best_host
from lxgpu.services.silent import SilentEngine


@pytest.fixture
def sites(tmp_path):
    """Two hosts of two cards, of which the second has one free."""
    here, there = two_hosts(tmp_path)
    newcomer(there, "bob", gpus=1)
    return here, there


def chosen(sites, gpus):
    """The host for a new container."""
    found = best_host(sites, request_for(sites[0], "alice", gpus=gpus))
    return found.host if found else None


def test_the_host_with_the_fewest_free_cards_that_suffice(sites):
    """One card: where there is but one; two: where there are two; three: nowhere."""
    assert chosen(sites, 1) == SECOND
    assert chosen(sites, 2) == FIRST
    assert chosen(sites, 3) is None


def test_without_cards_the_host_with_the_fewest_containers(sites):
    """The first one has none yet; where both have as many it is the first."""
    assert chosen(sites, 0) == FIRST
    newcomer(sites[0], "carol")
    assert chosen(sites, 0) == FIRST
    newcomer(sites[0], "dave")
    assert chosen(sites, 0) == SECOND


def test_a_host_that_is_away_is_left_out(sites):
    """And that is said."""
    here, there = sites
    away = replace(there, engine=SilentEngine(LxgpuError("unavailable", "LXD cannot be reached")))
    assert chosen((here, away), 1) == FIRST
    assert "host2 is left out: LXD cannot be reached" in there.say.lines
