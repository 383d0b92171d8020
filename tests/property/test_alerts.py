"""An open alert is told once and not at each look, however it comes and goes, and whatever ends the process."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from lxgpu.policy.alerts import CALM_S, LASTS_S, Alert, AlertKind, Sight, Standing, Word, follow

START = datetime(2027, 3, 1, tzinfo=UTC)
AGAIN_S = 86400.0
ALERTS = [Alert(kind, subject) for kind in AlertKind for subject in ("alice", "bob")]
LOOK = st.tuples(
    st.sampled_from([0.0, 10.0, 300.0, 3600.0, 90_000.0]),
    st.sets(st.sampled_from(ALERTS)),
    st.sets(st.sampled_from([*(one.key for one in ALERTS), *((kind, "") for kind in AlertKind)])),
    st.booleans(),
)
"""Seconds since the look before, what is seen, what nobody can tell of, and whether the process is another one."""


def kept(standing: tuple[Standing, ...]) -> tuple[Standing, ...]:
    """What the history knows of it: what was told."""
    return tuple(Standing(one.alert, one.seen_at, one.told_at) for one in standing if one.told_at)


@given(st.lists(LOOK, max_size=40))
def test_an_open_alert_is_told_once_and_not_per_tick(looks):
    """Opened, then nothing but reminders a day apart, then over, and so on; nothing is told that is not seen."""
    now, standing = START, ()
    said: dict[object, list[tuple[Word, datetime]]] = {}
    for passed, seen, unknown, anew in looks:
        now += timedelta(seconds=passed)
        before = kept(standing) if anew else standing
        standing, told = follow(before, Sight(tuple(seen), frozenset(unknown)), now=now, again_s=AGAIN_S)
        assert len({one.alert.key for one in told}) == len(told)
        for one in told:
            assert (one.alert in seen) is (one.word is not Word.OVER)
            said.setdefault(one.alert.key, []).append((one.word, now))
        assert {one.alert.key for one in standing if one.told_at} == {
            key for key, words in said.items() if words[-1][0] is not Word.OVER
        }
    for words in said.values():
        assert words[0][0] is Word.OPENED
        for (word, at), (later, then) in pairwise(words):
            assert (later is Word.OPENED) is (word is Word.OVER)
            assert then - at >= timedelta(seconds={Word.REPEATED: AGAIN_S, Word.OVER: CALM_S}.get(later, 0))


@given(st.sampled_from(ALERTS), st.integers(1, 30 * 86400), st.booleans())
def test_a_clock_that_was_set_back_hides_nothing(alert, back_s, told):
    """What was seen or told in a time that is still to come counts from now on, and no later."""
    ahead = START + timedelta(seconds=back_s)
    standing, words = (Standing(alert, ahead, ahead if told else None),), []
    for step in range(4):
        now = START + timedelta(seconds=step * AGAIN_S)
        standing, said = follow(standing, Sight((alert,)), now=now, again_s=AGAIN_S)
        words += [one.word for one in said]
    first = [] if told else [Word.OPENED]
    assert words == [*first, *[Word.REPEATED] * (3 if told or not LASTS_S[alert.kind] else 2)]


@given(st.sampled_from(ALERTS), st.integers(1, 3000))
def test_what_lasts_is_told_in_time_and_what_is_over_too(alert, every_s):
    """At the first look after it has lasted; over at the first one after it has been gone for ten minutes."""
    now, standing, words = START, (), []
    lasts = timedelta(seconds=LASTS_S[alert.kind])
    for step in range(int(7200 / every_s) + 2):
        now = START + timedelta(seconds=step * every_s)
        standing, told = follow(standing, Sight((alert,)), now=now, again_s=AGAIN_S)
        assert bool(told) is (now - START >= lasts and not words)
        words += [one.word for one in told]
    gone = now
    while standing:
        now += timedelta(seconds=every_s)
        standing, told = follow(standing, Sight(), now=now, again_s=AGAIN_S)
        words += [one.word for one in told]
    assert words == [Word.OPENED, Word.OVER]
    assert now - gone - timedelta(seconds=every_s) >= timedelta(seconds=CALM_S)
    assert now - gone - timedelta(seconds=2 * every_s) < timedelta(seconds=CALM_S)
