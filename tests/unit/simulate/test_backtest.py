"""The forecast against no forecast on made-up labs: it wins where there is a pattern, and not by luck where none is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from lxgpu.policy.brier import LEAST_DAYS, Score, score
from lxgpu.simulate.backtest import AHEAD_S, LABS, history, measure, pauses
from lxgpu.simulate.jobs import Burst, Job, Lab, Workload
from lxgpu.simulate.synthetic import generate

NOW = datetime(2027, 6, 7, tzinfo=UTC)
BERLIN = ZoneInfo("Europe/Berlin")
LIFE_S = 28 * 86400


def measured(name: str, seed: int, *, weeks: int = 8) -> tuple[Score, ...]:
    """Eight holders, asked about the last four weeks."""
    lab = LABS[name](BERLIN)
    found = measure(lab, holders=8, now=NOW, weeks=weeks, asked_weeks=4, half_life_s=LIFE_S, seed=seed)
    return tuple(found)


@pytest.mark.parametrize("seed", range(4))
def test_office_hours_are_learnt(seed: int) -> None:
    """Proven at each time ahead; within an hour a quarter better than nothing at all happening."""
    found = measured("office", seed)
    assert [one.proven for one in found] == [True] * len(AHEAD_S)
    hour = found[1]
    assert hour.forecast is not None
    assert hour.same is not None
    assert hour.forecast < 0.75 * hour.same


@pytest.mark.parametrize("seed", range(8))
def test_where_all_hours_are_alike_nothing_is_proven_by_luck(seed: int) -> None:
    """Though it beats "same as now", as any rate does."""
    found = measured("steady", seed)
    assert [one.proven for one in found] == [False] * len(AHEAD_S)
    assert all(one.forecast is not None and one.same is not None and one.forecast < one.same for one in found)


def test_a_made_up_lab_is_the_same_again_and_keeps_its_hours() -> None:
    """Nobody comes back in two places at once, and most come back in office hours."""
    lab = LABS["office"](BERLIN)
    since = NOW - timedelta(weeks=8)
    made = history(lab, holders=8, since=since, until=NOW, seed=1)
    assert (
        made
        == history(lab, holders=8, since=since, until=NOW, seed=1)
        != history(lab, holders=8, since=since, until=NOW, seed=2)
    )
    ends = [one.until.astimezone(BERLIN) for one in made if one.ended]
    in_time = sum(end.weekday() < 5 and 9 <= end.hour < 18 for end in ends)
    assert len(ends) > 400
    assert in_time > 0.85 * len(ends)
    mine = [one for one in made if one.who == "holder0"]
    assert all(sooner.until < later.since for sooner, later in pairwise(mine))


def test_too_few_days_prove_nothing() -> None:
    """However clear they are."""
    lab = LABS["office"](BERLIN)
    made = history(lab, holders=8, since=NOW - timedelta(weeks=8), until=NOW, seed=0)
    begin = NOW - timedelta(days=LEAST_DAYS - 1)
    (found,) = score(made, BERLIN, half_life_s=LIFE_S, since=begin, now=NOW, within_s=(7200,))
    assert found.days == LEAST_DAYS - 1
    assert found.lead > 2 * found.error
    assert not found.proven


def test_a_holders_pauses_begin_a_window_after_its_work() -> None:
    """What goes on until the cards are given back has no end that anybody saw."""
    bursts = (Burst(3600, 600), Burst(5000, 100), Burst(20_000, 100), Burst(90_000, 100))
    job = Job("j", "ann", 1, 0.0, 30_000.0, bursts=bursts)
    batch = Job("b", "bob", 1, 0.0, 30_000.0)
    start = datetime(2027, 1, 4, tzinfo=UTC)
    found = pauses(Workload("two", (job, batch), start=start), window_s=1800)
    told = [((one.since - start).total_seconds(), (one.until - start).total_seconds(), one.ended) for one in found]
    assert told == [(1800, 3600, True), (6900, 20_000, True), (21_900, 30_000, False)]
    assert {one.who for one in found} == {"ann"}


@pytest.mark.parametrize("seed", range(3))
def test_people_who_hold_cards_and_sleep_at_night_are_told_ahead(seed: int) -> None:
    """In a lab that was not made up for this: within an hour at less than half of both."""
    there = generate("idle", Lab(2, 8), days=56, seed=seed)
    now = there.start + timedelta(days=56)
    seen = pauses(there, window_s=7200)
    begin = now - timedelta(days=28)
    (found,) = score(seen, UTC, half_life_s=LIFE_S, since=begin, now=now, within_s=(3600,))
    assert found.proven
    assert found.forecast is not None
    assert found.usual is not None
    assert found.forecast < 0.5 * found.usual
