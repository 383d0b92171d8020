"""Whatever is seen: nobody's programs end without a warning a grace before, and no more of them than it takes."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from lxgpu.model.reservation import Notice
from lxgpu.model.usage import Sample
from lxgpu.policy.guard import AGAIN, Guard, Taker, judge, least, to_signal

T0 = datetime(2027, 3, 1, 8, 0, tzinfo=UTC)
SHARE, GRACE_S, WAIT_S = 6, 300, 120
LOOK = st.tuples(
    st.sampled_from([1, 10, 10, 10, 60, 400]), st.sampled_from([None, 0, 6, 7, 7, 7, 12]), st.integers(0, 4)
)
TAKER = st.tuples(st.integers(0, 5), st.integers(0, 9))


def lived(looks):
    """The guard at work: at each look what is seen, what is judged, and the last warning as it stood before."""
    at, samples, told = T0, [], None
    for gap_s, memory, delay in looks:
        at += timedelta(seconds=gap_s)
        samples.append(Sample(at, "G/1/4", None, memory))
        if told is not None and told.sent_at is None and delay == 0:
            told = replace(told, sent_at=at)
        since = [one for one in samples if told is None or one.at >= told.created_at]
        found = judge(since, share_bytes=SHARE, told=told, grace_s=GRACE_S, now=at)
        yield at, tuple(samples), told, found
        if found is Guard.TELL:
            sent = at if delay < 3 else None
            told = Notice("n", "memory_over", "alice", "alice", created_at=at, sent_at=sent)


@given(st.lists(LOOK, max_size=40))
def test_nothing_ends_without_a_warning_a_grace_before(looks):
    """Given and tried in this episode, nothing within the share was seen since, and what is taken now is known."""
    for at, samples, told, found in lived(looks):
        if found is Guard.END:
            assert told is not None
            assert told.sent_at is not None
            assert told.sent_at + timedelta(seconds=GRACE_S) <= at
            known = [one for one in samples if one.at >= told.created_at and one.memory_used_bytes is not None]
            assert all(one.memory_used_bytes > SHARE for one in known)
            assert samples[-1].memory_used_bytes is not None


@given(st.lists(LOOK, max_size=40))
def test_who_is_over_is_told_and_not_too_often(looks):
    """A warning at least so long after the last one; who stays above hears of it, and who is within hears nothing."""
    last = None
    for at, samples, told, found in lived(looks):
        over = (samples[-1].memory_used_bytes or 0) > SHARE
        if found is Guard.TELL:
            assert over
            assert last is None or at - last >= AGAIN
            last = at
        if over and (last is None or at - last >= AGAIN + timedelta(seconds=GRACE_S)):
            assert found is Guard.END or (told and told.sent_at is None)


@given(st.lists(LOOK, max_size=30), st.data())
def test_unknown_samples_change_nothing(looks, data):
    """With or without them between the others it is judged alike."""
    samples = [Sample(T0 + timedelta(seconds=10 * number), "G", None, look[1]) for number, look in enumerate(looks)]
    now = T0 + timedelta(seconds=10 * len(samples))
    told_at = data.draw(st.sampled_from([T0, now]))
    told = Notice("n", "memory_over", "alice", "alice", created_at=told_at, sent_at=told_at)
    known = [one for one in samples if one.memory_used_bytes is not None]
    rest = [*samples, *known[-1:]]
    asked = {"share_bytes": SHARE, "told": told, "grace_s": 30, "now": now}
    assert judge(rest, **asked) is judge([*known, *known[-1:]], **asked)


@st.composite
def programs(draw):
    """Programs of one holder, and which of them got TERM and KILL when."""
    found = [
        Taker(1000 + number, start, memory) for number, (start, memory) in enumerate(draw(st.lists(TAKER, max_size=7)))
    ]
    termed = {
        one.key: T0 - timedelta(seconds=draw(st.sampled_from([0, 60, 120, 500])))
        for one in found
        if draw(st.booleans())
    }
    killed = {key for key in termed if draw(st.booleans())}
    return found, termed, killed


@given(programs())
def test_as_few_as_it_takes_are_signalled(world):
    """None while they are within the share; none that could be spared; KILL only long enough after TERM."""
    takers, termed, killed = world
    terms, kills = to_signal(takers, share_bytes=SHARE, termed=termed, killed=killed, term_wait_s=WAIT_S, now=T0)
    over = sum(one.memory_bytes for one in takers) - SHARE
    if over <= 0:
        assert not terms
        assert not kills
    assert not {one.key for one in terms} & termed.keys()
    assert all(termed[one.key] + timedelta(seconds=WAIT_S) <= T0 and one.key not in killed for one in kills)
    going = sum(one.memory_bytes for one in takers if one.key in termed)
    for one in terms:
        assert sum(other.memory_bytes for other in terms) - one.memory_bytes + going < over
    left = over - going - sum(one.memory_bytes for one in terms)
    assert left <= 0 or all(one.memory_bytes == 0 for one in takers if one.key not in termed and one not in terms)


@given(st.lists(TAKER, max_size=7), st.integers(-5, 40))
def test_the_newest_go_first(found, over):
    """An older one goes only if those newer than it that stay could not have helped enough."""
    takers = [Taker(1000 + number, start, memory) for number, (start, memory) in enumerate(found)]
    chosen = least(takers, over)
    for old in chosen:
        newer = [one for one in takers if (one.start_time, one.pid) > (old.start_time, old.pid)]
        assert sum(one.memory_bytes for one in newer) < over
