"""What is over, added to end by end: what is handed on is what would be found in the whole table."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lxgpu.model.assignment import Assignment, AssignmentState
from lxgpu.model.gpu import Slot
from lxgpu.policy.lookup import FAILED, failed_by_reservation, past_by_instance
from lxgpu.policy.past import past_use, with_end

BEGIN = datetime(2027, 3, 1, tzinfo=UTC)
HALF_LIFE_S = 7200.0
ENDS = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(-50, 400), st.sampled_from(("", FAILED)), st.booleans()),
    max_size=20,
)


def over(number: int, who: str, *, minutes: int, outcome: str, known: bool) -> Assignment:
    """One that ended an hour after the one before, and was had for so long, if that is known."""
    end = BEGIN + timedelta(hours=number)
    return Assignment(
        id=f"a{number}",
        slot=Slot("g"),
        instance=who,
        state=AssignmentState.CLOSED,
        created_at=BEGIN,
        since=end - timedelta(minutes=minutes) if known else None,
        closed_at=end,
        reservation=f"r{number % 3}",
        outcome=outcome,
    )


@given(ends=ENDS, asked=st.sets(st.integers(0, 20)))
def test_an_end_that_is_added_leaves_what_would_be_found_in_the_whole_table(ends, asked) -> None:
    """Whoever was asked about in between, and whatever begin is not known."""
    past: tuple[Assignment, ...] = ()
    for number, (who, minutes, outcome, known) in enumerate(ends):
        if number in asked:
            past_use(past).decayed("a", HALF_LIFE_S, BEGIN)
        past = with_end(past, over(number, who, minutes=minutes, outcome=outcome, known=known))
    anew = (*past,)
    for groups in (past_by_instance, failed_by_reservation):
        handed_on = {key: [*rows] for key, rows in groups(past).items()}
        assert list(handed_on.items()) == [(key, [*rows]) for key, rows in groups(anew).items()]
    for who in "abc":
        found, plain = (past_use(table).decayed(who, HALF_LIFE_S, BEGIN + timedelta(days=1)) for table in (past, anew))
        assert found == pytest.approx(plain, rel=1e-9)
