"""Divided cards: parts are lent, taken and proven like cards, each by itself; a card changes only while it is empty."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from fakes.site import lab_policy, make_gpus, make_site, newcomer

from lxgpu.errors import LxgpuError
from lxgpu.model.request import GpuRequest, ReserveRequest
from lxgpu.model.rules import CardRule, Mode, PriorityClass
from lxgpu.policy.drift import findings
from lxgpu.services import dividing, inservice, lending, observe
from lxgpu.services.cards import card_views
from lxgpu.services.rebuild import rebuild
from lxgpu.services.reserve import reserve
from lxgpu.services.sampling import take_samples
from lxgpu.services.tick import tick

QUARTER = "* 0.25"


@pytest.fixture
def site(tmp_path):
    """Two cards, the first one to be divided into four; alice, bob and carol have containers without cards."""
    made = make_site(tmp_path, gpus=2, policy=divided(4))
    for name in ("alice", "bob", "carol"):
        newcomer(made, name)
    return made


def divided(slots):
    """The lab's policy, with the first card divided so."""
    rule = CardRule(Mode.TIMESHARE, slots) if slots > 1 else CardRule(Mode.EXCLUSIVE)
    policy = lab_policy()
    return replace(policy, rules=replace(policy.rules, cards={make_gpus(1)[0].uuid: rule}))


def lend(site, name, model=QUARTER, number=1):
    """As `lxgpu attach NAME --gpus 0.25` does it."""
    request = GpuRequest(name, "", 0, model=model)
    return lending.attach(site, name, number=number, more=False, request=request, lease_s=None)


def held(site, name):
    """What a container holds, by the part's name without the card's."""
    return [row.slot.part for row in site.inventory.read().held_by(name)]


def nodes(site, name):
    """The nodes that a container opens."""
    init = site.engine.init(name)
    return site.probe.openable(init, [node for gpu in site.engine.cards for node in gpu.nodes])


def test_parts_of_one_card_go_to_several(site):
    """Each has a slot of its own, the card's nodes open for all of them and for nobody else, whole cards stay whole."""
    tick(site)
    for name in ("alice", "bob"):
        assert lend(site, name)
    assert sorted(held(site, "alice") + held(site, "bob")) == ["1/4", "2/4"]
    shared, other = site.engine.cards
    assert nodes(site, "alice") == nodes(site, "bob") == set(shared.nodes)
    assert nodes(site, "carol") == set()
    assert lend(site, "carol", model="*")
    assert held(site, "carol") == ["whole"]
    assert nodes(site, "carol") == set(other.nodes)
    assert not tick(site).troubles


def test_a_new_host_is_divided_at_once(tmp_path):
    """Its cards were never written down before the first tick."""
    fresh = make_site(tmp_path, gpus=2, policy=divided(4))
    tick(fresh)
    newcomer(fresh, "alice")
    assert lend(fresh, "alice")


def test_one_gives_back_and_the_neighbour_works_on(site):
    """The fence looks at who gives back alone: the neighbour's process is neither ended nor in the way."""
    tick(site)
    lend(site, "alice")
    lend(site, "bob")
    card = site.engine.cards[0]
    mine = site.probe.run(site.engine.init("alice"), card.nodes, memory_bytes=2**30)
    theirs = site.probe.run(site.engine.init("bob"), card.nodes, memory_bytes=2**30)
    lending.release(site, "alice", count=None, uuids=(), busy=True)
    assert held(site, "alice") == []
    assert nodes(site, "alice") == set()
    assert nodes(site, "bob") == set(card.nodes)
    assert site.probe.alive(theirs)
    assert not site.probe.alive(mine)
    assert site.inventory.read().slot(site.inventory.read().held_by("bob")[0].slot) is not None
    assert lend(site, "carol")


def test_a_card_changes_only_while_it_is_empty(site):
    """Refused with the names of those who are in the way; by itself once they are gone."""
    tick(site)
    lend(site, "alice")
    whole = replace(site, policy=lambda: divided(1))
    tick(whole)
    card = site.engine.cards[0].uuid
    assert site.inventory.read().card(card).layout == "4"
    with pytest.raises(LxgpuError) as refused:
        dividing.divide_now(whole, card)
    assert refused.value.code == "conflict"
    assert refused.value.why[0].startswith(f"alice holds {card}/1/4")
    assert held(site, "alice") == ["1/4"]
    lending.release(whole, "alice", count=None)
    tick(whole)
    assert site.inventory.read().card(card).layout == ""
    assert lend(whole, "alice", model="*", number=2)
    assert held(site, "alice") == ["whole", "whole"]
    tick(site)
    assert site.inventory.read().card(card).layout == "", "alice holds it whole"


def test_what_is_booked_keeps_its_cards(site):
    """A card that bookings of whole ones count on is not divided."""
    whole = replace(site, policy=lambda: divided(1))
    at = site.clock.now() + timedelta(hours=3)
    reserve(whole, ReserveRequest("alice", "alice", 2, 3600, at=at))
    tick(site)
    assert site.inventory.read().card(site.engine.cards[0].uuid).layout == ""
    _, found, _ = dividing.plan_division(site, site.engine.cards[0].uuid)
    assert [reason.code for reason in found.obstacles] == ["booked"]


def test_a_rebuilt_inventory_knows_the_parts(site):
    """LXD carries how cards are divided and who has which part."""
    tick(site)
    lend(site, "alice")
    before = site.inventory.read()
    rebuild(site)
    after = site.inventory.read()
    assert [card.layout for card in after.cards] == [card.layout for card in before.cards] == ["4", ""]
    assert held(site, "alice") == ["1/4"]
    assert findings(after, observe.look(site)) == ()


@pytest.mark.parametrize("model", [QUARTER, "*3090* 1/4"])
def test_nobody_has_two_parts(site, model):
    """Neither at once, nor one after the other, nor one lent and one booked, nor two in the queue."""
    tick(site)
    with pytest.raises(LxgpuError) as refused:
        lend(site, "alice", model=model, number=2)
    assert refused.value.code == "one_part"
    assert lend(site, "alice", model=model)
    assert not lend(site, "alice", model=model), "she has it already"
    with pytest.raises(LxgpuError) as refused:
        lending.attach(
            site, "alice", number=1, more=True, request=GpuRequest("alice", "", 0, model=model), lease_s=None
        )
    assert refused.value.code == "one_part"
    assert held(site, "alice") == ["1/4"]


def test_a_booked_part_is_taken_for_with_warning_and_given_back(site):
    """Four have all parts in a low class; bob's booking takes one of them, and its holder gets it back."""
    site = replace(site, policy=lambda: with_classes(divided(4)))
    tick(site)
    others = ["alice", "carol", "dave", "eve"]
    for name in ("dave", "eve"):
        newcomer(site, name)
    for name in others:
        request = GpuRequest(name, "", 0, model=QUARTER, class_name="low")
        lending.attach(site, name, number=1, more=False, request=request, lease_s=None)
    assert sorted(part for name in others for part in held(site, name)) == ["1/4", "2/4", "3/4", "4/4"]
    reserve(site, ReserveRequest("bob", "bob", 1, 60, model=QUARTER))
    wait(site, lambda: held(site, "bob"))
    (victim,) = [name for name in others if not held(site, name)]
    kinds = [event.kind for event in site.inventory.events(subject=victim)]
    assert "warned" in kinds
    assert "displaced" in kinds
    assert nodes(site, victim) == set()
    wait(site, lambda: held(site, victim), limit_s=120)
    assert held(site, "bob") == []
    assert findings(site.inventory.read(), observe.look(site)) == ()


def wait(site, done, limit_s=60):
    """The daemon at work until it is so."""
    for _ in range(limit_s):
        if done():
            return
        tick(site)
        site.clock.sleep(1)
    raise AssertionError("it did not come to that")


def with_classes(policy):
    """One more class, that yields to the others."""
    low = PriorityClass("low", priority=10, min_runtime_s=0, grace_s=2, term_wait_s=2)
    return replace(policy, classes={**policy.classes, "low": low})


def test_parts_are_idle_by_their_own_processes(site):
    """Bob works on the card that both have a part of: alice's part lies idle all the same, until she has a program."""
    tick(site)
    lend(site, "alice")
    lend(site, "bob")
    card = site.engine.cards[0]
    site.probe.run(site.engine.init("bob"), card.nodes, memory_bytes=2**30)
    site.probe.utilization[card.uuid] = 90
    for _ in range(5):
        take_samples(site, observe.look(site, readings=True), site.inventory.read())
        site.clock.sleep(60)
    last = {sample.uuid: sample for sample in site.inventory.samples(since=site.clock.now() - timedelta(hours=1))}
    slots = {name: site.inventory.read().held_by(name)[0].slot.gpu for name in ("alice", "bob")}
    assert (last[slots["alice"]].utilization_percent, last[slots["alice"]].processes) == (0, 0)
    assert (last[slots["bob"]].utilization_percent, last[slots["bob"]].processes) == (90, 1)
    assert last[card.uuid].utilization_percent == 90, "of the card itself too, for its history"
    site.probe.run(site.engine.init("alice"), card.nodes)
    take_samples(site, observe.look(site, readings=True), site.inventory.read())
    (*_, now) = site.inventory.samples(since=site.clock.now(), uuid=slots["alice"])
    assert (now.utilization_percent, now.processes) == (90, 1)


def test_the_list_of_cards_shows_the_parts(site):
    """Four slots of the divided card, with their holders; the card counts as free when all of them are."""
    tick(site)
    lend(site, "alice")
    records, seen = site.inventory.read(), observe.look(site, readings=True)
    views = card_views(records, seen, seen.readings, mode=lambda uuid: site.policy().rules.card(uuid).mode.value).views
    shared, other = views
    assert (shared.mode, other.mode) == ("timeshare", "exclusive")
    assert [(slot.slot.partition("/")[2], slot.holder, slot.state) for slot in shared.slots] == [
        ("1/4", "alice", "active"),
        ("2/4", None, "free"),
        ("3/4", None, "free"),
        ("4/4", None, "free"),
    ]
    assert [slot.slot for slot in other.slots] == [other.uuid]


def test_a_closed_card_lends_no_part(site):
    """And who has one keeps it."""
    tick(site)
    lend(site, "alice")
    card = site.engine.cards[0].uuid
    inservice.close(site, card, reason="noisy fan")
    with pytest.raises(LxgpuError) as refused:
        lend(site, "bob")
    assert refused.value.code == "no_capacity"
    assert held(site, "alice") == ["1/4"]
    inservice.open_again(site, card)
    assert lend(site, "bob")
