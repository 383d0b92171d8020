"""Alerts: each is seen in what the daemon publishes of it, told to the admins once, and over when it is."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from fakes.faults import Fault
from fakes.site import lab_policy, make_site, newcomer

from lxgpu import resident, wiring
from lxgpu.errors import LxgpuError
from lxgpu.model.rules import AlertRules, IdleRules
from lxgpu.policy.alerts import CALM_S, LASTS_S, Alert, AlertKind, Sight, Word
from lxgpu.services import lending
from lxgpu.services.alerts import Alerts
from lxgpu.services.alertsight import LATE_S, late_sight, sight
from lxgpu.services.publish import published
from lxgpu.services.statusfile import DaemonView, PolicyState
from lxgpu.services.tick import tick

IDLE_S, WINDOW_S, DAY_S = 600, 60, 86400


@pytest.fixture
def site(tmp_path):
    """Alice has the one card there is; idle is a minute without work, and a hoard ten minutes of it."""
    policy = lab_policy()
    idle = IdleRules(window_s=WINDOW_S, warn_s=(), protect_memory_s=0)
    rules = replace(policy.rules, idle=idle, alerts=AlertRules(idle_s=IDLE_S, again_s=DAY_S))
    made = make_site(tmp_path, gpus=1, policy=replace(policy, rules=rules))
    newcomer(made, "alice", gpus=1)
    made.notify.sent.clear()
    return made


def seen(site, **daemon):
    """What stands in a daemon's status.json that looks now, as alerts."""
    view = DaemonView(**{"running": True, "ticked_at": site.clock.now(), **daemon})
    return sight(published(site, view), site.policy().rules)


def kinds(found):
    """Which there are, and of what."""
    return [(one.kind.value, one.subject) for one in found.alerts]


def go_on(site, seconds):
    """A daemon's looks for so long."""
    until = site.clock.monotonic() + seconds
    while site.clock.monotonic() < until:
        tick(site)
        site.clock.sleep(10)


def mine(site):
    """Alice's card."""
    (held,) = site.inventory.read().held_by("alice")
    return held.slot.gpu


def full(site, percent):
    """A pool of which so much is used."""
    pool = site.engine.pool
    site.engine.pool = lambda name: replace(pool(name), size_bytes=1000, used_bytes=10 * percent)


# ---- what is seen


def test_a_sound_lab_has_no_alert(site):
    """Alice has just come."""
    assert seen(site).alerts == ()


def test_cards_idle_for_long_are_a_hoard_while_none_is_free(site):
    """Since when, and which; with a free card there is none, and while nobody can tell whether they work either."""
    go_on(site, IDLE_S - WINDOW_S)
    assert seen(site).alerts == ()
    go_on(site, 3 * WINDOW_S)
    (hoard,) = seen(site).alerts
    assert (hoard.kind, hoard.subject, hoard.gpus) == (AlertKind.IDLE_HOARD, "alice", (mine(site),))
    assert site.clock.now() - hoard.since >= timedelta(seconds=IDLE_S)
    extra = replace(site.engine.cards[0], uuid="GPU-00000009-1111-2222-3333-444444444444", pci="0000:99:00.0")
    site.engine.cards.append(extra)
    assert seen(site).alerts == ()
    site.engine.cards.pop()
    site.clock.sleep(3600)
    later = seen(site)
    assert later.alerts == ()
    assert later.unsure(hoard)


def test_a_card_that_cannot_be_proven_free_is_a_failed_fence(site):
    """With who holds it; it is no quarantine besides."""
    card = site.engine.cards[0]
    site.probe.run(site.engine.init("alice"), card.nodes, stuck=True)
    with pytest.raises(LxgpuError):
        lending.release(site, "alice", count=None, busy=True)
    (failed,) = seen(site).alerts
    assert (failed.kind, failed.subject, failed.gpus) == (AlertKind.FENCE_FAILED, card.uuid, (card.uuid,))
    assert failed.why


def test_a_card_with_a_fault_is_a_quarantine(site):
    """With the fault as its reason."""
    site.kernel_log.tell(site.engine.cards[0].pci, 79)
    tick(site)
    (found,) = seen(site).alerts
    assert (found.kind, found.subject) == (AlertKind.QUARANTINE, mine(site))
    assert "Xid 79" in found.why
    site.engine.cards.clear()  # it fell off the bus meanwhile, which does not end its quarantine
    assert kinds(seen(site)) == []
    assert seen(site).unsure(found)


def test_looks_that_come_to_no_end_are_late(site):
    """By the last one, or by the start where there was none; a daemon that has ended is no late one."""
    now = site.clock.now()
    last, on_time = now - timedelta(seconds=LATE_S + 1), now - timedelta(seconds=LATE_S - 1)
    assert kinds(seen(site, ticked_at=last, troubles=("tick: LXD hangs",))) == [("loop_late", "host1")]
    assert kinds(seen(site, ticked_at=None, started_at=last)) == [("loop_late", "host1")]
    assert seen(site, ticked_at=on_time).alerts == ()
    assert seen(site, running=False, ticked_at=last).alerts == ()
    (late,) = late_sight(DaemonView(running=True, ticked_at=last), "host1", now).alerts
    assert late.since == last


@pytest.mark.parametrize(("percent", "found"), [(79, []), (80, ["pool_filling"]), (90, ["pool_filling", "pool_full"])])
def test_a_pool_fills_and_is_full(site, percent, found):
    """By the percentages of the policy."""
    full(site, percent)
    assert kinds(seen(site)) == [(kind, "default") for kind in found]


def test_a_policy_file_with_a_mistake_is_an_alert(site):
    """With the mistake."""
    (broken,) = seen(site, policy=PolicyState(ok=False, error="policy.yaml:3:1: odd")).alerts
    assert (broken.kind, broken.why) == (AlertKind.POLICY_BROKEN, "policy.yaml:3:1: odd")


def test_while_lxd_is_silent_nothing_is_known_to_be_over(site):
    """Neither of idle cards, nor of the pool: what was told stays open."""
    full(site, 95)
    open_ones = (*seen(site).alerts, Alert(AlertKind.IDLE_HOARD, "alice"))
    del site.engine.pool
    site.engine.inject(Fault.DOWN, call="put_promises", after=100)
    with pytest.raises(LxgpuError):
        site.engine.put_promises({}, etag=None)
    silent = seen(site)
    assert silent.alerts == ()
    assert len(open_ones) == 3
    assert all(silent.unsure(one) for one in open_ones)


# ---- what is told


def words(site):
    """What the admins heard: the first line of each, and to whom it was mailed."""
    return [(subject, mail) for subject, _, mail in site.notify.sent]


def test_an_alert_is_told_when_it_has_lasted_once_a_day_and_when_it_is_over(site):
    """By the channels and to the contact; each stands in the history too."""
    alerts, pool = Alerts(), Sight((Alert(AlertKind.POOL_FULL, "default", "93 % of it is used"),))
    for _ in range(int((LASTS_S[AlertKind.POOL_FULL] + 2 * DAY_S) / 60) + 1):
        alerts.look(site, pool)
        site.clock.sleep(60)
    assert [subject for subject, _ in words(site)] == [
        "[lxgpu] Alert: the pool default is almost full: no container is made",
        *["[lxgpu] Still so: the pool default is almost full: no container is made"] * 2,
    ]
    assert "Why: 93 % of it is used." in site.notify.sent[0][1]
    assert {mail for _, mail in words(site)} == {"gpu-admin@lab.example"}
    for _ in range(int(CALM_S / 60) + 5):
        alerts.look(site, Sight())
        site.clock.sleep(60)
    assert words(site)[3:] == [
        ("[lxgpu] Over: the pool default is almost full: no container is made", "gpu-admin@lab.example")
    ]
    events = [event for event in reversed(site.inventory.events(kinds=list(Word))) if event.rule == "pool_full"]
    assert [event.kind for event in events] == ["alert_opened", "alert_repeated", "alert_repeated", "alert_over"]
    assert {event.subject for event in events} == {"default"}


@pytest.mark.parametrize("kind", list(AlertKind))
def test_a_new_process_knows_what_was_told(site, kind):
    """A daemon that starts anew tells nothing twice, and what ended meanwhile is over, with its words."""
    cards = (mine(site),) if kind in {AlertKind.FENCE_FAILED, AlertKind.QUARANTINE} else ()
    there, alerts = Sight((Alert(kind, mine(site) if cards else "alice", "a reason", cards),)), Alerts()
    for _ in range(40):
        alerts.look(site, there)
        site.clock.sleep(60)
    assert len(site.notify.sent) == 1
    alerts = Alerts()
    alerts.look(site, there)
    assert len(site.notify.sent) == 1
    alerts = Alerts()
    for _ in range(2):
        alerts.look(site, Sight())
        site.clock.sleep(CALM_S)
    (first, last) = site.notify.sent
    assert last[0].startswith("[lxgpu] Over: ")
    assert last[0].removeprefix("[lxgpu] Over: ") == first[0].removeprefix("[lxgpu] Alert: ")
    assert "Why: a reason." in last[1]
    Alerts().look(site, Sight())
    assert len(site.notify.sent) == 2


def test_a_look_that_hangs_is_told_while_it_lasts(site, monkeypatch):
    """By the thread that watches the turns, once; before two minutes it only stands in status.json."""
    monkeypatch.setattr(wiring, "settings", lambda: site.settings)
    alerts, now = Alerts(), datetime.now(UTC)
    for age_s, told in ((LATE_S - 60, 0), (LATE_S + 60, 1), (LATE_S + 90, 1)):
        view = DaemonView(running=True, ticked_at=now - timedelta(seconds=age_s), troubles=("tick: LXD hangs",))
        resident._late(alerts, lambda: site, view)  # noqa: SLF001 -- what the thread of `resident.run` calls
        assert len(site.notify.sent) == told
    assert "Why: tick: LXD hangs." in site.notify.sent[0][1]


def test_what_cannot_be_written_down_is_told_at_the_next_look(site):
    """The inventory's disk is full: nothing is sent that the history does not know."""
    alerts, late = Alerts(), Sight((Alert(AlertKind.LOOP_LATE, "host1"),))

    def fail(**_):
        raise LxgpuError("inventory_storage", "the disk is full")

    broken = replace(site, inventory=_Unwritable(site.inventory, fail))
    with pytest.raises(LxgpuError):
        alerts.look(broken, late)
    assert site.notify.sent == []
    alerts.look(site, late)
    alerts.look(site, late)
    assert len(site.notify.sent) == 1


class _Unwritable:
    """An inventory that is read, and not written."""

    def __init__(self, of, fail):
        self._of, self.write = of, fail

    def __getattr__(self, name):
        return getattr(self._of, name)
