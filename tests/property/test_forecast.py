"""What must hold of every forecast: a chance is one, the future is not known, and what is newer counts more."""

from __future__ import annotations

import random
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from math import exp
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lxgpu.policy.brier import score
from lxgpu.policy.forecast import Stretch, free_cards, learn, past

NOW = datetime(2027, 11, 8, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
ZONES = st.sampled_from([UTC, ZoneInfo("Europe/Berlin"), ZoneInfo("Asia/Kolkata"), ZoneInfo("Australia/Lord_Howe")])
LIVES = st.sampled_from([7 * 86400, 28 * 86400])
HISTORY = st.lists(
    st.builds(
        lambda who, age, length, ended: Stretch(who, NOW - age * MINUTE, NOW + (length - age) * MINUTE, ended),
        st.sampled_from(["ann", "bob"]),
        st.integers(0, 40 * 1440),
        st.integers(1, 3 * 1440),
        st.booleans(),
    ),
    max_size=12,
)
"""Stretches of up to three days in the last forty, two changes of the clocks among them; some reach into the future."""


@given(seen=HISTORY, zone=ZONES, life=LIVES, ahead=st.integers(0, 3 * 86400), order=st.randoms(use_true_random=False))
def test_a_chance_is_one_and_grows_with_the_time(
    seen: list[Stretch], zone: ZoneInfo, life: int, ahead: int, order: random.Random
) -> None:
    """From 0 to 1, in any order of the past, and no smaller for a longer time."""
    found = learn(seen, zone, half_life_s=life, now=NOW)
    mixed = list(seen)
    order.shuffle(mixed)
    assert learn(mixed, zone, half_life_s=life, now=NOW) == found
    if found is None:
        return
    for who in ("ann", "bob", "new"):
        assert 0 <= found.chance(who, NOW, ahead) <= found.chance(who, NOW, ahead + 600) <= 1
        assert found.chance(who, NOW, 0) == 0
        end = found.likely_at(who, NOW)
        if end is not None:
            assert found.chance(who, NOW, (end - NOW).total_seconds()) == pytest.approx(0.5, abs=1e-6)
    cards = free_cards(found, found, free=2, held=3, at=NOW, hours=30)
    assert all(0 <= number <= 5 for number in cards)


@given(seen=HISTORY, zone=ZONES, life=LIVES)
def test_the_future_is_not_known(seen: list[Stretch], zone: ZoneInfo, life: int) -> None:
    """What is cut at now says the same as what goes on and how it ends."""
    told = learn(seen, zone, half_life_s=life, now=NOW)
    assert learn(list(past(seen, NOW)), zone, half_life_s=life, now=NOW) == told
    turned = [Stretch(one.who, one.since, one.until, one.ended ^ (one.until > NOW)) for one in seen]
    assert learn(turned, zone, half_life_s=life, now=NOW) == told


@given(seen=HISTORY, zone=ZONES, life=LIVES, ahead=st.integers(60, 86400))
def test_the_chance_is_that_of_the_formula_minute_by_minute(
    seen: list[Stretch], zone: ZoneInfo, life: int, ahead: int
) -> None:
    """Against a second reading of the docs that walks the clock in minutes, cut where its minutes or its zone turn."""
    found = learn(seen, zone, half_life_s=life, now=NOW)
    hours: defaultdict[tuple[str, int], float] = defaultdict(float)
    events: defaultdict[tuple[str, int], float] = defaultdict(float)
    for one in past(seen, NOW):
        at, minutes = one.since, 0
        while at < one.until:
            local = at.astimezone(zone)
            at, minutes = at + MINUTE, minutes + 1
            after = at.astimezone(zone)
            if at == one.until or after.minute == 0 or after.utcoffset() != local.utcoffset():
                weight = 0.5 ** ((NOW - at) / timedelta(seconds=life))
                key = (one.who, local.weekday() * 24 + local.hour)
                hours[key] += weight * minutes / 60
                events[key] += weight * (one.ended and at == one.until)
                minutes = 0
    seen_h = sum(hours.values())
    if seen_h < 23.999:
        assert found is None
        return
    if found is None:
        assert seen_h < 24.001
        return
    overall = sum(events.values()) / seen_h
    week = [
        (sum(events[who, hour] for who in ("ann", "bob")) + 4 * overall)
        / (sum(hours[who, hour] for who in ("ann", "bob")) + 4)
        for hour in range(168)
    ]
    expected = sum(week[hour] * hours["ann", hour] for hour in range(168))
    factor = (sum(events["ann", hour] for hour in range(168)) + 4) / (expected + 4)
    total = 0.0
    for second in range(0, ahead, 60):
        local = (NOW + timedelta(seconds=second)).astimezone(zone)
        total += week[local.weekday() * 24 + local.hour] * min(60, ahead - second) / 3600
    assert found.chance("ann", NOW, ahead) == pytest.approx(1 - exp(-factor * total), abs=1e-9)


@given(weeks=st.integers(1, 6), life=LIVES, zone=ZONES, length=st.integers(30, 160))
def test_what_is_newer_counts_more(weeks: int, life: int, zone: ZoneInfo, length: int) -> None:
    """Of two equal stretches at the same hours of the week, it matters more how the newer one ended."""
    new = NOW - timedelta(days=1), NOW - timedelta(days=1) - length * 60 * MINUTE
    old = tuple(at - timedelta(weeks=weeks) for at in new)

    def chance(*, old_ended: bool, new_ended: bool) -> float:
        seen = [Stretch("ann", old[1], old[0], old_ended), Stretch("ann", new[1], new[0], new_ended)]
        found = learn(seen, zone, half_life_s=life, now=NOW)
        assert found is not None
        return found.chance("new", new[0] + timedelta(weeks=1) - 60 * MINUTE, 3600)

    none, both = chance(old_ended=False, new_ended=False), chance(old_ended=True, new_ended=True)
    assert none < chance(old_ended=True, new_ended=False) < chance(old_ended=False, new_ended=True) < both


@settings(max_examples=50)
@given(seen=HISTORY, zone=ZONES, cut=st.integers(1, 20))
def test_a_day_is_told_from_the_days_before_it(seen: list[Stretch], zone: ZoneInfo, cut: int) -> None:
    """The scores up to a day do not depend on what comes after it; and a Brier score is between 0 and 1."""
    end = NOW - timedelta(days=cut)

    def scored(history: list[Stretch]) -> object:
        since = NOW - timedelta(days=30)
        return score(history, zone, half_life_s=28 * 86400, since=since, now=end, within_s=(900, 7200))

    found = score(seen, zone, half_life_s=28 * 86400, since=NOW - timedelta(days=30), now=end, within_s=(900, 7200))
    assert scored(list(past(seen, end))) == scored([*seen, Stretch("bob", end, NOW, ended=True)])
    for one in found:
        figures = [figure for figure in (one.forecast, one.same, one.usual) if figure is not None]
        assert all(0 <= figure <= 1 for figure in figures)
        assert bool(figures) == bool(one.asked)
        assert one.same is None or one.same == pytest.approx(one.came / one.asked)
