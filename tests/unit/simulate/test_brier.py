"""The forecast against no forecast on made-up labs: it wins where there is a pattern, and not by luck where none is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from lxgpu.policy.brier import LEAST_DAYS, Score, score
from lxgpu.simulate.brier import AHEAD_S, LABS, history, measure

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
