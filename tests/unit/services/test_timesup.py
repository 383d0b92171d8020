"""Whose time is over, and the trash: nothing ends without a word, in a pause, or by a clock that somebody set."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from fakes.site import lab_policy, make_site, newcomer

from lxgpu.model.instance import InstanceState, Power
from lxgpu.model.quota import NOTHING, Group
from lxgpu.model.rules import DAY
from lxgpu.policy.expiry import AHEAD, WARNING
from lxgpu.services import ending
from lxgpu.services.endings import about_end
from lxgpu.services.pausing import pause, resume
from lxgpu.services.policyplan import plan_policy
from lxgpu.services.statusfile import PauseView
from lxgpu.services.tick import tick
from lxgpu.services.wanted import home_volume
from lxgpu.services.watch import Watch

HOUR = 3600


class House:
    """A site whose policy can be edited, with a tick every few hours; each may be another process's."""

    def __init__(self, folder):
        self.policy = lab_policy()
        self.site = replace(make_site(folder), policy=lambda: self.policy)

    @property
    def now(self):
        """The wall clock."""
        return self.site.clock.now()

    def edit(self, **users):
        """The policy's words on some people."""
        self.policy = replace(self.policy, users={name: replace(NOTHING, **terms) for name, terms in users.items()})
        self.tick()

    def terms(self, **terms):
        """The policy's words on everybody."""
        self.policy = replace(self.policy, defaults=replace(self.policy.defaults, **terms))

    def tick(self):
        """One tick by a process that remembers nothing, and another one while anything is under way; all succeed."""
        while True:
            ticked = tick(replace(self.site, watch=Watch()))
            assert ticked.troubles == ()
            if not self.site.inventory.read().operations:
                return

    def days(self, days, every_s=6 * HOUR):
        """So much time, with its ticks."""
        until = self.site.clock.monotonic() + days * DAY
        while self.site.clock.monotonic() < until:
            self.site.clock.sleep(min(every_s, until - self.site.clock.monotonic()))
            self.tick()

    def state(self, name="alice"):
        """What a container is meant to be; None: there is none."""
        row = self.site.inventory.read().instance(name)
        return row.state if row else None

    def told(self, name="alice"):
        """The words on its end: kind, until when, the end by the policy, in days from now."""
        found = self.site.inventory.notices_about(about_end(name))
        return [(one.kind, one.facts.get("until"), one.facts.get("end")) for one in found]


@pytest.fixture
def house(tmp_path):
    """Alice has a container with a card, and the clock was watched for two days."""
    made = House(tmp_path)
    newcomer(made.site, "alice", gpus=1)
    made.days(2)
    return made


def test_a_persons_end_is_told_a_month_ahead_once_and_then_comes(house):
    """Cards back, stopped, the port closed, the reason kept; nobody is told twice, whoever ticks."""
    end = house.now + timedelta(days=60)
    house.edit(alice={"until": end})
    house.days(60 - AHEAD.days - 1)
    assert house.told() == []
    house.days(2)
    assert house.told() == [("expires", end.isoformat(), end.isoformat())]
    house.days(28.5)
    assert house.state() is InstanceState.READY
    house.days(1)
    assert house.state() is InstanceState.SUSPENDED
    assert not house.site.inventory.read().held_by("alice")
    assert house.site.engine.instance("alice").power is Power.STOPPED
    assert house.site.inventory.read().instance("alice").reason == f"its time ended on {end:%Y-%m-%d}"
    assert len(house.told()) == 1


def test_an_edit_that_sets_the_end_into_the_past_tells_now_and_ends_in_a_week(house):
    """And says both: what was set, and when it happens."""
    before = house.now
    end = before - timedelta(days=1)
    house.edit(alice={"until": end})
    house.tick()
    house.tick()
    assert house.told() == [("expires", (before + WARNING).isoformat(), end.isoformat())]
    text = house.site.board.files["alice", "notice"]
    assert "ends at 2027-03-10" in text
    assert "was set to end at 2027-03-02" in text
    house.days(WARNING.days - 0.3)
    assert house.state() is InstanceState.READY
    house.days(0.5)
    assert house.state() is InstanceState.SUSPENDED


def test_another_end_is_told_anew(house):
    """Told of June, nobody is suspended in May a day after somebody wrote May."""
    house.edit(alice={"until": house.now + timedelta(days=20)})
    house.days(15)
    house.edit(alice={"until": house.now + timedelta(days=1)})
    house.days(WARNING.days - 0.3)
    assert house.state() is InstanceState.READY
    assert [kind for kind, *_ in house.told()] == ["expires", "expires"]
    house.days(0.5)
    assert house.state() is InstanceState.SUSPENDED


@pytest.mark.parametrize("longer", [None, timedelta(days=90)])
def test_an_end_that_is_put_off_is_said_and_what_was_told_before_counts_no_more(house, longer):
    """Extended, and by mistake set back behind the old end: it is told anew, with its week."""
    end = house.now + timedelta(days=10)
    house.edit(alice={"until": end})
    house.days(9)
    house.edit(alice={"until": end + longer} if longer else {})
    house.days(3)
    assert house.told()[1:] == [("goes_on", (end + longer).isoformat() if longer else None, None)]
    assert "goes on" in house.site.board.files["alice", "notice"].splitlines()[1]
    house.edit(alice={"until": end})
    house.days(WARNING.days - 0.3)
    assert house.state() is InstanceState.READY
    house.days(0.5)
    assert house.state() is InstanceState.SUSPENDED


@pytest.mark.parametrize("days", [120, 10, 2])
def test_a_container_made_for_a_time_ends_then(house, days):
    """`create --expires`: told at least a week ahead, or half its time if it was made for less than two weeks."""
    made = house.now
    end = made + timedelta(days=days)
    newcomer(house.site, "bob", expires=end)
    house.days(max(days - AHEAD.days, 0) + 0.1, every_s=HOUR)
    assert house.told("bob") == [("expires", end.isoformat(), end.isoformat())]
    house.days(min(days, AHEAD.days) - 0.3, every_s=HOUR)
    assert house.state("bob") is InstanceState.READY
    house.days(0.4, every_s=HOUR)
    assert house.state("bob") is InstanceState.SUSPENDED


def test_who_was_told_late_has_half_the_time_from_then(house):
    """Nobody ticked for most of the two days that it was made for."""
    newcomer(house.site, "bob", expires=house.now + timedelta(days=2))
    house.site.clock.sleep(3 * DAY)
    house.tick()
    house.days(0.9)
    assert house.state("bob") is InstanceState.READY
    house.days(0.2)
    assert house.state("bob") is InstanceState.SUSPENDED


def test_a_word_that_was_not_sent_does_not_count(house, monkeypatch):
    """The outbox was stuck for a month: the week runs from when it went out."""
    with monkeypatch.context() as stuck:
        stuck.setattr("lxgpu.services.tick.send_due", lambda _site: 0)
        house.edit(alice={"until": house.now - timedelta(days=1)})
        house.days(30)
    house.tick()
    assert house.state() is InstanceState.READY
    house.days(WARNING.days - 0.3)
    assert house.state() is InstanceState.READY
    house.days(0.5)
    assert house.state() is InstanceState.SUSPENDED
    assert len(house.told()) == 1


def test_who_is_resumed_by_hand_is_told_anew(house):
    """An admin brings a container back without a new date: it is not gone with the next tick."""
    house.edit(alice={"until": house.now - timedelta(days=1)})
    house.days(WARNING.days + 1)
    assert house.state() is InstanceState.SUSPENDED
    ending.resume(house.site, "alice")
    house.tick()
    house.days(WARNING.days - 0.3)
    assert house.state() is InstanceState.READY
    house.days(0.5)
    assert house.state() is InstanceState.SUSPENDED


def test_nothing_ends_while_paused(house):
    """Neither a container nor what lies in the trash; people are told all the same, and later it goes on."""
    newcomer(house.site, "bob")
    ending.delete(house.site, "bob", purge=False)
    house.edit(alice={"until": house.now + timedelta(days=10)})
    pause(house.site.settings.run_dir, PauseView("root", "holidays", house.now))
    house.days(60)
    assert (house.state(), house.state("trash-bob")) == (InstanceState.READY, InstanceState.TRASHED)
    assert len(house.told()) == 1
    resume(house.site.settings.run_dir)
    house.tick()
    house.tick()
    assert (house.state(), house.state("trash-bob")) == (InstanceState.SUSPENDED, None)


def test_the_trash_is_emptied_when_the_time_is_over(house):
    """Not before; the home stays."""
    ending.delete(house.site, "alice", purge=False)
    house.days(29.7)
    assert house.state("trash-alice") is InstanceState.TRASHED
    house.days(0.5)
    assert house.state("trash-alice") is None
    assert house.site.engine.instance("trash-alice") is None
    assert house.site.engine.has_volume("default", home_volume("alice"))


def test_what_was_promised_at_the_deletion_holds(house):
    """An edit that keeps the trash for a day empties nothing that came there before; one for longer keeps longer."""
    ending.delete(house.site, "alice", purge=False)
    house.days(5)
    house.terms(retain_s=DAY)
    house.days(24.7)
    assert house.state("trash-alice") is InstanceState.TRASHED
    house.terms(retain_s=60 * DAY)
    house.days(20)
    assert house.state("trash-alice") is InstanceState.TRASHED
    house.terms(retain_s=DAY)
    house.days(0.3)
    assert house.state("trash-alice") is None


@pytest.mark.parametrize("boot", [False, True])
@pytest.mark.parametrize("moved", [31 * DAY, 10 * 365 * DAY])
def test_a_clock_that_is_wrong_for_some_hours_ends_nothing(house, boot, moved):
    """Set forward by a month or by years, by hand or by a battery that was empty at the boot, and set right later."""
    ending.delete(house.site, "alice", purge=False)
    newcomer(house.site, "bob", expires=house.now + timedelta(days=28))
    house.days(1)
    if boot:
        house.site.probe.boot = "boot-2"
        newcomer(house.site, "carol")
    house.site.clock.jump(moved)
    house.days(0.9, every_s=HOUR)
    assert (house.state("trash-alice"), house.state("bob")) == (InstanceState.TRASHED, InstanceState.READY)
    house.site.clock.jump(-moved)
    house.days(20)
    assert (house.state("trash-alice"), house.state("bob")) == (InstanceState.TRASHED, InstanceState.READY)
    house.days(9)
    assert (house.state("trash-alice"), house.state("bob")) == (None, InstanceState.SUSPENDED)


def test_groups_are_asked_for_also_of_those_who_hold_nothing(tmp_path):
    """The trash of one whose Unix group keeps it for longer is not emptied by what holds for everybody else."""
    made = House(tmp_path)
    each = replace(NOTHING, retain_s=90 * DAY, until=made.now + timedelta(days=200))
    made.policy = replace(
        made.policy,
        defaults=replace(made.policy.defaults, until=made.now + timedelta(days=20)),
        groups={"staff": Group("staff", members=("@staff",), each=each)},
    )
    made.site = replace(made.site, unix_groups=lambda _name: frozenset({"staff"}))
    newcomer(made.site, "alice")
    newcomer(made.site, "bob")
    ending.delete(made.site, "bob", purge=False)
    with made.site.write() as tx:  # as one that was deleted before promises were noted
        (row,) = [one for one in tx.records.instances if one.state is InstanceState.TRASHED]
        tx.drop(row)
        tx.put(replace(row, name="trash-old", engine_name="trash-bob"))
    made.days(60, every_s=DAY)
    assert (made.state(), made.state("trash-old")) == (InstanceState.READY, InstanceState.TRASHED)
    assert made.told() == []


def test_an_edit_is_rehearsed(house):
    """`policy plan` knows whom it would suspend and when, and what it would remove."""
    newcomer(house.site, "bob")
    ending.delete(house.site, "bob", purge=False)
    house.days(3)
    new = replace(
        house.policy,
        defaults=replace(house.policy.defaults, retain_s=DAY),
        users={"alice": replace(NOTHING, until=house.now - timedelta(days=1))},
    )
    effects = [one for one in plan_policy(house.site, new) if one.code in {"suspends", "empties"}]
    assert [(one.code, one.subject, one.at) for one in effects] == [("suspends", "alice", house.now + WARNING)]
    assert effects[0].text.startswith("suspends alice of alice at 2027-03-13")
    with house.site.write() as tx:
        row = tx.records.instance("trash-bob")
        tx.put(replace(row, deleted_at=row.deleted_at - timedelta(days=5)))
    assert plan_policy(house.site, house.policy) == ()
    house.edit(alice={"until": house.now - timedelta(days=1)})
    house.tick()
    assert not [one for one in plan_policy(house.site, house.policy) if one.code == "suspends"]
