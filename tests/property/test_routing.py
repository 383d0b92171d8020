"""A host that is named for now can meet the need, whatever the site; and where nobody is named for now, none could."""

from __future__ import annotations

import random
from dataclasses import replace

from desk_worlds import site
from hypothesis import given, settings
from hypothesis import strategies as st

from lxgpu.model.snapshot import Snapshot
from lxgpu.policy.desk import Desk
from lxgpu.policy.pending import need_of
from lxgpu.policy.routing import hosts_for
from lxgpu.policy.supply import Supply, supply

SITES = st.builds(lambda seed: site(random.Random(seed)), st.integers(0, 10_000_000))  # noqa: S311 -- made-up sites


def _hosts(snapshot: Snapshot, other: Snapshot) -> list[Snapshot]:
    """Host h with its cards, and host k with those of another site: its reservations are those of h."""
    gpus = tuple(replace(gpu, uuid=f"o{gpu.uuid}", host="k") for gpu in other.seen.gpus)
    return [snapshot, replace(snapshot, seen=replace(other.seen, host="k", gpus=gpus, readings=None))]


@settings(max_examples=300)
@given(snapshot=SITES, other=SITES)
def test_a_host_that_is_named_for_now_can_supply(snapshot, other) -> None:
    """For every need of the site: at once where any can, else by the one whose holders lose least."""
    hosts = _hosts(snapshot, other)
    desk = Desk(snapshot)
    for row in desk.mine():
        need = need_of(desk, row)
        need = replace(need, gpus=max(1, need.gpus))
        route = hosts_for(hosts, need)
        answers = [supply(one, need) for one in hosts]
        can = {place: one for place, one in enumerate(answers) if isinstance(one, Supply)}
        at_once = {place for place, one in can.items() if not one.units}
        assert set(route.now) <= can.keys()
        assert bool(route.now) == bool(can)
        assert not at_once or set(route.now) == at_once
