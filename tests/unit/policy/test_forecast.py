"""The forecast's model on small, worked examples; tests/property/test_forecast.py has what always holds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from math import exp, log
from zoneinfo import ZoneInfo

import pytest

from lxgpu.policy.forecast import LEAST_H, Rates, Stretch, free_cards, learn, pieces

MONDAY = datetime(2027, 3, 1, tzinfo=UTC)
BERLIN = ZoneInfo("Europe/Berlin")
FOUR_WEEKS_S = 28 * 86400
HOUR = timedelta(hours=1)


def stretch(begin_h: float, until_h: float, *, ended: bool, who: str = "ann") -> Stretch:
    """Hours since Monday 00:00 UTC."""
    return Stretch(who, MONDAY + begin_h * HOUR, MONDAY + until_h * HOUR, ended)


def rates(**week: float) -> Rates:
    """One event in ten hours at all hours but those given, as `h9=2.0`."""
    known = {int(name[1:]): rate for name, rate in week.items()}
    return Rates(UTC, 0.1, tuple(known.get(hour, 0.1) for hour in range(168)), {"ann": 2.0})


HOURS = [
    ("a Monday's ninth hour is hour 9", "2027-03-01T09:30:00+00:00", UTC, 0.5, [(9, 0.5)]),
    ("the week begins on the lab's Monday, not on UTC's", "2027-02-28T23:30:00+00:00", BERLIN, 0.5, [(0, 0.5)]),
    ("a stretch is cut at each full hour of the clock", "2027-03-01T09:45:00+00:00", UTC, 1, [(9, 0.25), (10, 0.75)]),
    ("a zone of half hours has its own full hours", "2027-03-01T00:00:00+00:00", ZoneInfo("Asia/Kolkata"), 1,
     [(5, 0.5), (6, 0.5)]),
    ("the last hour of the week is 167", "2027-03-07T23:00:00+00:00", UTC, 2, [(167, 1), (0, 1)]),
    # On 2027-03-28 the clocks in Berlin go from 02:00 to 03:00; on 2027-10-31 from 03:00 back to 02:00.
    ("the hour that is left out in spring is never seen", "2027-03-28T00:30:00+00:00", BERLIN, 1.5,
     [(145, 0.5), (147, 1)]),
    ("the hour that comes twice in autumn is seen twice", "2027-10-31T00:00:00+00:00", BERLIN, 3,
     [(146, 1), (146, 1), (147, 1)]),
    ("what is empty has no pieces", "2027-03-01T09:00:00+00:00", UTC, 0, []),
]  # fmt: skip


@pytest.mark.parametrize(("promise", "begin", "zone", "hours", "asked"), HOURS, ids=[row[0] for row in HOURS])
def test_hours_of_the_week_are_those_of_the_clock_on_the_wall(promise, begin, zone, hours, asked) -> None:
    """Each row's own promise."""
    at = datetime.fromisoformat(begin)
    found = list(pieces(Stretch("ann", at, at + hours * HOUR, ended=True), zone))
    assert [(one.hour, one.hours) for one in found] == asked, promise
    assert [one.ended for one in found] == [False] * (len(found) - 1) + [True] * bool(found)


def test_nine_in_berlin_is_nine_in_summer_and_in_winter() -> None:
    """What was learnt before the clocks were set holds after, at the same time on the wall."""
    weeks = range(4)
    days = [datetime(2027, 3, 1, 8, tzinfo=UTC) + timedelta(weeks=week) for week in weeks]
    seen = [Stretch("ann", day - 20 * HOUR, day + HOUR / 2, ended=True) for day in days]  # back at 09:30, winter time
    found = learn(seen, BERLIN, half_life_s=FOUR_WEEKS_S, now=datetime(2027, 3, 27, tzinfo=UTC))
    assert found is not None
    summer = datetime(2027, 4, 5, 7, tzinfo=UTC)  # 09:00 in Berlin
    assert found.chance("ann", summer, 3600) == found.chance("ann", summer - timedelta(weeks=5) + HOUR, 3600)
    assert found.chance("ann", summer, 3600) > 2 * found.chance("ann", summer + HOUR, 3600)


def test_too_little_seen_is_no_forecast_and_not_a_chance_of_nothing() -> None:
    """None, until a day was seen, weighed by its age."""
    now = MONDAY + 24 * HOUR
    long = FOUR_WEEKS_S * 10**6  # so long that a day's age counts for nothing
    assert learn([], UTC, half_life_s=long, now=now) is None
    assert learn([stretch(0, LEAST_H - 0.5, ended=False)], UTC, half_life_s=long, now=now) is None
    found = learn([stretch(-0.5, LEAST_H, ended=False)], UTC, half_life_s=long, now=now)
    assert found is not None
    assert found.chance("ann", now, 3600) == 0.0, "a day was seen, and nothing came"
    faded = learn([stretch(0, 40, ended=True)], UTC, half_life_s=86400, now=MONDAY + timedelta(days=30))
    assert faded is None, "what is long past says no more"


def test_the_formula_by_hand() -> None:
    """Two days seen in a half-life without end: ann came at 00:30 and 09:00, bob never."""
    seen = [stretch(0, 0.5, ended=True), stretch(1, 9, ended=True), stretch(0, 40, ended=False, who="bob")]
    found = learn(seen, UTC, half_life_s=FOUR_WEEKS_S * 10**9, now=MONDAY + 48 * HOUR)
    assert found is not None
    overall = 2 / 48.5
    assert found.overall == pytest.approx(overall)
    assert found.week[0] == pytest.approx((1 + 4 * overall) / (1.5 + 4))
    assert found.week[8] == pytest.approx((1 + 4 * overall) / (2 + 4)), "an end at nine is of the hour before"
    assert found.week[100] == pytest.approx(overall), "an hour never seen has the overall rate"
    anns = found.week[0] * 0.5 + sum(found.week[1:9])
    assert found.factors["ann"] == pytest.approx((2 + 4) / (anns + 4))
    assert found.factors["bob"] == pytest.approx(4 / (sum(found.week[:40]) + 4))
    at = MONDAY + timedelta(weeks=2, minutes=30)
    summed = found.week[0] * 0.5 + found.week[1] * 0.5
    assert found.chance("ann", at, 3600) == pytest.approx(1 - exp(-found.factors["ann"] * summed))
    assert found.chance("new", at, 3600) == pytest.approx(1 - exp(-summed)), "one never seen is like the lab"
    assert found.usual(7200) == pytest.approx(1 - exp(-2 * overall))


def test_one_half_life_ago_counts_half() -> None:
    """An event of a week ago against an hour of now."""
    old, new = stretch(-168 - 30, -168, ended=True), stretch(-30, 0, ended=False)
    found = learn([old, new], UTC, half_life_s=7 * 86400, now=MONDAY)
    weight = [2.0 ** (-age / 168) for age in range(30)]
    assert found is not None
    assert found.overall == pytest.approx(0.5 / (1.5 * sum(weight)))


def test_when_it_is_as_likely_as_not() -> None:
    """The instant at which the chance is one half; none where that is weeks away."""
    likely = rates(h2=10.0)
    assert likely.likely_at("new", MONDAY) == MONDAY + 2 * HOUR + (log(2) - 0.2) / 10 * HOUR
    assert likely.likely_at("ann", MONDAY) == MONDAY + 2 * HOUR + (log(2) / 2 - 0.2) / 10 * HOUR
    end = rates().likely_at("new", MONDAY)
    assert end is not None
    assert rates().chance("new", MONDAY, (end - MONDAY).total_seconds()) == pytest.approx(0.5)
    assert Rates(UTC, 1e-6, (1e-6,) * 168, {}).likely_at("new", MONDAY) is None


def test_free_cards_go_towards_what_the_hours_expect() -> None:
    """Ten cards, as by adding up all ways in which each can change."""
    taken, given = rates(h1=1.0), rates(h0=0.5)
    found = free_cards(taken, given, free=3, held=7, at=MONDAY, hours=2)
    gone, come = 1 - exp(-0.1), 1 - exp(-0.5)
    first = 3 * (1 - gone) + 7 * come
    gone, come = 1 - exp(-1.0), 1 - exp(-0.1)
    assert list(found) == pytest.approx([first, first * (1 - gone) + (10 - first) * come])
    never = Rates(UTC, 0.0, (0.0,) * 168, {})
    assert list(free_cards(never, never, free=3, held=7, at=MONDAY, hours=3)) == [3, 3, 3], "as now"
