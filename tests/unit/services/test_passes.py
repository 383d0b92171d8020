"""Passes: a text opens what it was made for, for a time, and nothing of it can be learnt from what is kept."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lxgpu.services.passes import (
    LIFE,
    LONGEST_TEXT,
    MOST,
    MOST_VIEWERS,
    Pass,
    PassKind,
    brought_back,
    found,
    issued,
    new_text,
    used,
    without,
)

NOW = datetime(2027, 3, 1, 8, 0, tzinfo=UTC)
DAY = timedelta(days=1)


def _one(kind: PassKind = PassKind.LINK, *, name: str = "alice") -> tuple[str, tuple[Pass, ...], Pass]:
    text = new_text()
    passes, made = issued((), text, kind, name=name, now=NOW, life=LIFE[kind])
    return text, passes, made


def test_a_text_opens_its_pass_until_it_is_over():
    """To the second: at the end it does not open any more."""
    text, passes, made = _one()
    assert found(passes, text, PassKind.LINK, now=NOW) == made
    assert found(passes, text, PassKind.LINK, now=made.expires - timedelta(seconds=1)) == made
    assert found(passes, text, PassKind.LINK, now=made.expires) is None


def test_a_pass_opens_nothing_of_another_kind():
    """A link is no session, and neither takes a key."""
    for kind in MOST:
        text, passes, made = _one(kind)
        assert [other for other in PassKind if found(passes, text, other, now=NOW)] == [kind]
        passes = used(passes, made)
        assert [other for other in PassKind if found(passes, text, other, now=NOW)] == [PassKind.USED]


@pytest.mark.parametrize("other", ["", "x", "é\ud800", "A" * 10_000])
def test_no_other_text_opens_it(other):
    """Nor its hash, nor a part of it, nor what is no text at all."""
    text, passes, made = _one()
    for wrong in (other, made.digest, text[:-1], text + "=", text.swapcase()):
        assert found(passes, wrong, PassKind.LINK, now=NOW) is None


def test_what_is_kept_does_not_hold_the_text():
    """Whoever reads the file cannot use what is in it."""
    text, passes, _ = _one()
    assert text not in repr(passes)
    assert len(text) <= LONGEST_TEXT
    assert len({new_text() for _ in range(100)}) == 100


@given(st.lists(st.tuples(st.sampled_from(list(MOST)), st.sampled_from(["alice", "bob", ""])), max_size=60))
def test_a_name_ends_its_own_oldest_pass_and_no_others(asked):
    """However many are asked for: each name has its newest ones, and nobody crowds out another."""
    passes: tuple[Pass, ...] = ()
    texts: dict[tuple[PassKind, str], list[str]] = {}
    for kind, name in asked:
        text = new_text()
        passes, _ = issued(passes, text, kind, name=name, now=NOW, life=DAY)
        texts.setdefault((kind, name), []).append(text)
    for (kind, name), made in texts.items():
        most = MOST[kind] if name else MOST_VIEWERS
        opens = [found(passes, text, kind, now=NOW) is not None for text in made]
        assert opens == [False] * max(0, len(made) - most) + [True] * min(len(made), most)


def test_what_is_over_is_forgotten():
    """The file does not grow with what nobody can use."""
    _, passes, _ = _one()
    after, made = issued(passes, new_text(), PassKind.SESSION, name="bob", now=NOW + DAY, life=DAY)
    assert after == (made,)


def test_what_was_used_up_for_nothing_comes_back_unless_there_is_a_newer_one():
    """An invitation whose key was refused stands again; one that was replaced or taken back meanwhile does not."""
    text, passes, made = _one(PassKind.INVITE)
    left = used(passes, made)
    assert found(brought_back(without(left, made), made), text, PassKind.INVITE, now=NOW) is None
    assert found(brought_back(left, made), text, PassKind.INVITE, now=NOW) == made
    newer, _ = issued(left, new_text(), PassKind.INVITE, name="alice", now=NOW, life=DAY)
    assert found(brought_back(newer, made), text, PassKind.INVITE, now=NOW) is None
