"""Whatever is seen of a borrowed card: the holder's work stops the borrower at that look; the reserve stays free."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lxgpu.model.rules import BorrowRules
from lxgpu.policy.borrowing import Glance, Move, Standing, next_move

RULES = BorrowRules(idle_s=5, yield_end_s=4)
LOOK = st.tuples(st.sampled_from([1.0, 1.0, 1.0, 3.0]), st.booleans(), st.sampled_from([None, 1, 9, 20]))
"""Seconds since the look before, whether the holder works, free bytes of which 10 are reserved."""


def lived(looks, *, fresh):
    """A borrowing from its beginning: at each look what was seen, where it stood, what is done, where it stands."""
    at, standing = 0.0, Standing(fresh=fresh)
    for gap_s, work, free in looks:
        at += gap_s
        seen = Glance(at, work, free, 10)
        before = standing
        move, standing = next_move(before, seen, RULES)
        yield seen, before, move, standing
        if move is Move.END:
            return


@given(st.lists(LOOK, max_size=30), st.booleans())
def test_the_holders_work_stops_the_borrower_at_that_look(looks, fresh):
    """After a look that shows work, or the reserve touched, the borrower does not run: that look stopped it."""
    for seen, before, move, after in lived(looks, fresh=fresh):
        short = seen.free_bytes is not None and seen.free_bytes < seen.reserve_bytes
        if seen.work or short:
            assert not after.running
            assert move in ({Move.STOP, Move.END} if before.running else {Move.NOTHING, Move.END})
        if short:
            assert move is Move.END


@given(st.lists(LOOK, max_size=30), st.booleans())
def test_nobody_is_let_at_a_card_that_was_not_idle_for_long_enough(looks, fresh):
    """Begun only after a whole time of looks without work; by a card found idle just now, after two of them."""
    clear_since, worked = None, False
    for seen, before, move, after in lived(looks, fresh=fresh):
        worked |= seen.work
        clear_since = None if seen.work else seen.at if clear_since is None else clear_since
        if move is Move.GO:
            assert not before.running
            assert after.running
            assert clear_since is not None
            assert seen.at - clear_since >= (0.9 if before.fresh else RULES.idle_s)
            assert not (before.fresh and worked)


@given(st.lists(LOOK, max_size=30), st.booleans())
def test_a_holder_who_goes_on_working_has_the_card_alone(looks, fresh):
    """No look shows work for longer than the time to yield without ending what is borrowed."""
    began = None
    for seen, before, move, _after in lived(looks, fresh=fresh):
        began = None if not seen.work else seen.at if began is None else began
        if began is not None and not before.running and seen.at - began >= RULES.yield_end_s:
            assert move is Move.END
