"""An operation that can never end must not block its container for good."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakes.faults import Fault
from fakes.site import make_site, newcomer

from lxgpu.errors import LxgpuError
from lxgpu.model.instance import Power
from lxgpu.services import ending, lending, power
from lxgpu.services.recover import recover
from lxgpu.services.site import Site
from lxgpu.services.verify import verify


def broken(folder: Path) -> Site:
    """Alice holds a card, and LXD cannot start her container any more, whatever is tried."""
    site = make_site(folder, gpus=2)
    newcomer(site, "alice", gpus=1)
    power.stop_instance(site, "alice", force=False)
    for _ in range(10):
        site.engine.inject(Fault.ERROR, call="start", name="alice")
    return site


def test_a_start_that_fails_for_good_gives_way(tmp_path: Path) -> None:
    """The start is tried again by each command, and the command that follows is not refused because of it."""
    site = broken(tmp_path)
    with pytest.raises(LxgpuError):
        power.start(site, "alice")
    recover(site)
    ending.delete(site, "alice", purge=False)
    records = site.inventory.read()
    assert [row.name for row in records.instances] == ["trash-alice"]
    assert not [row for row in records.operations if row.live]


def test_what_took_its_place_is_in_the_history(tmp_path: Path) -> None:
    """Giving up is an event with the step it stood at."""
    site = broken(tmp_path)
    with pytest.raises(LxgpuError):
        power.start(site, "alice")
    lending.release(site, "alice", count=None, busy=True)
    (event,) = [event for event in site.inventory.events(subject="alice") if event.kind == "given_up"]
    assert (event.rule, event.detail["step"]) == ("start", "start")


def test_a_dead_card_does_not_keep_its_holder_down(tmp_path: Path) -> None:
    """The container starts without the card, which stays its holder's and is reported as lost."""
    site = make_site(tmp_path, gpus=2)
    newcomer(site, "alice", gpus=1)
    power.stop_instance(site, "alice", force=False)
    (held,) = site.inventory.read().held_by("alice")
    site.engine.cards = [card for card in site.engine.cards if card.uuid != held.slot.gpu]
    power.start(site, "alice")
    assert site.engine.instance("alice").power is Power.RUNNING
    assert site.inventory.read().held_by("alice") == (held,)
    assert "lost_gpu" in {finding.code for finding in verify(site)}


def hanging(folder: Path) -> tuple[Site, str]:
    """Alice's card is being taken, and the command that took it was killed while a stubborn program held it."""
    site = make_site(folder, gpus=2)
    newcomer(site, "alice", gpus=1)
    (held,) = site.inventory.read().held_by("alice")
    card = next(gpu for gpu in site.engine.cards if gpu.uuid == held.slot.gpu)
    site.probe.run(site.engine.init("alice"), card.nodes, ignores_term=True, stuck=True)
    site.clock.sleep = lambda _: (_ for _ in ()).throw(KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        lending.release(site, "alice", count=None, busy=True)
    del site.clock.sleep
    return site, held.slot.gpu


@pytest.mark.parametrize("force", [True, False])
def test_a_container_whose_release_hangs_can_be_stopped(tmp_path: Path, *, force: bool) -> None:
    """The stop ends what holds the card; the release goes on by itself and finds it free."""
    site, uuid = hanging(tmp_path)
    with pytest.raises(LxgpuError, match="release of alice"):
        power.stop_instance(site, "alice", force=force)
    before = site.clock.monotonic()
    assert power.stop_beside(site, "alice", force=force)
    assert site.engine.instance("alice").power is Power.STOPPED
    assert site.clock.monotonic() - before < 1
    assert [row.kind for row in site.inventory.read().operations if row.live] == ["release"]
    recover(site)
    records = site.inventory.read()
    assert not records.held_by("alice")
    assert not [row for row in records.slots if row.slot.gpu == uuid and row.quarantine]
    assert site.engine.instance("alice").power is Power.STOPPED
    assert not records.instance("alice").running


def test_a_stop_of_what_has_nothing_in_hand_goes_the_usual_way(tmp_path: Path) -> None:
    """Nothing is stopped beside nothing."""
    site = make_site(tmp_path, gpus=1)
    newcomer(site, "alice")
    assert not power.stop_beside(site, "alice", force=False)
    assert site.engine.instance("alice").power is Power.RUNNING
