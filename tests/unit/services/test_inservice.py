"""Cards closed and opened by hand: a closed one goes to nobody, a quarantined one comes back only when proven free."""

from __future__ import annotations

import json

import pytest
from fakes.site import make_site, newcomer

from lxgpu.errors import LxgpuError
from lxgpu.model.assignment import AssignmentState
from lxgpu.model.gpu import Slot
from lxgpu.services import inservice, lending
from lxgpu.services.identity import KEY_PROMISES


@pytest.fixture
def site(tmp_path):
    """A host with two cards."""
    return make_site(tmp_path)


def first(site):
    """The first card."""
    return site.engine.cards[0]


def stuck(site):
    """Alice's card in quarantine: a process that nothing ends held it when it was taken."""
    newcomer(site, "alice", gpus=1)
    process = site.probe.run(site.engine.init("alice"), first(site).nodes, stuck=True)
    with pytest.raises(LxgpuError) as caught:
        lending.release(site, "alice", count=None, busy=True)
    assert caught.value.code == "quarantined"
    return process


def test_a_closed_card_goes_to_nobody(site):
    """Both cards are asked for and one is closed: refused, with who closed it and why; opened, it is given."""
    inservice.close(site, first(site).uuid[:14], reason="fan loud")
    with pytest.raises(LxgpuError) as caught:
        newcomer(site, "alice", gpus=2)
    assert caught.value.code == "no_capacity"
    assert any("closed by root: fan loud" in line for line in caught.value.why)
    assert inservice.open_again(site, first(site).pci)
    newcomer(site, "alice", gpus=2)


def test_who_holds_it_keeps_it(site):
    """Closing takes nothing away, says who keeps the card, and after the release nobody gets it."""
    newcomer(site, "alice", gpus=1)
    inservice.close(site, first(site).uuid, reason="to be moved")
    assert site.inventory.read().held_by("alice")
    assert any("alice keeps it" in line for line in site.say.lines)
    lending.release(site, "alice", count=None, busy=True)
    newcomer(site, "bob", gpus=1)
    assert site.inventory.read().held_by("bob")[0].slot.gpu == site.engine.cards[1].uuid


def test_the_reason_outlives_a_lost_inventory(site):
    """LXD's configuration carries reason and name until it is opened."""
    inservice.close(site, first(site).uuid, reason="fan loud")
    promise = json.loads(site.engine.server().promises[KEY_PROMISES])
    assert promise["closed"] == {first(site).uuid: ["fan loud", "root"]}
    inservice.open_again(site, first(site).uuid)
    assert "closed" not in json.loads(site.engine.server().promises[KEY_PROMISES])


def test_quarantine_ends_only_with_a_proof(site):
    """While the process lives: an error that names it. When it is gone: free, closed in the books, and lent again."""
    process = stuck(site)
    with pytest.raises(LxgpuError) as caught:
        inservice.open_again(site, first(site).uuid)
    assert caught.value.code == "quarantined"
    assert str(process.pid) in caught.value.why[0]
    assert site.inventory.read().slot(Slot(first(site).uuid)).quarantine
    site.engine.stop("alice", timeout_s=0, force=True)
    assert inservice.open_again(site, first(site).uuid)
    records = site.inventory.read()
    assert not records.slot(Slot(first(site).uuid)).quarantine
    assert not records.held_by("alice")
    newcomer(site, "bob", gpus=2)


def test_what_nvml_cannot_tell_is_no_proof(site):
    """The process is gone, and NVML does not answer: the card stays in quarantine."""
    stuck(site)
    site.engine.stop("alice", timeout_s=0, force=True)
    site.probe.error = "driver mismatch"
    with pytest.raises(LxgpuError) as caught:
        inservice.open_again(site, first(site).uuid)
    assert "driver mismatch" in caught.value.why[0]


def test_a_card_that_is_attached_somewhere_is_not_free(site):
    """Somebody attached it by hand in the meantime: named, and not opened."""
    stuck(site)
    site.engine.stop("alice", timeout_s=0, force=True)
    site.engine.add_stranger("zoe", devices={"g": {"type": "gpu", "pci": first(site).pci}})
    with pytest.raises(LxgpuError, match="stays in quarantine") as caught:
        inservice.open_again(site, first(site).uuid)
    assert "attached to zoe" in caught.value.why[0]


def test_a_card_that_vanished_is_not_opened(site):
    """In quarantine and no longer shown by the host: there is nothing to prove."""
    stuck(site)
    uuid = first(site).uuid
    site.engine.stop("alice", timeout_s=0, force=True)
    site.engine.cards = site.engine.cards[1:]
    with pytest.raises(LxgpuError) as caught:
        inservice.open_again(site, uuid)
    assert "no longer shows" in caught.value.why[0]


def test_opening_what_is_in_service_does_nothing(site):
    """No event, no write to LXD."""
    newcomer(site, "alice", gpus=1)
    events, writes = len(site.inventory.events()), site.engine.writes
    assert not inservice.open_again(site, first(site).uuid)
    assert (len(site.inventory.events()), site.engine.writes) == (events, writes)


def test_dry_run_writes_nothing(site):
    """The plans say who keeps the card and what would be proven."""
    stuck(site)
    before, writes = site.inventory.read(), site.engine.writes
    close = inservice.plan_close(site, first(site).uuid, reason="fan")
    again = inservice.plan_open(site, first(site).uuid)
    assert "alice keeps it" in close.steps[0].why
    assert [step.do for step in again.steps] == ["prove"]
    assert (site.inventory.read(), site.engine.writes) == (before, writes)
    assert before.held_by("alice")[0].state is AssignmentState.QUARANTINED
