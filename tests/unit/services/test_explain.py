"""`why` and the refusals that it tells of: who did it, when, by which rule."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from fakes.site import make_site, newcomer, request_for
from inventory_rows import at, operation

from lxgpu.errors import LxgpuError
from lxgpu.model.assignment import AssignmentState
from lxgpu.model.operation import Event
from lxgpu.model.request import GpuRequest
from lxgpu.ports import Change
from lxgpu.services import ending, explain, inservice, lending, looking
from lxgpu.services.cards import card_views
from lxgpu.services.many import create_many
from lxgpu.services.refusal import record_refusal, recording
from lxgpu.services.report import instance_views


@pytest.fixture
def site(tmp_path):
    """A host with two cards and no container."""
    return make_site(tmp_path, gpus=2, actor="carol (sudo)")


def why(site, name, *, later=timedelta(0)):
    """What is told of a container that the inventory has, at once or later."""
    found, seen = site.inventory.read(), site.engine.instances()
    views = instance_views(found, seen, site.settings, trashed=True)
    view = next(view for view in views if view.name == name)
    events = site.inventory.events(subject=name)
    now = site.clock.now() + later
    return explain.about_instance(found, found.instance(name), view, events, show=str, now=now)


def why_card(site, uuid):
    """What is told of a card."""
    look = looking.look(site.engine, site.probe, site.inventory.read(), host=site.host, at=site.clock.now())
    cards = card_views(look.records, look.seen, look.readings, mode=lambda _: None)
    view = next(view for view in cards.views if view.uuid == uuid)
    events = looking.events_about(lambda: site.inventory, uuid, most=100)
    return explain.about_gpu(look.records, view, cards.notes[uuid], events, show=str)


def codes(reasons):
    """The codes in order."""
    return [reason.code for reason in reasons]


def refused(site, name, gpus):
    """Ask for more than there is, as the command does."""
    (outcome,) = create_many(
        lambda _: site, [request_for(site, name, gpus=gpus)], workers=1, ended=lambda _outcome: None
    )
    return outcome.error


def test_a_holder_is_told_with_who_gave_it(site):
    """Since when, until when, by whom: for the container and for the card alike."""
    newcomer(site, "alice", gpus=1)
    (held,) = site.inventory.read().held_by("alice")
    running, holding = why(site, "alice")
    assert (running.code, running.actor) == ("running", "carol (sudo)")
    (of_card,) = why_card(site, held.slot.gpu)
    assert (of_card.code, of_card.text, of_card.actor) == (holding.code, holding.text, holding.actor)
    assert of_card.text == f"alice holds it, until {held.until}"
    assert of_card.at == held.since
    assert of_card.actor == "carol (sudo)"


def test_a_lease_that_is_over_is_kept_until_someone_waits(site):
    """What the last line of `gpus` says of all is said of the one card, and of a warned one when it goes."""
    newcomer(site, "alice", gpus=1, lease_s=60)
    (held,) = site.inventory.read().held_by("alice")
    found, seen = site.inventory.read(), site.engine.instances()
    (view,) = instance_views(found, seen, site.settings)

    def told(now, rows=found):
        reasons = explain.about_instance(rows, rows.instance("alice"), view, [], show=str, now=now)
        return reasons[1].text

    assert told(held.until - timedelta(seconds=1)) == f"alice holds it, until {held.until}"
    over = f"alice holds it past its time, which ended at {held.until}: it is kept until someone waits for it"
    assert told(held.until) == over
    warned = replace(held, state=AssignmentState.WARNED, due_at=held.until)
    rows = replace(found, assignments=(warned,))
    assert told(held.since, rows) == f"alice holds it and gives it up at {held.until}: they are warned"


def test_a_free_card_tells_who_had_it_last(site):
    """Free, and by whose release; a card that nobody had is just free."""
    newcomer(site, "alice", gpus=1)
    (held,) = site.inventory.read().held_by("alice")
    lending.release(site, "alice", count=None)
    (reason,) = why_card(site, held.slot.gpu)
    assert reason.code == "free"
    assert reason.text.startswith("nobody holds it: alice gave it back; proven free at ")
    other = next(gpu.uuid for gpu in site.engine.cards if gpu.uuid != held.slot.gpu)
    assert codes(why_card(site, other)) == ["free"]


def test_a_closed_card_tells_who_closed_it(site):
    """The admin's reason and name, and what ends it."""
    uuid = site.engine.cards[0].uuid
    inservice.close(site, uuid, reason="fan broken")
    (reason,) = why_card(site, uuid)
    assert (reason.code, reason.actor) == ("closed", "carol (sudo)")
    assert "fan broken" in reason.text
    assert "gpu open" in reason.text


def test_a_quarantined_card_tells_who_holds_it(site):
    """A card that could not be proven free: the last holder, the reason, the rule."""
    newcomer(site, "alice", gpus=1)
    (held,) = site.inventory.read().held_by("alice")
    gpu = next(gpu for gpu in site.engine.cards if gpu.uuid == held.slot.gpu)
    init = site.engine.instance("alice").init_pid
    site.probe.run(init, gpu.nodes, command="stuck", stuck=True)
    with pytest.raises(LxgpuError) as raised:
        lending.release(site, "alice", count=None, busy=True)
    assert raised.value.code == "quarantined"
    last, reason = why_card(site, gpu.uuid)
    assert (last.code, reason.code, reason.rule) == ("quarantined", "quarantined", "fence")
    assert "stuck" in reason.text
    assert AssignmentState.QUARANTINED.value in codes(why(site, "alice"))


def test_a_card_taken_behind_our_back_names_the_taker(site):
    """Foreign is no state of ours: it is said who, and that nobody is lent the card."""
    newcomer(site, "bob")
    gpu = site.engine.cards[0]
    site.engine.update("bob", Change(devices={"x": {"type": "gpu", "pci": gpu.pci}}), etag=None)
    (reason,) = why_card(site, gpu.uuid)
    assert (reason.code, reason.text) == ("foreign", "bob has it attached without lxgpu, so it is lent to nobody")


def test_a_refused_create_is_explained_afterwards(site):
    """Nothing is left of it but the reason, all of it, and who asked."""
    error = refused(site, "eve", 9)
    assert error.code == "no_capacity"
    assert site.inventory.read().instance("eve") is None
    (reason,) = explain.about_absent("eve", site.inventory.events(subject="eve"), show=str)
    assert (reason.code, reason.rule, reason.actor) == ("refused", "no_capacity", "carol (sudo)")
    assert "9 GPUs asked for, 2 of 2 are free" in reason.text


def test_a_refused_attach_is_explained_until_something_is_given(site):
    """`why` tells of the last refusal as long as it is the last word, for an hour, and as what it is."""
    newcomer(site, "alice")
    request = GpuRequest(instance="alice", owner="", more=0)
    with pytest.raises(LxgpuError), recording(site, "alice"):
        lending.attach(site, "alice", number=7, more=False, request=request, lease_s=None)
    last = why(site, "alice")[-1]
    assert last.text.startswith(f"refused at {last.at} (asked by carol (sudo)): ")
    assert codes(why(site, "alice")) == ["running", "refused"]
    assert codes(why(site, "alice", later=timedelta(hours=1))) == ["running", "refused"]
    assert codes(why(site, "alice", later=timedelta(hours=1, seconds=1))) == ["running"]
    with site.write() as tx:
        tx.event("told", "alice", rule="warned")
    assert codes(why(site, "alice")) == ["running", "refused"]
    with site.write() as tx:
        tx.event("stop", "alice")
    assert codes(why(site, "alice")) == ["running"]
    lending.attach(site, "alice", number=1, more=False, request=request, lease_s=None)
    assert codes(why(site, "alice")) == ["running", "active"]


@pytest.mark.parametrize("code", ["exists", "usage", "bad_name", "unavailable", "conflict", "not_found"])
def test_what_is_no_refusal_is_not_remembered(site, code):
    """A wrong word, a name that is taken, LXD away: nobody was refused anything."""
    record_refusal(site, LxgpuError(code, "no"), "alice")
    assert site.inventory.events() == []


def test_a_deleted_container_tells_who_deleted_it(site):
    """A name that once was one: deleted, by whom, and where it is kept."""
    newcomer(site, "alice")
    ending.delete(site, "alice", purge=False)
    (reason,) = explain.about_absent("alice", site.inventory.events(subject="alice"), show=str)
    assert (reason.code, reason.text, reason.actor) == (
        "deleted",
        "it was deleted and is kept as trash-alice",
        "carol (sudo)",
    )
    assert explain.about_absent("nobody", site.inventory.events(subject="nobody"), show=str) == ()


def test_a_suspended_one_tells_the_reason(site):
    """The reason that the admin gave."""
    newcomer(site, "alice")
    ending.suspend(site, "alice", reason="left the lab")
    (reason,) = why(site, "alice")
    assert reason.code == "suspended"
    assert reason.text.endswith("left the lab")


def test_a_container_that_stopped_by_itself(site):
    """Stopped, though nobody asked for it."""
    newcomer(site, "alice")
    site.engine.stop("alice", timeout_s=0, force=True)
    assert codes(why(site, "alice")) == ["stopped", "stopped_outside"]


def test_what_is_under_way_is_told(site):
    """A change that waits, at which step, begun by whom."""
    newcomer(site, "alice")
    with site.write() as tx:
        tx.put(operation("o9", kind="release", instance="alice", step="fence", actor="bob"))
    told = why(site, "alice")[-1]
    assert (told.code, told.text, told.actor) == ("under_way", "release is under way, at step fence", "bob")


@pytest.mark.parametrize(
    ("event", "about"),
    [
        (Event(at(0), "root", "attached", "alice", detail={"gpu": "GPU-1"}), True),
        (Event(at(0), "root", "releasing", "alice", detail={"slots": ["GPU-2", "GPU-1/1"]}), True),
        (Event(at(0), "root", "closed", "GPU-1"), True),
        (Event(at(0), "root", "attached", "alice", detail={"gpu": "GPU-2"}), False),
        (Event(at(0), "root", "created", "alice"), False),
    ],
)
def test_a_cards_history_stands_among_those_of_its_holders(event, about):
    """An event is about a card when its subject, its card or one of its slots is that card."""
    assert explain.concerns(event, "GPU-1") is about


def test_the_history_of_a_card(site):
    """Asked for by its UUID, attaching and release are told, the newest first, as many as asked for."""
    newcomer(site, "alice", gpus=1)
    (held,) = site.inventory.read().held_by("alice")
    lending.release(site, "alice", count=None)

    def events(**how):
        return [one.kind for one in looking.events_about(lambda: site.inventory, held.slot.gpu, **{"most": 9, **how})]

    assert events() == ["released", "releasing", "attached"]
    assert events(most=1) == ["released"]


@pytest.mark.parametrize(
    ("rule", "outcome", "said"),
    [
        ("", "given back", "alice gave it back"),
        ("no_show", "no_show", "alice had booked it and nobody came"),
        ("no_show", "expired", "alice had booked it and nobody came"),
        ("priority", "preempted", "alice had to yield it"),
        ("expired", "expired", "alice had it until the time was over and somebody waited"),
        ("idle", "idle", "alice had it and did not use it, so it was taken back"),
    ],
)
def test_a_free_card_tells_how_its_last_holder_lost_it(site, rule, outcome, said):
    """Who had to yield, or never came, gave nothing back."""
    newcomer(site, "alice", gpus=1)
    (held,) = site.inventory.read().held_by("alice")
    lending.release(site, "alice", count=None)
    with site.write() as tx:
        tx.event("released", "alice", rule=rule, detail={"gpu": held.slot.gpu, "outcome": outcome})
    (reason,) = why_card(site, held.slot.gpu)
    assert reason.text.startswith(f"nobody holds it: {said}")
