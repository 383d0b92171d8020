"""The memory guard: told, a grace, then the newest programs of that one holder, and nobody else's."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from fakes.site import lab_policy, make_gpus, make_site, newcomer

from lxgpu.cli.columns import in_lines
from lxgpu.errors import LxgpuError
from lxgpu.model.gpu import is_part
from lxgpu.model.request import GpuRequest
from lxgpu.model.rules import CardRule, MemoryGuard, Mode, PriorityClass, SharingRules
from lxgpu.policy.guard import ENDED, NEIGHBOUR, OVER
from lxgpu.services import guarding, lending, observe
from lxgpu.services.cards import card_views
from lxgpu.services.memorywords import about_memory
from lxgpu.services.tick import tick
from lxgpu.services.watch import Watch

GIB = 2**30
GRACE_S, TERM_S = 60, 20
SHARE = 6 * GIB
"""A quarter of a card of 24 GiB."""


def policy_with(guard=MemoryGuard.KILL, slots=4):
    """The first card divided into four, a grace of a minute."""
    policy, (card,) = lab_policy(), make_gpus(1)
    usual = PriorityClass("normal", priority=50, min_runtime_s=0, grace_s=GRACE_S, term_wait_s=TERM_S)
    cards = {card.uuid: CardRule(Mode.TIMESHARE, slots)} if slots > 1 else {}
    rules = replace(policy.rules, cards=cards, sharing=SharingRules(memory_guard=guard))
    return replace(policy, rules=rules, classes={"normal": usual})


@pytest.fixture
def site(tmp_path):
    """Alice and bob have a quarter of one card each, carol has none."""
    made = make_site(tmp_path, gpus=2, policy=policy_with())
    for name in ("alice", "bob", "carol"):
        newcomer(made, name)
    tick(made)
    for name in ("alice", "bob"):
        lending.attach(made, name, number=1, more=False, request=GpuRequest(name, "", 0, model="* 0.25"), lease_s=None)
    return made


def job(site, name, gib, **how):
    """A program in a container, or on the host, that takes so much of the shared card."""
    init = site.engine.init(name) if name else None
    return site.probe.run(init, site.engine.cards[0].nodes, memory_bytes=int(gib * GIB), **how)


def work(site, seconds, **how):
    """The daemon at work for so long."""
    for _ in range(0, seconds, 10):
        assert tick(site, **how).troubles == ()
        site.clock.sleep(10)


def told(site, name):
    """The kinds of what a container was told about memory, oldest first."""
    kinds = [event.rule for event in reversed(site.inventory.events(subject=name, kinds=["told"]))]
    return [kind for kind in kinds if kind.startswith("memory_")]


def acts(site, name="alice"):
    """What the history says of memory, oldest first: kinds, and signals."""
    events = reversed(site.inventory.events(subject=name, kinds=[OVER, ENDED]))
    return [str(event.detail.get("signal") or event.kind) for event in events]


def test_over_its_share_it_is_told_and_ended_after_the_grace_and_the_neighbour_works_on(site):
    """The newest of alice's programs ends, her older one and bob's run on untouched."""
    old, new, other = job(site, "alice", 4), job(site, "alice", 3), job(site, "bob", 5)
    work(site, GRACE_S)
    assert site.probe.signals == []
    assert told(site, "alice") == [OVER]
    work(site, 20)
    assert [(process.pid, number) for process, number in site.probe.signals] == [(new.pid, 15)]
    assert [site.probe.alive(one) for one in (old, new, other)] == [True, False, True]
    work(site, 100)
    assert acts(site) == [OVER, "TERM"]
    assert told(site, "alice") == [OVER, ENDED]
    assert len(site.probe.signals) == 1


def test_what_people_read(site):
    """How much, until when, what happens, how to avoid it; the neighbour: why, and that nothing is to be done."""
    job(site, "alice", 7, command="train.py")
    work(site, GRACE_S + 20)
    texts = {name: " ".join(site.board.files[name, "notice"].split()) for name in ("alice", "bob")}
    assert "(GPU-00000001/1/4): your programs hold 7GiB of its memory, your share is 6GiB." in texts["alice"]
    assert "If that is still so at 08:01 UTC, the newest of them are ended" in texts["alice"]
    assert "train.py of yours was asked to end (TERM)" in texts["alice"]
    assert "(GPU-00000001/2/4): alice, on the same card, holds more" in texts["bob"]
    assert "Your own programs are left alone" in texts["bob"]
    assert told(site, "carol") == []


def test_the_neighbour_hears_once_in_an_episode(site):
    """Not again until the use was within the share in between, and some time has passed."""
    first = job(site, "alice", 7, ignores_term=True, stuck=True)
    work(site, 300)
    assert told(site, "bob") == [NEIGHBOUR]
    site.probe.end(first)
    work(site, 20)
    job(site, "alice", 8)
    work(site, 600)
    assert told(site, "bob") == [NEIGHBOUR] * 2


def test_who_comes_back_within_the_share_loses_nothing(site):
    """And has a whole grace again the next time, after a new warning."""
    job(site, "alice", 4)
    second = job(site, "alice", 4)
    work(site, GRACE_S - 20)
    site.probe.end(second)
    work(site, 60)
    third = job(site, "alice", 4)
    work(site, 300)
    assert site.probe.signals == []
    assert told(site, "alice") == [OVER], "told a moment ago"
    work(site, 600)
    assert told(site, "alice") == [OVER, OVER, ENDED]
    assert [process.pid for process, _ in site.probe.signals] == [third.pid]


def test_who_ignores_term_is_killed_later(site):
    """The same program, if it is there still and it is still too much."""
    job(site, "alice", 5)
    stubborn = job(site, "alice", 5, ignores_term=True)
    work(site, GRACE_S + 20)
    assert acts(site) == [OVER, "TERM"]
    assert site.probe.alive(stubborn)
    work(site, TERM_S + 10)
    assert acts(site) == [OVER, "TERM", "KILL"]
    assert not site.probe.alive(stubborn)
    assert told(site, "alice") == [OVER, ENDED]


def test_why_tells_the_last_warning_and_the_last_end(site):
    """With the numbers, for an hour; nothing of parts that are held no more."""
    job(site, "alice", 7, command="train.py")
    work(site, GRACE_S + 10)
    events = site.inventory.events(subject="alice")
    (held,) = [row.slot.gpu for row in site.inventory.read().held_by("alice")]

    def told_of(slots, later=0):
        now = site.clock.now() + timedelta(seconds=later)
        found = about_memory(events, slots, show=lambda at: f"{at:%H:%M}", now=now)
        return [(one.subject, one.code, one.text, one.rule) for one in found]

    numbers = "alice held 7GiB of its memory, the share is 6GiB"
    warned = f"{numbers}; if that is still so at 08:01, its newest programs are ended"
    assert told_of([held]) == [
        (held, ENDED, f"{numbers}: train.py of alice got TERM", "memory_guard"),
        (held, OVER, warned, "memory_guard"),
    ]
    assert told_of([held], later=3600) == []
    assert told_of([held.replace("1/4", "2/4")]) == []


def test_who_ignores_term_and_is_within_the_share_lives(site):
    """Another program went, so there is no need any more."""
    other, stubborn = job(site, "alice", 5), job(site, "alice", 5, ignores_term=True)
    work(site, GRACE_S + 10)
    site.probe.end(other)
    work(site, 5 * TERM_S)
    assert acts(site) == [OVER, "TERM"]
    assert site.probe.alive(stubborn)


def test_nobody_elses_programs_count_or_end(site):
    """What the host or a neighbour takes is not alice's, however much it is."""
    job(site, None, 20)
    job(site, "bob", 6)
    job(site, "alice", 6)
    work(site, 200)
    assert site.probe.signals == []
    assert [told(site, name) for name in ("alice", "bob")] == [[], []]


@pytest.mark.parametrize(("guard", "kinds"), [(MemoryGuard.WARN, [OVER]), (MemoryGuard.OFF, [])])
def test_as_the_policy_says(site, guard, kinds):
    """`warn` tells and never ends, and says so; `off` does nothing."""
    site = replace(site, policy=lambda: policy_with(guard))
    job(site, "alice", 9)
    work(site, 300)
    assert site.probe.signals == []
    assert told(site, "alice") == kinds
    assert "are ended" not in site.board.files.get(("alice", "notice"), "")


def test_while_the_daemon_is_paused_nothing_ends(site):
    """People are told; it goes on when the pause is over."""
    job(site, "alice", 7)
    work(site, 300, paused=True)
    assert told(site, "alice") == [OVER]
    assert site.probe.signals == []
    work(site, 10)
    assert acts(site) == [OVER, "TERM"]


def test_a_whole_card_is_not_guarded(tmp_path):
    """All of its memory is its holder's."""
    site = make_site(tmp_path, gpus=1, policy=policy_with(slots=1))
    newcomer(site, "alice", gpus=1)
    job(site, "alice", 30)
    work(site, 200)
    assert told(site, "alice") == []


def test_memory_that_is_not_known_is_not_too_much(site):
    """NVML lists a program without its memory: nobody is told, nothing ends; known again, the grace runs on."""
    job(site, "alice", 7)
    work(site, 10)
    job(site, "alice", 0)
    site.probe.processes[-1].memory_bytes = None
    work(site, 120)
    assert site.probe.signals == []
    site.probe.processes[-1].memory_bytes = GIB
    work(site, 10)
    assert acts(site) == [OVER, "TERM"]


def test_the_list_of_cards_tells_who_takes_how_much(site):
    """Each part what its holder's programs take; nothing is known of what NVML does not tell."""
    job(site, "alice", 3)
    job(site, "bob", 2)

    def parts():
        records, seen = site.inventory.read(), observe.look(site, readings=True)
        cards = card_views(records, seen, seen.readings, mode=lambda _: None)
        lines = [view for view in in_lines(cards.views) if is_part(view.slots[0].slot)]
        assert [view.memory_used_bytes for view in lines] == [slot.memory_used_bytes for slot in cards.views[0].slots]
        assert [view.utilization_percent for view in lines] == [
            slot.utilization_percent for slot in cards.views[0].slots
        ]
        return [(view.slots[0].holder, view.memory_used_bytes, view.utilization_percent) for view in lines]

    site.probe.utilization[site.engine.cards[0].uuid] = 40
    assert parts() == [("alice", 3 * GIB, 40), ("bob", 2 * GIB, 40), (None, 0, 0), (None, 0, 0)]
    site.probe.unlisted.add(site.engine.cards[0].uuid)
    assert [(memory, use) for _, memory, use in parts()] == [(None, None)] * 4


def test_what_is_drawn_with_counts_too(site):
    """A part has no display server of the host: all memory there is its holder's."""
    job(site, "alice", 7, kind="graphics")
    work(site, GRACE_S + 20)
    assert acts(site) == [OVER, "TERM"]


def test_after_the_clock_was_set_a_whole_grace_runs_anew(site):
    """A warning counts by the clock that it was given by."""
    job(site, "alice", 7)
    work(site, 20)
    site.clock.jump(3600)
    work(site, GRACE_S - 10)
    assert site.probe.signals == []
    assert told(site, "alice") == [OVER, OVER]
    work(site, 30)
    assert acts(site) == [OVER, OVER, "TERM"]


def test_another_process_goes_on_where_one_ended(site):
    """What was told and signalled is in the inventory: nobody is told twice, or signalled twice."""
    job(site, "alice", 7, ignores_term=True)
    for _ in range(9):
        work(replace(site, watch=Watch()), 10)
    assert acts(site) == [OVER, "TERM", "KILL"]


def test_a_look_that_fails_is_that_sections_own_failure(site):
    """Whose programs cannot be looked at is left alone; everything else of the tick goes on, bob's programs too."""
    mine = job(site, "alice", 7)
    theirs = job(site, "bob", 7)
    work(site, GRACE_S)
    hidden = site.engine.init("alice")
    holders = site.probe.holders

    def look(inits, *args, **how):
        if inits == [hidden]:
            raise LxgpuError("unavailable", "it did not answer within 5 s")
        return holders(inits, *args, **how)

    site.probe.holders = look
    site.clock.sleep(10)
    ticked = tick(site)
    assert ticked.failed == ("memory",)
    assert ticked.troubles == ("memory: it did not answer within 5 s",)
    assert [site.probe.alive(one) for one in (mine, theirs)] == [True, False]


def test_in_a_long_episode_only_what_is_new_is_read(site, monkeypatch):
    """However long ago the warning was; use within the share ends the episode all the same."""
    site = replace(site, policy=lambda: policy_with(MemoryGuard.WARN))
    first = job(site, "alice", 7)
    work(site, 600)
    asked = []
    samples = site.inventory.samples

    def watched(_self, *, since, uuid=None):
        asked.append(samples(since=since, uuid=uuid))
        return asked[-1] if uuid else samples(since=since)

    monkeypatch.setattr(type(site.inventory), "samples", watched)
    work(site, 10)
    part = site.inventory.read().held_by("alice")[0].slot.gpu
    (mine,) = [rows for rows in asked if {row.uuid for row in rows} == {part}]
    assert len(mine) <= 8
    site.probe.end(first)
    work(site, 10)
    job(site, "alice", 8)
    work(site, 20)
    assert told(site, "alice") == [OVER, OVER]


def test_a_part_that_changed_hands_is_left_alone(site):
    """Between the look and the act alice gave it back: neither is she told, nor is anything ended."""
    job(site, "alice", 7)
    seen = observe.look(site, readings=True)
    lending.release(site, "alice", count=None, uuids=(), busy=True)
    before = len(site.probe.signals)
    assert guarding.guard_memory(site, seen) == 0
    assert told(site, "alice") == []
    assert len(site.probe.signals) == before
