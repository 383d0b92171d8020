"""Extend and keep, on a whole site of fakes."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

import pytest
from fakes.site import lab_policy, make_site, newcomer

from lxgpu.errors import LxgpuError
from lxgpu.model.request import ReserveRequest
from lxgpu.model.reservation import Kind, Reservation, ReservationState
from lxgpu.model.rules import Allowance, IdleRules
from lxgpu.services import extending, keeping
from lxgpu.services.reserve import cancel, edit, reserve
from lxgpu.services.wanted import KEY_HOLDS

HOUR = 3600


@pytest.fixture
def site(tmp_path):
    """Alice holds one of one card for an hour; idle cards may be kept for eight hours a week."""
    policy = lab_policy()
    rules = replace(policy.rules, idle=IdleRules(keep=Allowance(8 * HOUR, 7 * 24 * HOUR)))
    made = make_site(tmp_path, gpus=1, policy=replace(policy, rules=rules), actor="carol (sudo)")
    newcomer(made, "alice", gpus=1, lease_s=HOUR)
    return made


def held(site):
    """Alice's assignment."""
    (row,) = site.inventory.read().held_by("alice")
    return row


def carried(site):
    """Her assignment as her container carries it."""
    (row,) = json.loads(site.engine.machines["default", "alice"].config[KEY_HOLDS])
    return row


def book(site, *, hours):
    """Bob's booking of the card, so many hours from now."""
    start = site.clock.now() + timedelta(hours=hours)
    row = Reservation(
        "r1",
        "bob",
        "bob",
        Kind.BOOKING,
        1,
        ReservationState.SCHEDULED,
        site.clock.now(),
        HOUR,
        class_name="normal",
        host="host1",
        pool=site.engine.cards[0].model,
        start=start,
        until=start + timedelta(hours=1),
    )
    newcomer(site, "bob")
    with site.write() as tx:
        tx.put(row)


def test_longer_in_the_inventory_in_lxd_and_in_the_history(site):
    """One more hour: a rebuilt inventory would know it too, and history says who gave it."""
    before = held(site).until
    until = extending.extend(site, "alice", seconds=HOUR)
    assert until == held(site).until == before + timedelta(hours=1)
    assert carried(site)["until"] == until.isoformat()
    event = site.inventory.events(subject="alice")[0]
    assert (event.kind, event.rule, event.actor) == ("extended", "lease", "carol (sudo)")
    assert event.detail["gpus"] == [held(site).slot.gpu]


def test_a_booking_that_ends_earlier_or_is_given_up_is_carried_so(site):
    """Edited and cancelled while it runs: LXD has the new end of its card each time."""
    (row,) = reserve(site, ReserveRequest("alice", "alice", gpus=1, duration_s=4 * HOUR)).reservations
    assert row.state is ReservationState.ACTIVE
    sooner = row.until - timedelta(hours=1)
    edit(site, row.id, until=sooner)
    assert carried(site)["until"] == held(site).until.isoformat() == sooner.isoformat()
    cancel(site, row.id)
    assert carried(site)["until"] == held(site).until.isoformat() == site.clock.now().isoformat()


def test_lxd_away_does_not_lose_the_extension(site):
    """The inventory has it; that LXD has not is said, and the next change writes it."""
    site.engine.hook = _refuse_updates
    until = extending.extend(site, "alice", seconds=HOUR)
    assert held(site).until == until
    assert any("not written into LXD yet" in line for line in site.say.lines)


def _refuse_updates(moment, call, _name):
    if (moment, call) == ("before", "update"):
        raise LxgpuError("engine", "the disk is full")


def test_a_booking_in_the_way_is_named_with_what_is_possible(site):
    """The error has the command that works; a rehearsal says the same and writes nothing."""
    book(site, hours=3)
    with pytest.raises(LxgpuError) as caught:
        extending.extend(site, "alice", seconds=5 * HOUR)
    assert caught.value.code == "no_room"
    assert "bob (reservation r1)" in caught.value.brief
    assert caught.value.fix.startswith("lxgpu extend alice --for 1h59m")
    version = site.inventory.read().version
    assert extending.plan_extend(site, "alice", seconds=5 * HOUR).plan.reasons[0].code == "no_room"
    assert site.inventory.read().version == version
    extending.extend(site, "alice", seconds=HOUR + 59 * 60)


def test_a_keep_is_written_told_and_counted(site):
    """What is left is said each time; a booking that it does not hold off is said too."""
    book(site, hours=1)
    row = keeping.keep(site, "alice", seconds=2 * HOUR, reason="  a long\nthink ")
    assert site.inventory.read().keeps == (row,)
    assert (row.reason, row.person) == ("a long think", "alice")
    assert "6h of keeping is left" in site.say.lines
    assert any("may still need them" in line for line in site.say.lines)
    assert site.inventory.events(subject="alice")[0].kind == "kept"
    with pytest.raises(LxgpuError) as caught:
        keeping.keep(site, "alice", seconds=9 * HOUR, reason="more")
    assert (caught.value.code, caught.value.fix) == (
        "over_keep",
        "lxgpu keep alice --for 6h --reason 'what for'",
    )


def test_a_keep_without_a_reason_is_none(site):
    """Those who wait may ask why."""
    for way in (keeping.keep, keeping.plan_keep):
        with pytest.raises(LxgpuError) as caught:
            way(site, "alice", seconds=HOUR, reason=" ")
        assert caught.value.code == "usage"
    assert site.inventory.read().keeps == ()


@pytest.fixture
def both(tmp_path):
    """Alice has a card for three days, and with it a booking of two cards for an hour, begun now."""
    made = make_site(tmp_path, gpus=2, policy=lab_policy())
    newcomer(made, "alice", gpus=1, lease_s=72 * HOUR)
    (begun,) = reserve(made, ReserveRequest("alice", "alice", gpus=2, duration_s=HOUR)).reservations
    assert begun.state is ReservationState.ACTIVE
    return made, begun


def ends(site):
    """When her cards go, in hours from now, the first one first."""
    now = site.clock.now()
    return sorted(round((row.until - now).total_seconds() / HOUR) for row in site.inventory.read().held_by("alice"))


def test_what_was_hers_for_longer_than_a_booking_is_not_shortened_with_it(both):
    """To extend, to edit or to give up a booking leaves the lease of a card that it took over as long as it was."""
    site, begun = both
    assert ends(site) == [1, 72]
    extending.extend(site, "alice", seconds=4 * HOUR)
    assert ends(site) == [5, 72]
    edit(site, begun.id, until=site.clock.now() + timedelta(hours=2))
    assert ends(site) == [2, 72]
    cancel(site, begun.id)
    assert ends(site) == [0, 72]


def test_a_booking_that_grows_beyond_a_lease_takes_its_card_along(both):
    """Who has booked two cards until then has both until then."""
    site, begun = both
    edit(site, begun.id, until=site.clock.now() + timedelta(hours=80))
    assert ends(site) == [80, 80]


def test_a_card_that_leaves_a_booking_is_the_lease_it_was_before(both):
    """Made smaller by one, the card of the lease or the other one goes; the lease is no shorter."""
    site, begun = both
    edit(site, begun.id, gpus=1)
    assert ends(site) in ([0, 72], [1, 72])
