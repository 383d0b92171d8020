"""Whatever was seen: unknown is never idle, work is never idle, and merging old samples forgets no work."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import example, given
from hypothesis import strategies as st

from lxgpu.inventory.samples import STAGES, thinned
from lxgpu.model.rules import IdleRules
from lxgpu.model.usage import Sample, Use
from lxgpu.policy.idleness import judge

T0 = datetime(2027, 3, 1, 8, 0, tzinfo=UTC)
RULES = IdleRules(window_s=60, protect_ssh_s=30, protect_memory_s=300)
FIGURE = st.sampled_from([None, 0, 0, 0, 0, 0, 1, 90])


@st.composite
def watched(draw):
    """Samples about five seconds apart, some missing, some that say little; and the time of the judgement."""
    at, found = 0.0, []
    for _ in range(draw(st.integers(0, 40))):
        at += draw(st.sampled_from([5, 5, 5, 5, 5, 4, 6, 10, 40]))
        login = draw(st.sampled_from([None, False, True]))
        memory, processes = draw(st.sampled_from([None, 0, 2**30])), draw(st.sampled_from([None, 0, 1, 1]))
        found.append(Sample(T0 + timedelta(seconds=at), "G", draw(FIGURE), memory, processes, "alice", login))
    return found, T0 + timedelta(seconds=at + draw(st.sampled_from([0, 0, 5, 100])))


def ask(samples, now, **more):
    """The judgement."""
    return judge(samples, since_attach=more.pop("since_attach", T0), rules=RULES, now=now, period_s=5, **more)


def silent(sample):
    """A sample of which something is not known."""
    return None in (sample.utilization_percent, sample.memory_used_bytes, sample.processes)


@given(watched())
def test_idle_was_seen_to_be_idle(world):
    """No work anywhere in the window, nine tenths of it seen, the newest sample fresh and whole."""
    samples, now = world
    verdict = ask(samples, now)
    if verdict.use is not Use.IDLE:
        return
    inside = [sample for sample in samples if sample.at > now - timedelta(seconds=60)]
    assert not any(sample.utilization_percent for sample in inside)
    assert not silent(samples[-1])
    assert now - samples[-1].at <= timedelta(seconds=15)
    assert len([sample for sample in inside if not silent(sample)]) >= 0.9 * 60 / (5 * 1.5)
    assert verdict.since <= now - timedelta(seconds=60)


@given(watched(), st.data())
def test_knowing_less_never_makes_it_idle(world, data):
    """A sample that is lost, or of which one signal is lost, never turns another verdict into idle."""
    samples, now = world
    if not samples or ask(samples, now).use is Use.IDLE:
        return
    number = data.draw(st.integers(0, len(samples) - 1))
    if samples[number].utilization_percent:
        return  # to lose the sight of work is another thing
    field = data.draw(st.sampled_from(["utilization_percent", "memory_used_bytes", "processes"]))
    less = [*samples[:number], replace(samples[number], **{field: None}), *samples[number + 1 :]]
    assert ask(less, now).use is not Use.IDLE
    assert ask([*samples[:number], *samples[number + 1 :]], now).use is not Use.IDLE


@given(watched(), st.integers(0, 200))
def test_what_came_before_the_attach_counts_for_nothing(world, seconds):
    """The judgement on a holder is the same whatever the card did before."""
    samples, now = world
    attached = T0 + timedelta(seconds=seconds)
    mine = [sample for sample in samples if sample.at >= attached]
    assert ask(samples, now, since_attach=attached) == ask(mine, now, since_attach=attached)


@st.composite
def old_samples(draw):
    """Samples of two cards over two weeks, some close together; and now."""
    now = T0 + timedelta(days=14)
    found = {}
    for _ in range(draw(st.integers(0, 30))):
        edge = draw(st.sampled_from([0, 1, 7, 14]))
        at = now - timedelta(days=edge) + timedelta(seconds=draw(st.integers(-1300, 1300)))
        uuid = draw(st.sampled_from(["A", "B"]))
        values = (draw(FIGURE), draw(st.sampled_from([None, 0, 5])), draw(st.sampled_from([None, 0, 2])))
        holder, login = draw(st.sampled_from(["", "alice"])), draw(st.sampled_from([None, True, False]))
        found[uuid, at] = Sample(at, uuid, *values, holder, login)
    return list(found.values()), now


def whole(samples):
    """In an order that is the same for the same samples."""
    return sorted(samples, key=lambda sample: (sample.uuid, sample.at))


@given(old_samples())
def test_merging_twice_is_merging_once(world):
    """Also when some time passes in between, the second time sees what the first left."""
    samples, now = world
    once = thinned(samples, now)
    assert thinned(once, now) == once
    later = now + timedelta(days=9)
    assert whole(thinned(once, later)) == whole(thinned(samples, later))


@given(old_samples())
@example(([Sample(T0, "A", 90, 5), Sample(T0 + timedelta(seconds=1), "A", 0, 9)], T0 + timedelta(days=2)))
def test_merging_keeps_the_highest_and_the_number(world):
    """Each card's and holder's highest figures stay, and how many readings there were."""
    samples, now = world
    kept = thinned(samples, now)
    for uuid, holder in {(sample.uuid, sample.instance) for sample in samples}:
        before, after = (
            [one for one in rows if (one.uuid, one.instance) == (uuid, holder)] for rows in (samples, kept)
        )
        for field in ("utilization_percent", "memory_used_bytes", "processes"):
            highest = [
                max((v for one in rows if (v := getattr(one, field)) is not None), default=None)
                for rows in (before, after)
            ]
            assert highest[0] == highest[1] or {*highest} == {0, None}
        assert sum(one.shared for one in before) == sum(one.shared for one in after)
        assert any(one.login for one in before) == any(one.login for one in after)


@given(old_samples())
def test_a_merged_sample_says_no_work_only_when_all_said_so(world):
    """One that is not known next to one without work is not known."""
    samples, now = world
    for merged in thinned(samples, now):
        age = now - merged.at
        width = next((width for older, width in STAGES if age > older), timedelta(0))
        parts = [
            one
            for one in samples
            if (one.uuid, one.instance) == (merged.uuid, merged.instance)
            and merged.at <= one.at < merged.at + width
            and int(one.at.timestamp()) // int(width.total_seconds() or 1)
            == int(merged.at.timestamp()) // int(width.total_seconds() or 1)
            and now - one.at > min(older for older, _ in STAGES)
        ]
        if merged.utilization_percent == 0 and len(parts) == merged.shared:
            assert all(one.utilization_percent == 0 for one in parts)


@given(old_samples())
def test_what_is_young_is_left_alone(world):
    """A day's samples are as they were taken."""
    samples, now = world
    young = [one for one in samples if now - one.at <= timedelta(days=1)]
    assert [one for one in whole(thinned(samples, now)) if now - one.at <= timedelta(days=1)] == whole(young)
