"""Reserve, take and give back under everything that can happen, in any order: the invariants hold, and all ends."""

from __future__ import annotations

import os
from datetime import timedelta

import pytest
from fakes.faults import Fault, When
from hypothesis import HealthCheck, core, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from inline_pool import without_threads
from seeded_ids import seeded_ids
from taking_world import A100, PEOPLE, POLICIES, A, B, World

from lxgpu.model.rules import CardRule, Mode

RUNS = int(os.environ.get("LXGPU_MACHINE_RUNS", "25"))
STEPS = 50
HUNT = core.global_force_seed is not None  # --hypothesis-seed=N, which a worker of xdist does not see in its argv
pytestmark = pytest.mark.timeout(1800)  # a thousand runs took 8 to 12 minutes on two busy processors


@pytest.fixture(autouse=True, scope="module")
def _one_after_another():
    """Without threads, and with ids from a seed, a run can be repeated."""
    with without_threads(), seeded_ids():
        yield


people = st.sampled_from(PEOPLE)
cards = st.integers(0, 3)
numbers = st.integers(1, 3)
seconds = st.sampled_from((10, 40, 120, 600, 7200))
classes = st.sampled_from(("", "", "", "urgent", "low", "fixed"))
patterns = st.sampled_from(("*", "*", "3090", A, B))
slices = st.sampled_from(("* 3g.20gb", "* 2g.10gb", f"{A100} 2g.10gb", "* 0.4"))
parts = st.sampled_from(("* 0.5", "* 0.5", "3090 0.3", f"{A} 1/2"))


class Taking(RuleBasedStateMachine):
    """Three people, three or four cards, and everything that can happen."""

    @initialize(models=st.sampled_from([(A, A, A), (A, A, A, A), (A, A, B), (A, A, B, B)]))
    def begin(self, models):
        """The host as it is in the morning."""
        self.world = World(models)

    # ---- time

    @rule(step=st.sampled_from((0.3, 1.0, 1.0, 2.0, 5.0)), ticks=st.integers(1, 8))
    def seconds_pass(self, step, ticks):
        """The daemon at work."""
        for _ in range(ticks):
            self.world.sleep(step)
            self.world.tick()

    @rule(step=st.sampled_from((20, 90, 600, 3600, 86400, 6 * 86400)))
    def long_pass(self, step):
        """The daemon away, or nothing to do."""
        self.world.sleep(step)
        self.world.tick()

    @rule()
    def until_due(self):
        """The daemon sleeps until something is due."""
        due = self.world.next.next_at if self.world.next else None
        if due is not None:
            self.world.sleep(max(0.0, (due - self.world.site.clock.now()).total_seconds()))
        self.world.tick()

    @rule()
    def paused(self):
        """A tick that takes nothing."""
        self.world.sleep(1)
        self.world.tick(paused=True)

    @rule(by=st.sampled_from((-3600, -30, 6, 60, 4000)))
    def clock_is_set(self, by):
        """The wall clock jumps."""
        self.world.jump(by)

    # ---- people

    @rule(who=people, gpus=numbers, length=seconds, chosen=classes, model=patterns, hard=st.sampled_from((0, 0, 0, 1)))
    def reserve_now(self, *, who, gpus, length, chosen, model, hard):
        """Cards as soon as they can be had."""
        text = "deadline" if hard else ""
        self.world.reserve(who, gpus, length, class_name=chosen, model=model, no_warning=text)

    @rule(who=people, gpus=numbers, length=seconds, ahead=st.sampled_from((2, 15, 40, 300, 5000)), chosen=classes)
    def reserve_ahead(self, who, gpus, length, ahead, chosen):
        """Cards at a time."""
        self.world.reserve(who, gpus, length, ahead=ahead, class_name=chosen)

    @rule(who=people, gpus=st.integers(1, 2), length=seconds, model=patterns)
    def reserve_weekly(self, who, gpus, length, model):
        """The same time each week."""
        self.world.reserve(who, gpus, length, ahead=100, weekly=True, model=model)

    def one_of(self, index):
        """Some open reservation."""
        rows = self.world.judge.inner.read().reservations
        return rows[index % len(rows)] if rows else None

    @rule(index=st.integers(0, 5), series=st.booleans())
    def cancel(self, index, series):
        """Nothing is left of what had not begun."""
        row = self.one_of(index)
        if row is None:
            return
        before = self.world.judge.inner.read()
        hit = [one.slot for one in before.assignments if one.reservation == row.id and one.state.value == "planned"]
        if self.world.cancel(row.id, series=series) is None:
            return
        after = self.world.judge.inner.read()
        assert after.reservation(row.id) is None
        assert not [one for one in after.assignments if one.reservation == row.id and one.state.value == "planned"]
        if self.world.tick() is None:
            return  # killed, or LXD is away
        after = self.world.judge.inner.read()
        for slot in hit:
            held, promise = after.holder(slot), after.successor(slot)
            assert held is None or held.state.value != "warned" or promise is not None or held.outcome == "no_show"

    @rule(
        index=st.integers(0, 5),
        gpus=st.none() | numbers,
        start=st.none() | st.sampled_from((-30, 60)),
        length=st.none() | st.sampled_from((-20, 30, 300)),
    )
    def edit(self, index, gpus, start, length):
        """More or fewer, sooner or later, longer or shorter."""
        row = self.one_of(index)
        if row is None:
            return
        at = row.start + timedelta(seconds=start) if row.start and start is not None else None
        until = row.until + timedelta(seconds=length) if row.until and length is not None else None
        self.world.edit(row.id, gpus=gpus, at=at, until=until)

    @rule(who=people, number=st.integers(1, 2), chosen=classes, lease=st.sampled_from((None, 20, 100)))
    def attach(self, who, number, chosen, lease):
        """Cards as a lease."""
        self.world.attach(who, number, class_name=chosen, lease_s=lease)

    @rule(who=people, count=st.none() | st.integers(1, 2))
    def release(self, who, count):
        """Cards given back."""
        self.world.release(who, count)

    @rule(
        who=people,
        how=st.sampled_from(
            ("start", "start", "stop", "kill", "restart", "suspend", "resume", "resume", "delete", "create", "create")
        ),
    )
    def switch(self, who, how):
        """Containers come and go."""
        self.world.switch(who, how)

    @rule(who=people, how=st.sampled_from(("extend", "keep")))
    def hold_on(self, who, how):
        """Longer, or kept though idle."""
        self.world.switch(who, how)

    # ---- programs

    @rule(who=people, mood=st.sampled_from(("good", "good", "slow", "deaf", "phoenix", "stuck", "lazy")), most=cards)
    def job(self, who, mood, most):
        """A program on some of one's cards."""
        self.world.job(who, mood=mood, cards=most + 1)

    @rule(who=people)
    def jobs_end(self, who):
        """All programs of a container end."""
        self.world.end_jobs(who)

    @rule(who=people, number=st.integers(0, 1))
    def login(self, who, number):
        """An SSH session."""
        found = self.world.machine(who)
        if found is not None and found.init_pid is not None:
            self.world.site.probe.sessions[found.init_pid] = number

    # ---- the admin

    @rule(name=st.sampled_from(sorted(POLICIES)))
    def policy(self, name):
        """Another policy file."""
        self.world.policy = POLICIES[name]

    @rule(card=cards, closed=st.booleans())
    def service(self, card, closed):
        """A card out of service or back."""
        found = self.world.site.engine.cards
        self.world.service(found[card % len(found)].uuid, closed=closed)

    # ---- faults

    @rule(text=st.sampled_from((None, "Driver/library version mismatch")))
    def nvml(self, text):
        """NVML is out of order, or in order."""
        self.world.site.probe.error = text

    @rule(card=cards, fault=st.sampled_from((None, None, "lost", "unknown", "unlisted")))
    def sick(self, card, fault):
        """One card is not what it was."""
        probe, found = self.world.site.probe, self.world.site.engine.cards
        uuid = found[card % len(found)].uuid
        probe.faults.pop(uuid, None)
        probe.unlisted.discard(uuid)
        if fault == "unlisted":
            probe.unlisted.add(uuid)
        elif fault:
            probe.faults[uuid] = fault

    @rule(
        fault=st.sampled_from([fault for fault in Fault if fault is not Fault.HALF]),
        call=st.sampled_from(("", "update", "stop", "start", "put_promises")),
        nth=st.integers(1, 3),
        after=st.integers(1, 6),
    )
    def lxd_fails(self, fault, call, nth, after):
        """One of LXD's next calls."""
        self.world.site.engine.inject(fault, call=call, nth=nth, after=after)

    @rule(number=st.integers(1, 6), when=st.sampled_from((When.BEFORE, When.AFTER)))
    def dies_writing(self, number, when):
        """The process is killed at one of its next writes to the inventory."""
        self.world.mortal.doom(number, when)

    @rule(number=st.integers(1, 4), when=st.sampled_from(When), after=st.integers(1, 6))
    def dies_at_lxd(self, number, when, after):
        """The process is killed at one of its next writes to LXD."""
        engine = self.world.site.engine
        engine.kill(when, write=engine.writes + number, after=after)

    # ---- always

    @invariant()
    def holds(self):
        """The judge has nothing to say."""
        if hasattr(self, "world"):
            self.world.check()

    def teardown(self):
        """All comes to its end."""
        if hasattr(self, "world") and not self.world.wrong and not self.world.judge.wrong:
            self.world.settle()


class TakingParts(Taking):
    """The same with the last card in two parts, which people want as much as whole ones."""

    @initialize(models=st.sampled_from([(A, A), (A, B), (A, A, B)]))
    def begin(self, models):
        """The host as it is in the morning."""
        self.world = World(models, rule=CardRule(Mode.TIMESHARE, 2))

    @rule(who=people, length=seconds, chosen=classes, model=parts)
    def reserve_part(self, who, length, chosen, model):
        """A part as soon as it can be had."""
        self.world.reserve(who, 1, length, class_name=chosen, model=model)

    @rule(who=people, length=seconds, ahead=st.sampled_from((2, 15, 40, 300, 5000)), model=parts)
    def reserve_part_ahead(self, who, length, ahead, model):
        """A part at a time."""
        self.world.reserve(who, 1, length, ahead=ahead, model=model)

    @rule(who=people, chosen=classes, lease=st.sampled_from((None, 20, 100)), model=parts)
    def attach_part(self, who, chosen, lease, model):
        """A part as a lease."""
        self.world.attach(who, 1, class_name=chosen, lease_s=lease, model=model)


class TakingSlices(TakingParts):
    """The same with the last card in MIG slices, of two kinds."""

    @initialize(models=st.sampled_from([(A, A100), (A, B, A100)]))
    def begin(self, models):
        """The host as it is in the morning."""
        self.world = World(models, rule=CardRule(Mode.MIG, slices=("3g.20gb", "2g.10gb", "2g.10gb")))

    @rule(who=people, length=seconds, chosen=classes, model=slices)
    def reserve_slice(self, who, length, chosen, model):
        """A slice as soon as it can be had."""
        self.world.reserve(who, 1, length, class_name=chosen, model=model)

    @rule(who=people, chosen=classes, lease=st.sampled_from((None, 20, 100)), model=slices)
    def attach_slice(self, who, chosen, lease, model):
        """A slice as a lease."""
        self.world.attach(who, 1, class_name=chosen, lease_s=lease, model=model)


TestTaking = Taking.TestCase
TestTaking.settings = settings(
    max_examples=RUNS,
    derandomize=not HUNT,  # each day the same ones; with a seed of its own a hunt goes where nobody was
    stateful_step_count=STEPS,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
TestTakingParts = TakingParts.TestCase
TestTakingParts.settings = settings(TestTaking.settings, max_examples=max(1, RUNS // 4))
TestTakingSlices = TakingSlices.TestCase
TestTakingSlices.settings = settings(TestTaking.settings, max_examples=max(1, RUNS // 20))
