"""Samples at every look, and the judgement on all held cards by them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from fakes.site import lab_policy, make_site, newcomer

from lxgpu.model.gpu import GpuProcess, Reading, Readings, Slot
from lxgpu.model.instance import Power
from lxgpu.model.reservation import Keep
from lxgpu.model.rules import IdleRules
from lxgpu.model.usage import Sample, Use
from lxgpu.policy.idleness import LOOK_S
from lxgpu.services import observe
from lxgpu.services.sampling import judge_all, take_samples
from lxgpu.services.watch import Watch

IDLE = IdleRules(window_s=600, protect_memory_s=3600, protect_ssh_s=300)


@pytest.fixture
def site(tmp_path):
    """Three cards; alice holds one, bob one; a window is ten minutes."""
    rules = replace(lab_policy().rules, idle=IDLE)
    made = make_site(tmp_path, gpus=3, policy=replace(lab_policy(), rules=rules))
    newcomer(made, "alice", gpus=1)
    newcomer(made, "bob", gpus=1)
    return made


def card(site, name):
    """The one card that a container holds."""
    (held,) = site.inventory.read().held_by(name)
    return next(gpu for gpu in site.engine.cards if gpu.uuid == held.slot.gpu)


def look(site, **more):
    """One look as a tick does it: the verdicts by the container's name."""
    seen, records = observe.look(site, readings=True), site.inventory.read()
    take_samples(site, seen, records)
    verdicts = judge_all(site, seen, records, site.policy(), **more)
    return {records.holder(slot).instance: verdict for slot, verdict in verdicts.items()}


def watch(site, seconds):
    """Look every ten seconds for so long."""
    verdicts = look(site)
    for _ in range(int(seconds / LOOK_S)):
        site.clock.sleep(LOOK_S)
        verdicts = look(site)
    return verdicts


def last(site, gpu):
    """The newest sample of a card."""
    return site.inventory.samples(since=site.clock.now() - timedelta(days=1), uuid=gpu.uuid)[-1]


def test_every_card_gets_one_sample_a_look(site):
    """Held or not, with who holds it; the inventory's version stays, so no decision is made anew for it."""
    version = site.inventory.read().version
    look(site)
    found = site.inventory.samples(since=site.clock.now())
    assert {sample.uuid for sample in found} == {gpu.uuid for gpu in site.engine.cards}
    assert sorted(sample.instance for sample in found) == ["", "alice", "bob"]
    assert site.inventory.read().version == version


def test_a_display_server_is_no_use(site):
    """What it draws with does not count as memory held, nor as a process that works."""
    mine = card(site, "alice")
    site.probe.run(None, mine.nodes, kind="graphics", memory_bytes=2**30)
    site.probe.own_memory[mine.uuid] = 2**20
    look(site)
    assert (last(site, mine).memory_used_bytes, last(site, mine).processes) == (2**20, 0)


def test_a_card_that_fails_costs_its_own_readings_only(site):
    """Alice's card is lost: unknown at once; bob's is judged as ever."""
    watch(site, 610)
    site.probe.faults[card(site, "alice").uuid] = "lost"
    verdicts = look_later(site)
    assert (verdicts["alice"].use, verdicts["bob"].use) == (Use.UNKNOWN, Use.IDLE)


def look_later(site):
    """The next look."""
    site.clock.sleep(LOOK_S)
    return look(site)


def test_nothing_is_idle_while_nvml_does_not_answer(site):
    """Not even in the first look after it went down, nor until a whole window was seen again."""
    watch(site, 610)
    site.probe.error = "driver mismatch"
    assert {verdict.use for verdict in look_later(site).values()} == {Use.UNKNOWN}
    watch(site, 120)
    site.probe.error = None
    assert {verdict.use for verdict in look_later(site).values()} == {Use.UNKNOWN}
    assert {verdict.use for verdict in watch(site, 600).values()} == {Use.IDLE}


def test_without_a_reading_nothing_is_kept(site):
    """NVML was not asked: that is no sample."""
    take_samples(site, observe.look(site), site.inventory.read())
    assert not site.inventory.samples(since=site.clock.now() - timedelta(days=1))


def test_a_card_is_idle_after_a_window_from_the_attach(site):
    """Not sooner, however long it lay there before; since is the attach."""
    watch(site, 300)
    newcomer(site, "carol", gpus=1)
    attached = site.inventory.read().held_by("carol")[0].since
    assert watch(site, 590)["carol"].use is Use.UNKNOWN
    verdict = watch(site, 30)["carol"]
    assert (verdict.use, verdict.since) == (Use.IDLE, attached)


def test_work_is_seen_and_remembered_for_a_window(site):
    """A burst between two long pauses keeps the card."""
    mine = card(site, "alice")
    watch(site, 610)
    site.probe.utilization[mine.uuid] = 80
    assert look_later(site)["alice"].use is Use.BUSY
    worked = site.clock.now()
    site.probe.utilization[mine.uuid] = 0
    verdict = watch(site, 590)["alice"]
    assert (verdict.use, verdict.since) == (Use.BUSY, worked)
    assert watch(site, 30)["alice"].use is Use.IDLE


def test_how_long_a_card_has_been_idle_outlives_the_window(site):
    """Since stays the same for hours, while one window of samples is all that is in memory."""
    attached = site.inventory.read().held_by("alice")[0].since
    verdict = watch(site, 4000)["alice"]
    assert verdict.since == attached
    assert len(site.watch.samples[card(site, "alice").uuid]) < 90


def test_parked_memory_is_protected_from_when_it_was_parked(site):
    """Another process, which has only the samples, comes to the same end of the protection."""
    mine = card(site, "alice")
    attached = site.inventory.read().held_by("alice")[0].since
    site.probe.run(site.engine.init("alice"), mine.nodes, memory_bytes=4 * 2**30)
    kept = watch(site, 2000)["alice"]
    assert (kept.use, kept.parked) == (Use.IDLE, True)
    assert kept.protected_until == attached + timedelta(hours=1)
    fresh = look(replace(site, watch=Watch()))["alice"]
    assert fresh == kept
    assert watch(site, 1700)["alice"].takeable(site.clock.now())


def test_an_open_session_defers_for_a_bounded_time(site):
    """Half a window's worth here; a look at a busy card does not even ask."""
    site.probe.sessions[site.engine.init("alice")] = 1
    verdict = watch(site, 610)["alice"]
    assert verdict.use is Use.IDLE
    assert not verdict.takeable(site.clock.now())
    assert watch(site, 300)["alice"].takeable(site.clock.now())
    site.probe.utilization[card(site, "alice").uuid] = 50
    look_later(site)
    assert last(site, card(site, "alice")).login is None


def test_a_session_in_a_stopped_container_cannot_be(site):
    """No login then, and no question to the engine or the probe."""
    site.engine.stop("alice", timeout_s=0, force=True)
    look(site)
    assert last(site, card(site, "alice")).login is False


def test_a_restart_makes_the_session_be_looked_for_anew(site):
    """The old init is gone: not known in that look, and right in the next."""
    mine = card(site, "alice")
    look(site)
    site.engine.stop("alice", timeout_s=0, force=True)
    site.engine.start("alice")
    site.probe.sessions[site.engine.init("alice")] = 1
    look_later(site)
    look_later(site)
    assert last(site, mine).login is True


def test_a_keep_protects(site):
    """By the row in the inventory, for all cards of the container."""
    watch(site, 610)
    now = site.clock.now()
    with site.write() as tx:
        tx.put(Keep("k1", "alice", "alice", now, now + timedelta(hours=2), "deadline"))
    verdicts = look_later(site)
    assert verdicts["alice"].protected_until == now + timedelta(hours=2)
    assert verdicts["bob"].protected_until is None


def test_a_clock_that_was_set_pauses_one_window(site):
    """What came before does not count, whatever the samples say."""
    watch(site, 610)
    site.watch.not_before = site.clock.now()
    site.clock.sleep(LOOK_S)
    assert look(site)["alice"].use is Use.UNKNOWN
    for _ in range(61):
        site.clock.sleep(LOOK_S)
        verdicts = look(site)
    assert verdicts["alice"].use is Use.IDLE


def test_a_clock_that_goes_back_makes_nothing_idle(site):
    """Samples of a time to come are no samples of now."""
    watch(site, 610)
    site.clock.jump(-3600)
    assert {verdict.use for verdict in look_later(site).values()} == {Use.UNKNOWN}


def test_a_daemon_that_was_away_has_seen_nothing(site):
    """Half an hour without a look: unknown until a window was watched."""
    watch(site, 610)
    site.clock.sleep(1800)
    assert look(site)["alice"].use is Use.UNKNOWN
    assert watch(site, 610)["alice"].use is Use.IDLE


def test_a_part_of_a_card_is_judged_by_its_own_processes(site):
    """Alice works on the card that both share, bob does not."""
    mine = card(site, "alice")
    (held,) = site.inventory.read().held_by("alice")
    with site.write() as tx:
        tx.put(replace(tx.records.card(mine.uuid), layout="2"))
        tx.put(replace(held, slot=Slot.of(mine.uuid, "1/2")))
        tx.put(replace(held, id="other", instance="bob", slot=Slot.of(mine.uuid, "2/2")))
    site.probe.utilization[mine.uuid] = 70
    site.probe.run(site.engine.init("alice"), mine.nodes)
    first, second = Slot.of(mine.uuid, "1/2"), Slot.of(mine.uuid, "2/2")
    watch(site, 610)
    seen, records = observe.look(site, readings=True), site.inventory.read()
    verdicts = judge_all(site, seen, records, site.policy())
    assert (verdicts[first].use, verdicts[second].use) == (Use.BUSY, Use.IDLE)


def test_a_look_asks_for_what_is_new_only(site, monkeypatch):
    """One query a look, and a small one."""
    watch(site, 610)
    asked = []
    samples = site.inventory.samples
    monkeypatch.setattr(type(site.inventory), "samples", lambda _self, **how: asked.append(samples(**how)) or asked[-1])
    look_later(site)
    assert len(asked) == 1
    assert len(asked[0]) <= 3 * 8


def test_old_samples_are_merged_now_and_then(site):
    """By a process that lives for an hour; what is young stays as it is."""
    old = site.clock.now() - timedelta(days=2)
    site.inventory.add_samples([Sample(old + timedelta(seconds=second), "GPU-x", 1, 1) for second in range(50)])
    look(site)
    assert len(site.inventory.samples(since=old, uuid="GPU-x")) == 50
    site.clock.sleep(3601)
    look(site)
    assert len(site.inventory.samples(since=old, uuid="GPU-x")) <= 2


def test_a_process_of_the_host_alone_is_not_the_holders(site):
    """It is counted among the processes that compute, and its work is work: the card is not idle."""
    mine = card(site, "alice")
    reading = Reading(
        uuid=mine.uuid,
        sampled_at=site.clock.now(),
        utilization_percent=60,
        memory_used_bytes=2**30,
        processes=(GpuProcess(4242, 2**30, "compute"),),
    )
    seen = replace(observe.look(site), readings=Readings(items=(reading,)))
    take_samples(site, seen, site.inventory.read())
    assert judge_all(site, seen, site.inventory.read(), site.policy())[Slot(mine.uuid)].use is Use.BUSY
    assert site.engine.instance("alice").power is Power.RUNNING
