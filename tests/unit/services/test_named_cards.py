"""`--gpu` takes a UUID, the beginning of one, or an address, wherever a card is named."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fakes.site import make_site, newcomer, request_for

from lxgpu.errors import LxgpuError
from lxgpu.model.request import GpuRequest
from lxgpu.services import lending, provision


@pytest.fixture
def site(tmp_path):
    """A host with three cards."""
    return make_site(tmp_path, gpus=3)


def held(site, name="alice"):
    """The cards of a container, by their numbers."""
    uuids = [row.slot.gpu for row in site.inventory.read().held_by(name)]
    return {number for number, card in enumerate(site.engine.cards, start=1) if card.uuid in uuids}


def attach(site, *texts):
    """Attach the cards named."""
    request = GpuRequest(instance="alice", owner="", more=0, uuids=texts)
    lending.attach(site, "alice", number=len(texts), more=True, request=request, lease_s=None)


def test_create_attach_and_release_take_every_form(site):
    """By lspci's address, by the beginning of a UUID, by nvidia-smi's address."""
    wanted = request_for(site, "alice")
    provision.create(site, replace(wanted, gpus=replace(wanted.gpus, more=1, uuids=("13:00.0",))))
    assert held(site) == {3}
    attach(site, "GPU-00000001")
    assert held(site) == {1, 3}
    lending.release(site, "alice", count=None, uuids=("00000000:13:00.0",))
    assert held(site) == {1}


def test_one_card_named_twice_is_one_card(site):
    """The same card by address and by UUID asks for one, not for two."""
    newcomer(site, "alice")
    attach(site, "11:00.0", site.engine.cards[0].uuid)
    assert held(site) == {1}


def test_a_name_of_no_card_changes_nothing(site):
    """Refused with `no_such_gpu` by each of them."""
    newcomer(site, "alice", gpus=1)
    before = site.inventory.read()
    wanted = request_for(site, "bob")
    calls = (
        lambda: attach(site, "GPU-f00d"),
        lambda: lending.release(site, "alice", count=None, uuids=("GPU-f00d",)),
        lambda: provision.create(site, replace(wanted, gpus=replace(wanted.gpus, more=1, uuids=("GPU-f00d",)))),
    )
    for call in calls:
        with pytest.raises(LxgpuError) as caught:
            call()
        assert caught.value.code == "no_such_gpu"
    assert site.inventory.read() == before


def test_a_dead_card_can_be_given_back(site):
    """The host shows it no more: it is still released by the beginning of its UUID."""
    newcomer(site, "alice", gpus=1)
    site.engine.cards = site.engine.cards[1:]
    plan = lending.plan_release(site, "alice", count=None, uuids=("GPU-00000001",), busy=False)[1]
    assert [step.do for step in plan.steps] == ["release"]
