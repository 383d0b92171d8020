"""MIG slices: lent like cards, made after the layout is written and again after a boot, told when they are missing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fakes.site import lab_policy, make_gpus, make_site, newcomer

from lxgpu.errors import LxgpuError
from lxgpu.model.request import GpuRequest, ReserveRequest
from lxgpu.model.rules import CardRule, Mode
from lxgpu.services import dividing, lending, observe
from lxgpu.services.cards import card_views
from lxgpu.services.power import restart
from lxgpu.services.rebuild import rebuild
from lxgpu.services.reserve import reserve
from lxgpu.services.slicing import settle_slices
from lxgpu.services.tick import tick
from lxgpu.services.verify import verify

LAYOUT = ("3g.20gb", "2g.10gb", "2g.10gb")
CARDS = [replace(make_gpus(1)[0], model="NVIDIA A100-SXM4-40GB"), *make_gpus(2)[1:]]
CARD = CARDS[0].uuid


class Killed(BaseException):
    """The process is killed here."""


@pytest.fixture
def rules():
    """How the policy divides the card, by its slices; a test changes it."""
    return list(LAYOUT)


@pytest.fixture
def site(tmp_path, rules):
    """An A100 that is to be divided and another card; alice and bob have containers without cards."""
    made = make_site(tmp_path, gpus=CARDS)

    def policy():
        rule = CardRule(Mode.MIG, slices=tuple(rules)) if rules else CardRule(Mode.EXCLUSIVE)
        base = lab_policy()
        return replace(base, rules=replace(base.rules, cards={CARD: rule}))

    made = replace(made, policy=policy)
    for name in ("alice", "bob"):
        newcomer(made, name)
    return made


def lend(site, name, profile):
    """As `lxgpu attach NAME --mig PROFILE` does it."""
    request = GpuRequest(name, "", 0, model=f"* {profile}")
    return lending.attach(site, name, number=1, more=False, request=request, lease_s=None)


def states(site):
    """The state of each slot of the card, by its part."""
    seen = observe.look(site, readings=True)
    cards = card_views(site.inventory.read(), seen, seen.readings, mode=lambda _: "mig")
    (view,) = [view for view in cards.views if view.uuid == CARD]
    return {slot.slot.partition("/")[2]: slot.holder or slot.state for slot in view.slots}


def caps(site, name):
    """The capability nodes that a container has and opens, by number."""
    init = site.engine.init(name)
    inside = [node for node in site.engine.nodes(name) if "nvidia-caps" in node.path]
    return {node.minor for node in site.probe.openable(init, inside)}


def made(site):
    """The numbers of capabilities of each slice of the card."""
    return [{node.minor for node in one.nodes} for one in site.probe.sliced.get(CARD, ())]


def test_slices_are_lent_and_given_back_like_cards(site):
    """Each holder opens the card's node and their own two, nobody else's; whole cards are no slices."""
    tick(site)
    assert states(site) == {"1-3g.20gb": "free", "2-2g.10gb": "free", "3-2g.10gb": "free"}
    lend(site, "alice", "3g.20gb")
    lend(site, "bob", "2g.10gb")
    assert [caps(site, name) for name in ("alice", "bob")] == made(site)[:2]
    assert states(site) == {"1-3g.20gb": "alice", "2-2g.10gb": "bob", "3-2g.10gb": "free"}
    every = [node for one in site.probe.sliced[CARD] for node in one.nodes]
    open_to_bob = site.probe.openable(site.engine.init("bob"), every)
    assert {node.minor for node in open_to_bob} == made(site)[1]
    assert verify(site) == ()
    lending.release(site, "alice", count=None)
    assert not caps(site, "alice")
    assert states(site)["1-3g.20gb"] == "free"
    with pytest.raises(LxgpuError, match="no card's model") as refused:
        lend(site, "alice", "4g.20gb")
    assert refused.value.code == "no_such_model"


def test_a_slice_is_proven_free_by_its_own_processes(site):
    """Who gives one back ends; the neighbour on the same card works on."""
    tick(site)
    lend(site, "alice", "3g.20gb")
    lend(site, "bob", "2g.10gb")
    jobs = {
        name: site.probe.run(site.engine.init(name), site.engine.nodes(name), memory_bytes=2**30)
        for name in ("alice", "bob")
    }
    lending.release(site, "alice", count=None, busy=True)
    assert not site.probe.alive(jobs["alice"])
    assert site.probe.alive(jobs["bob"])
    assert states(site)["1-3g.20gb"] == "free"


def test_nobody_waits_for_what_their_own_slice_keeps_from_them(site):
    """A container has one part of a card: who has one does not queue for another kind, nor the other way about."""
    tick(site)
    lend(site, "alice", "2g.10gb")
    lend(site, "bob", "3g.20gb")
    with pytest.raises(LxgpuError) as refused:
        reserve(site, wish("alice", "3g.20gb"))
    assert (refused.value.code, "2-2g.10gb" in said(refused.value)) == ("one_part", True)
    lending.release(site, "alice", count=None)
    assert reserve(site, wish("alice", "3g.20gb")).reservations[0].state.value == "waiting"
    with pytest.raises(LxgpuError) as refused:
        lend(site, "alice", "2g.10gb")
    assert (refused.value.code, "waits for 3g.20gb" in said(refused.value)) == ("one_part", True)


def said(error):
    """What an error says, with its reasons."""
    return " ".join([error.brief, *error.why])


def wish(name, profile):
    """As `lxgpu reserve NAME --mig PROFILE --for 1h` asks."""
    return ReserveRequest(name, "", 1, 3600, model=f"* {profile}")


@pytest.mark.parametrize("when", ["make", "make:late"])
def test_a_change_that_is_cut_off_is_finished_by_the_next_look(site, when):
    """Killed before or after the card was divided: nothing of it is lent meanwhile, and then all of it."""
    site.slicer.fails[when] = Killed()
    with pytest.raises(Killed):
        dividing.divide_now(site, CARD)
    assert set(states(site).values()) == {"missing"}
    with pytest.raises(LxgpuError) as refused:
        lend(site, "alice", "3g.20gb")
    assert refused.value.code == "no_capacity"
    assert [one.code for one in verify(site)] == ["unmade_slices"]
    tick(site)
    assert set(states(site).values()) == {"free"}
    assert verify(site) == ()


def test_a_change_that_was_taken_back_leaves_no_slices(site, rules):
    """Killed after the card was divided, and the policy says whole again: the slices nobody knows of go."""
    site.slicer.fails["make:late"] = Killed()
    with pytest.raises(Killed):
        dividing.divide_now(site, CARD)
    rules.clear()
    tick(site)
    assert CARD not in site.probe.sliced
    assert states(site) == {"": "free"}


def test_a_card_that_cannot_be_divided_is_told_and_no_other_waits_for_it(site):
    """In use by somebody: the tick says so, lends nothing of it, and tries again."""
    site.slicer.fails["make"] = LxgpuError("conflict", f"{CARD} is in use, so its MIG slices cannot be changed")
    ticked = tick(site)
    assert any("in use" in text for text in ticked.troubles)
    assert set(states(site).values()) == {"missing"}
    tick(site)
    assert set(states(site).values()) == {"free"}


@pytest.mark.parametrize(
    ("slices", "said"),
    [(("3g.20gb", "1g.7gb"), "does not offer 1g.7gb"), (("4g.20gb", "1g.10gb", "1g.10gb", "1g.5gb"), "no room")],
)
def test_layouts_that_cannot_be_are_told_before_anything_changes(site, rules, slices, said):
    """A profile that the card does not have, or too many: what it offers is said."""
    rules[:] = slices
    with pytest.raises(LxgpuError) as refused:
        dividing.divide_now(site, CARD)
    assert refused.value.code == "bad_file"
    why = " ".join(refused.value.why)
    assert said in why
    assert "1g.5gb, 1g.10gb, 2g.10gb, 3g.20gb, 4g.20gb, 7g.40gb" in why
    assert any("cannot be divided" in text for text in tick(site).troubles)
    assert states(site) == {"": "free"}
    assert site.slicer.asked == []


def test_a_card_without_mig_cannot_be_divided(site):
    """Said of the card that the policy names."""
    base = site.policy()
    rule = {CARDS[1].uuid: CardRule(Mode.MIG, slices=("1g.5gb",))}
    other = replace(site, policy=lambda: replace(base, rules=replace(base.rules, cards=rule)))
    with pytest.raises(LxgpuError, match="cannot be divided") as refused:
        dividing.divide_now(other, CARDS[1].uuid)
    assert "has no MIG" in refused.value.why[0]


def test_after_a_boot_the_slices_are_made_again_for_their_holders(site):
    """Gone with the boot: missing, lent to nobody; made again, with whatever numbers, and who had one has it."""
    tick(site)
    lend(site, "alice", "2g.10gb")
    before = caps(site, "alice")
    site.probe.boot = "boot-2"
    site.probe.sliced[CARD] = (site.slicer.slice_of(CARD, "1g.5gb", 6, 1),)
    assert set(states(site).values()) == {"alice", "missing"}
    tick(site)
    assert set(states(site).values()) == {"alice", "free"}
    restart(site, "alice", force=True)
    assert caps(site, "alice") in made(site)
    assert before
    assert verify(site) == ()


def test_a_slice_that_was_taken_away_by_hand_is_missing_until_it_is_made_again(site):
    """The others stay as they are; the holder of another one keeps it and its nodes."""
    tick(site)
    lend(site, "alice", "3g.20gb")
    kept = caps(site, "alice")
    site.probe.sliced[CARD] = site.probe.sliced[CARD][:2]
    assert states(site) == {"1-3g.20gb": "alice", "2-2g.10gb": "free", "3-2g.10gb": "missing"}
    assert [one.code for one in verify(site)] == ["missing_slice"]
    tick(site)
    assert states(site) == {"1-3g.20gb": "alice", "2-2g.10gb": "free", "3-2g.10gb": "free"}
    assert caps(site, "alice") == kept


def test_who_holds_a_slice_that_comes_back_under_other_numbers_gets_these(site):
    """Its old nodes go from the running container, the new ones come, and no other's are open to it."""
    tick(site)
    lend(site, "alice", "2g.10gb")
    old, site.probe.sliced[CARD] = caps(site, "alice"), site.probe.sliced[CARD][:1] + site.probe.sliced[CARD][2:]
    lend(site, "bob", "2g.10gb")
    site.probe.sliced[CARD] = (site.slicer.slice_of(CARD, "1g.5gb", 0, 2), *site.probe.sliced[CARD])
    tick(site)
    assert caps(site, "alice") in made(site)
    assert old
    assert caps(site, "alice").isdisjoint(caps(site, "bob"))
    assert verify(site) == ()


def test_who_comes_late_to_a_card_that_was_changed_meanwhile_leaves_it(site, rules):
    """A look from before the change: the card is whole by now, and stays it."""
    tick(site)
    site.probe.boot = "boot-2"
    late = observe.snapshot(site, readings=True)
    rules.clear()
    tick(site)
    assert settle_slices(site, late) == 0
    assert CARD not in site.probe.sliced
    assert states(site) == {"": "free"}


def test_a_card_that_was_put_into_mig_mode_by_hand_is_lent_to_nobody(site, rules):
    """It is told of, with what to do."""
    rules.clear()
    tick(site)
    site.probe.sliced[CARD] = ()
    (found,) = verify(site)
    assert (found.code, found.subject) == ("mig_by_hand", CARD)
    request = GpuRequest("alice", "", 0, uuids=(CARD,))
    with pytest.raises(LxgpuError, match="alice") as refused:
        lending.attach(site, "alice", number=1, more=True, request=request, lease_s=None)
    assert "not by lxgpu" in " ".join([refused.value.brief, *refused.value.why])


def test_a_rebuilt_inventory_finds_the_slices_as_they_are(site):
    """The layout and the holders come from LXD, the numbers from the card; a program that runs never notices."""
    tick(site)
    lend(site, "alice", "2g.10gb")
    before, mine = dict(site.probe.sliced), caps(site, "alice")
    inside = site.engine.instance("alice").devices
    rebuild(site)
    assert (site.engine.instance("alice").devices, caps(site, "alice")) == (inside, mine)
    tick(site)
    assert states(site) == {"1-3g.20gb": "free", "2-2g.10gb": "alice", "3-2g.10gb": "free"}
    assert site.probe.sliced == before
    assert verify(site) == ()


def test_a_slice_that_is_not_known_yet_is_not_proven(site):
    """Given back after a rebuild that could not ask the card: not free as long as somebody may be on it."""
    tick(site)
    lend(site, "alice", "2g.10gb")
    (job,) = [site.probe.run(None, site.probe.sliced[CARD][1].nodes, memory_bytes=2**30)]
    site.slicer.fails["make"] = LxgpuError("unavailable", "NVML does not answer")
    rebuild(site)
    with pytest.raises(LxgpuError) as refused:
        lending.release(site, "alice", count=None, busy=True)
    assert refused.value.code == "quarantined"
    assert "has yet to be found out" in said(refused.value)
    assert site.probe.alive(job)


def test_a_card_becomes_whole_once_nobody_has_a_slice(site, rules):
    """Who has one is in the way and keeps it; then the slices go, and the card is lent whole."""
    tick(site)
    lend(site, "alice", "2g.10gb")
    rules.clear()
    with pytest.raises(LxgpuError) as refused:
        dividing.divide_now(site, CARD)
    assert "alice holds" in " ".join(refused.value.why)
    lending.release(site, "alice", count=None)
    tick(site)
    assert CARD not in site.probe.sliced
    assert states(site) == {"": "free"}
    request = GpuRequest("alice", "", 0, uuids=(CARD,))
    lending.attach(site, "alice", number=1, more=True, request=request, lease_s=None)
    assert states(site) == {"": "alice"}
