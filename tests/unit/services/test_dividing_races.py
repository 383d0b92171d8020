"""Parts of cards when things cross: a card divided under a request, faults, who does not let go, a lost inventory."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fakes.site import lab_policy, make_gpus, make_site, newcomer

from lxgpu.errors import LxgpuError
from lxgpu.model.assignment import AssignmentState, SlotRecord
from lxgpu.model.gpu import Slot
from lxgpu.model.request import GpuRequest, ReserveRequest
from lxgpu.model.rules import CardRule, Mode, PriorityClass
from lxgpu.policy.drift import findings
from lxgpu.ports import Change
from lxgpu.services import fence, inservice, lending, observe
from lxgpu.services.fence import FenceState
from lxgpu.services.rebuild import rebuild
from lxgpu.services.reserve import reserve
from lxgpu.services.tick import tick
from lxgpu.services.wanted import KEY_HOLDS

QUARTER = "* 0.25"


def divided(slots):
    """The lab's policy, with the first card divided so, and a class that yields slowly."""
    rule = CardRule(Mode.TIMESHARE, slots) if slots > 1 else CardRule(Mode.EXCLUSIVE)
    policy = lab_policy()
    low = PriorityClass("low", priority=10, min_runtime_s=0, grace_s=2, term_wait_s=20)
    rules = replace(policy.rules, cards={make_gpus(1)[0].uuid: rule})
    return replace(policy, rules=rules, classes={**policy.classes, "low": low})


@pytest.fixture
def site(tmp_path):
    """Two cards, the first in four parts; alice, bob and carol have containers without cards."""
    made = make_site(tmp_path, gpus=2, policy=divided(4))
    for name in ("alice", "bob", "carol"):
        newcomer(made, name)
    tick(made)
    return made


def lend(site, name, model=QUARTER, *, number=1, more=False, class_name=""):
    """As `lxgpu attach NAME --gpus` does it."""
    request = GpuRequest(name, "", 0, model=model, class_name=class_name)
    return lending.attach(site, name, number=number, more=more, request=request, lease_s=None)


def held(site, name):
    """What a container holds and has not given up."""
    rows = site.inventory.read().held_by(name)
    return [row.slot.gpu for row in rows if row.state is not AssignmentState.QUARANTINED]


def crossed(site, act):
    """The same site, on which `act` happens between a command's look and its write."""
    kept, done = site.inventory, []

    class Late:
        """The inventory; before the first transaction something else happens."""

        def __getattr__(self, name):
            return getattr(kept, name)

        def write(self, **how):
            if not done:
                done.append(True)
                act()
            return kept.write(**how)

    return replace(site, inventory=Late())


def test_a_part_of_a_card_that_was_divided_meanwhile_is_proven_like_any(site):
    """Looked at whole, granted in parts: with a process of the host's on the card nobody gets it."""
    whole = replace(site, policy=lambda: divided(1))
    tick(whole)
    site.probe.run(None, site.engine.cards[0].nodes, memory_bytes=2**30)
    with pytest.raises(LxgpuError) as refused:
        lend(crossed(site, lambda: tick(site)), "alice")
    assert refused.value.code in {"not_free", "no_such_model"}
    assert held(site, "alice") == []


def test_a_card_that_became_whole_meanwhile_is_not_lent_in_parts(site):
    """What the rows say now counts, and not what was looked at."""
    whole = replace(site, policy=lambda: divided(1))
    with pytest.raises(LxgpuError) as refused:
        lend(crossed(whole, lambda: tick(whole)), "alice")
    assert refused.value.code == "no_such_model"
    assert held(site, "alice") == []
    assert findings(site.inventory.read(), observe.look(site)) == ()


def test_a_whole_card_is_proven_as_such_also_beside_a_part(site):
    """Memory that nobody knows is a reason to doubt a whole card, whatever is given back with it."""
    lend(site, "alice")
    lend(site, "bob")
    lend(site, "alice", model="*", more=True)
    whole = site.engine.cards[1]
    site.probe.own_memory[whole.uuid] = 5 * 2**30
    gpus = [gpu for gpu in observe.snapshot(site).seen.gpus if gpu.uuid in held(site, "alice")]
    assert len(gpus) == 2
    found = fence.look(site, gpus, suspects=["alice"]).verdicts
    assert {uuid: verdict.state for uuid, verdict in found.items()} == {
        next(one for one in held(site, "alice") if one != whole.uuid): FenceState.PROVEN,
        whole.uuid: FenceState.HELD,
    }


def test_a_card_with_a_fault_gives_out_no_part(site):
    """Told of after the grant, and still before the attach."""
    card = site.engine.cards[0].uuid

    def fault(moment, call, name):
        del moment, call, name
        with site.write() as tx:
            tx.put(SlotRecord(Slot(card), site.host, quarantine="Xid 79: fallen off the bus"))

    lend(site, "bob")
    lending.release(site, "bob", count=None)
    request = GpuRequest("alice", "", 0, model=QUARTER)
    late = crossed(site, lambda: fault("", "", ""))
    with pytest.raises(LxgpuError):
        lending.attach(late, "alice", number=1, more=False, request=request, lease_s=None)
    assert held(site, "alice") == []


def test_what_is_promised_counts_as_had(site):
    """Alice waits for a part whose holder does not let go; another one that comes free is not given besides."""
    for name in ("dave", "eve"):
        newcomer(site, name)
    for name in ("bob", "carol", "dave", "eve"):
        lend(site, name, class_name="low")
        site.probe.run(site.engine.init(name), site.engine.cards[0].nodes, memory_bytes=1, ignores_term=True)
    reserve(site, ReserveRequest("alice", "alice", 1, 600, model=QUARTER))
    for _ in range(60):
        tick(site)
        site.clock.sleep(1)
        if any(row.state is AssignmentState.RELEASING for row in site.inventory.read().assignments):
            break
    other = next(row for row in site.inventory.read().assignments if row.state is AssignmentState.ACTIVE)
    lending.release(site, other.instance, count=None, busy=True)
    with pytest.raises(LxgpuError) as refused:
        lend(site, "alice")
    assert refused.value.code == "one_part"
    for _ in range(60):
        tick(site)
        site.clock.sleep(1)
        assert len(held(site, "alice")) <= 1
    assert len(held(site, "alice")) == 1


def test_a_quarter_is_no_whole_card(site):
    """`--gpus 1` of one who has a quarter is one whole card besides, and the other way about."""
    assert lend(site, "alice")
    assert lend(site, "alice", model="*")
    assert sorted(Slot(one).part for one in held(site, "alice")) == ["1/4", "whole"]
    assert not lend(site, "alice")
    assert not lend(site, "alice", model="*")


def test_a_lost_inventory_learns_the_layout_from_who_holds_parts(site):
    """The mirror of how cards are divided had not been written when the machine went down."""
    lend(site, "alice")
    promises = site.engine.server()
    text = promises.promises["user.lxgpu.promises"]
    site.engine.put_promises({"user.lxgpu.promises": text.replace('"layouts"', '"nothing"')}, etag=promises.etag)
    rebuild(site)
    assert site.inventory.read().card(site.engine.cards[0].uuid).layout == "4"
    assert len(held(site, "alice")) == 1


def test_a_lost_inventory_is_rebuilt_where_holders_contradict_each_other(site):
    """Alice's marks are of a time when the card was divided, bob has it whole: quarantine, and nobody is in the way."""
    lend(site, "alice")
    old = site.engine.instance("alice").config[KEY_HOLDS]
    lending.release(site, "alice", count=None)
    whole = replace(site, policy=lambda: divided(1))
    tick(whole)
    card = site.engine.cards[0].uuid
    lending.attach(whole, "bob", number=1, more=False, request=GpuRequest("bob", "", 0, uuids=(card,)), lease_s=None)
    seen = site.engine.instance("alice")
    site.engine.update("alice", Change(config={KEY_HOLDS: old}, devices={}), etag=seen.etag)
    told = rebuild(whole)
    assert any("whole and in parts" in text for text in told.troubles)
    rows = [row for row in site.inventory.read().assignments if row.slot.card == card]
    assert [row.state for row in rows] == [AssignmentState.QUARANTINED]


def test_a_part_in_quarantine_is_opened_while_a_neighbour_works(site):
    """By the card's name or the part's: the neighbour's hold is no reason, and nobody is told to end it."""
    lend(site, "alice")
    lend(site, "bob")
    card, part = site.engine.cards[0], held(site, "alice")[0]
    stuck = site.probe.run(site.engine.init("alice"), card.nodes, memory_bytes=1, stuck=True)
    with pytest.raises(LxgpuError, match="could not be proven free"):
        lending.release(site, "alice", count=None, busy=True)
    assert site.inventory.read().slot(Slot(part)).quarantine
    with pytest.raises(LxgpuError) as refused:
        inservice.open_again(site, part)
    assert "bob" not in refused.value.fix
    site.probe.end(stuck)
    site.probe.processes.clear()
    assert inservice.open_again(site, card.uuid)
    assert not site.inventory.read().slot(Slot(part)).quarantine
    assert len(held(site, "bob")) == 1


@pytest.mark.parametrize("name", ["uuid", "pci", "beginning"])
def test_a_part_is_given_back_by_the_name_of_its_card(site, name):
    """Whatever of the card's names is typed, it means the part that this container has."""
    lend(site, "bob")
    lend(site, "alice")
    card = site.engine.cards[0]
    text = {"uuid": card.uuid, "pci": card.pci, "beginning": card.uuid[:12]}[name]
    assert lending.release(site, "alice", count=None, uuids=(text,))
    assert (held(site, "alice"), len(held(site, "bob"))) == ([], 1)
