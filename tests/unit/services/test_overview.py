"""`status`: one host on one screen, with what is wrong and the next step."""

from __future__ import annotations

import pytest
from fakes.site import make_site, newcomer
from inventory_rows import operation

from lxgpu.errors import LxgpuError
from lxgpu.model.snapshot import Records
from lxgpu.ports import Change
from lxgpu.services import inservice, looking
from lxgpu.services.cards import card_views
from lxgpu.services.overview import PoolView, pool_view, status_view
from lxgpu.services.report import instance_views


@pytest.fixture
def site(tmp_path):
    """A host with two cards and no container."""
    return make_site(tmp_path, gpus=2)


class Away:
    """An engine that does not answer."""

    def __getattr__(self, name):
        def refuse(*_args, **_how):
            raise LxgpuError("unavailable", "LXD cannot be reached", why="no such socket", fix="lxgpu doctor")

        return refuse


def status(site, *, engine=None, records=None):
    """The host as it is."""
    engine = engine or site.engine
    rows = site.inventory.read() if records is None else records
    look = looking.look(engine, site.probe, rows, host=site.host, at=site.clock.now())
    cards = card_views(rows, look.seen, look.readings, mode=lambda _: None)
    views = instance_views(rows, look.seen.sightings if look.seen else None, site.settings)
    pool = pool_view(engine, site.settings.pool)
    return status_view(look, cards, views, pool, host=site.host, warn_percent=80)


def subjects(view):
    """What the problems are about."""
    return [problem.subject for problem in view.problems]


def test_a_host_in_order(site):
    """Counts, and no problem."""
    newcomer(site, "alice", gpus=1)
    newcomer(site, "bob")
    view = status(site)
    assert (view.gpus.total, view.gpus.free) == (2, 1)
    assert view.containers == {"running": 2}
    assert view.pool.used_percent == 1.0
    assert view.operations == ()
    assert view.problems == ()


def test_what_is_wrong_is_named_with_a_next_step(site):
    """A foreign card, a sick card, NVML's own fault, a container that is gone: each by name."""
    newcomer(site, "alice")
    newcomer(site, "bob")
    first, second = site.engine.cards
    site.engine.update("bob", Change(devices={"x": {"type": "gpu", "pci": first.pci}}), etag=None)
    site.probe.faults[second.uuid] = "lost"
    site.engine.stop("alice", timeout_s=0, force=True)
    site.engine.delete("alice")
    view = status(site)
    assert subjects(view) == [first.uuid, second.uuid, "alice"]
    assert all(problem.fix for problem in view.problems)
    site.probe.error = "driver/library version mismatch"
    assert "NVML" in subjects(status(site))


def test_a_closed_card_is_no_problem(site):
    """An admin closed it on purpose."""
    inservice.close(site, site.engine.cards[0].uuid, reason="kept for the demo")
    assert status(site).problems == ()


def test_without_lxd_the_rest_is_told(site):
    """LXD away is the problem; what the inventory knows is shown, the pool and what is free are not known."""
    newcomer(site, "alice", gpus=1)
    view = status(site, engine=Away())
    assert view.containers == {"unreachable": 1}
    assert (view.gpus.total, view.gpus.free) == (2, None)
    assert view.pool == PoolView(name="default")
    assert subjects(view) == ["LXD"]
    assert "no such socket" in view.problems[0].text


def test_a_lost_inventory_is_noticed(site):
    """LXD carries marks of containers that the inventory does not know."""
    newcomer(site, "alice")
    view = status(site, records=Records(version=0, identity=None))
    assert subjects(view) == ["inventory"]
    assert "alice" in view.problems[0].text


def test_a_full_pool_warns(site):
    """From the policy's limit on."""
    look = looking.look(site.engine, site.probe, site.inventory.read(), host=site.host, at=site.clock.now())
    cards = card_views(look.records, look.seen, look.readings, mode=lambda _: None)
    full = PoolView("default", "btrfs", 100, 85, 85.0)
    assert subjects(status_view(look, cards, (), full, host="h", warn_percent=80)) == ["pool default"]
    assert subjects(status_view(look, cards, (), full, host="h", warn_percent=90)) == []


def test_what_is_under_way(site):
    """Operations that are not at their end, closed ones not."""
    newcomer(site, "alice")
    with site.write() as tx:
        tx.put(operation("o9", kind="release", instance="alice", step="fence", actor="carol"))
    (found,) = status(site).operations
    assert (found.kind, found.instance, found.step, found.actor, found.undoing) == (
        "release",
        "alice",
        "fence",
        "carol",
        False,
    )


def test_another_fault_than_lxds_goes_up(site):
    """Only LXD being out of order is lived with; what else fails is an error."""

    class Broken(Away):
        def __getattr__(self, name):
            def fail(*_args, **_how):
                raise LxgpuError("internal", "a fault")

            return fail

    with pytest.raises(LxgpuError, match="a fault"):
        looking.glance(Broken(), site.inventory.read())
