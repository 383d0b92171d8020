"""Two hosts of fakes under one inventory: each with its own LXD, cards and probe."""

from __future__ import annotations

from dataclasses import replace

from fakes.engine import FakeEngine
from fakes.site import lab_policy, make_gpus, make_site

from lxgpu.inventory.memory import MemoryInventory
from lxgpu.inventory.onehost import OneHost
from lxgpu.services.site import Site

FIRST, SECOND = "host1", "host2"


def two_hosts(folder, *, gpus: int = 2, limit: int = 16) -> tuple[Site, Site]:
    """The sites of two hosts with so many cards each, and a clock that both have."""
    whole, policy, names = MemoryInventory(), lab_policy(limit=limit), (FIRST, SECOND)
    cards = make_gpus(2 * gpus)
    here = make_site(folder / FIRST, gpus=cards[:gpus], policy=policy, inventory=OneHost(whole, FIRST, hosts=names))
    there = make_site(
        folder / SECOND,
        policy=policy,
        engine=FakeEngine([replace(card, host=SECOND) for card in cards[gpus:]]),
        clock=here.clock,
        inventory=OneHost(whole, SECOND, hosts=names),
    )
    return here, replace(there, host=SECOND)
