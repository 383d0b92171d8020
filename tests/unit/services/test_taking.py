"""Taking cards looks at everybody once, and at those that had them while they stand still."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakes.engine_core import FakeInstance
from fakes.site import make_site, newcomer

from lxgpu.model.assignment import AssignmentState
from lxgpu.model.gpu import Gpu
from lxgpu.services import fence, lending
from lxgpu.services.site import Site


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """Alice holds two cards, bob none."""
    made = make_site(tmp_path, gpus=2)
    newcomer(made, "alice", gpus=2)
    newcomer(made, "bob")
    return made


def release(site: Site) -> None:
    """`lxgpu release alice --all`."""
    site.probe.looks.clear()
    lending.release(site, "alice", count=None, busy=True)


def card_of(site: Site) -> Gpu:
    """One of alice's cards."""
    return site.engine.cards[0]


def states(site: Site) -> list[AssignmentState]:
    """What alice's assignments are."""
    return [row.state for row in site.inventory.read().held_by("alice")]


def test_a_quiet_release_looks_three_times(site: Site) -> None:
    """Before TERM in motion, then all others once and her container once at rest; all cards in one look."""
    init = site.engine.init("alice")
    release(site)
    assert site.probe.looks == [((init,), False), (None, True), ((init,), True)]
    assert states(site) == []


def test_what_is_handed_round_is_found_at_rest_and_killed(site: Site) -> None:
    """No look in motion sees it: the fence's does, and what it finds is ended, not put into quarantine."""
    process = site.probe.run(site.engine.init("alice"), card_of(site).nodes, slips=True)
    release(site)
    assert not site.probe.alive(process)
    assert states(site) == []
    assert all(record.proven(site.probe.boot_id()) for record in site.inventory.read().slots)


def test_who_gets_hold_of_it_elsewhere_is_not_killed_by_this_release(site: Site) -> None:
    """Another container's process keeps the card from being closed, and lives."""
    process = site.probe.run(site.engine.init("bob"), card_of(site).nodes)
    site.probe.processes[-1].nodes = frozenset(card_of(site).nodes)
    with pytest.raises(Exception, match="could not be proven free"):
        release(site)
    assert site.probe.alive(process)
    assert states(site) == [AssignmentState.QUARANTINED]


def test_those_who_can_meet_stand_still_together(site: Site) -> None:
    """A descriptor could go from one to the other between two looks; who shares nothing is not held up."""
    newcomer(site, "carol")
    shared = {"type": "disk", "source": "/srv/team", "path": "/team"}
    for name in ("alice", "bob"):
        machine: FakeInstance = site.engine.machines["default", name]
        machine.devices["team"] = dict(shared)
    site.probe.looks.clear()
    fence.look(site, site.engine.cards, suspects=["alice"])
    pair = tuple(site.engine.init(name) for name in ("alice", "bob"))
    assert site.probe.looks == [(None, True), (pair, True)]


def test_a_proof_is_as_old_as_its_look(site: Site) -> None:
    """What is detached while the look lasts is not proven by it."""
    before = site.clock.now()
    release(site)
    for record in site.inventory.read().slots:
        assert record.detached_at is not None
        assert before <= record.detached_at <= record.proven_at
