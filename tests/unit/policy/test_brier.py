"""Brier scores by hand; tests/unit/simulate/test_backtest.py has whole labs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from lxgpu.policy.brier import Score, score
from lxgpu.policy.forecast import Stretch, learn

NOW = datetime(2027, 6, 7, tzinfo=UTC)
LIFE_S = 28 * 86400


def test_a_score_by_hand() -> None:
    """One stretch of a day, asked at each hour of it; what nobody saw the end of is not counted."""
    day = datetime(2027, 3, 8, tzinfo=UTC)
    before = [Stretch("ann", day - timedelta(hours=48), day - timedelta(hours=12), ended=True)]
    hour = timedelta(hours=1)
    asked = [Stretch("bob", day, day + 3.5 * hour, ended=True), Stretch("ann", day, day + 2.5 * hour, ended=False)]
    now = day + timedelta(days=1)
    (found,) = score([*before, *asked], UTC, half_life_s=LIFE_S, since=day, now=now, within_s=(3600,))
    told = learn(before, UTC, half_life_s=LIFE_S, now=day)
    assert told is not None
    answers = [("bob", 0, 0), ("bob", 1, 0), ("bob", 2, 0), ("bob", 3, 1), ("ann", 0, 0), ("ann", 1, 0)]
    errors = [(told.chance(who, day + at * hour, 3600) - came) ** 2 for who, at, came in answers]
    assert (found.asked, found.came) == (6, 1)
    assert found.forecast == pytest.approx(sum(errors) / 6)
    assert found.same == pytest.approx(1 / 6)
    usual = told.usual(3600)
    assert found.usual == pytest.approx((5 * usual**2 + (1 - usual) ** 2) / 6)
    assert found.lead == pytest.approx(found.usual - found.forecast)


def test_a_lab_without_a_past_is_asked_nothing() -> None:
    """No score is no success."""
    (found,) = score([], UTC, half_life_s=LIFE_S, since=NOW - timedelta(weeks=4), now=NOW, within_s=(3600,))
    assert found == Score(3600, 0, 0)
    assert not found.proven


LUCK = [
    ("better than both and far from luck", Score(3600, 900, 80, 0.05, 0.08, 0.07, 28, 0.02, 0.005), True),
    ("no better than the usual", Score(3600, 900, 80, 0.07, 0.08, 0.07, 28, 0.02, 0.005), False),
    ("no better than as now", Score(3600, 900, 80, 0.05, 0.05, 0.07, 28, 0.02, 0.005), False),
    ("a lead of two standard errors may be luck", Score(3600, 900, 80, 0.05, 0.08, 0.07, 28, 0.01, 0.005), False),
    ("thirteen days are too few", Score(3600, 900, 80, 0.05, 0.08, 0.07, 13, 0.02, 0.005), False),
]


@pytest.mark.parametrize(("promise", "found", "asked"), LUCK, ids=[row[0] for row in LUCK])
def test_what_is_proven(promise: str, found: Score, asked: bool) -> None:  # noqa: FBT001 -- a table's column
    """Each row's own promise."""
    assert found.proven is asked, promise
