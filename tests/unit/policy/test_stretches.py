"""What a forecast learns from: stretches made of samples and of assignments."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from lxgpu.model.assignment import Assignment, AssignmentState
from lxgpu.model.gpu import Slot
from lxgpu.model.rules import IdleRules
from lxgpu.model.usage import Sample
from lxgpu.policy.forecast import Stretch
from lxgpu.policy.stretches import Idleness, card_times, holdings

START = datetime(2027, 3, 1, tzinfo=UTC)
RULES = IdleRules(window_s=1800)


def at(minutes: float) -> datetime:
    """Minutes after the start."""
    return START + timedelta(minutes=minutes)


def samples(text: str, *, card: str = "c0", step: int = 10) -> list[Sample]:
    """A letter each ten minutes: `w` ann works, `.` ann does not, `b` bob does not, `?` unknown, `-` nobody holds it.

    A space is no sample at all.
    """
    made = []
    for number, letter in enumerate(text):
        if letter != " ":
            use = {"w": 80, "?": None}.get(letter, 0)
            who = {"-": "", "b": "bob"}.get(letter, "ann")
            made.append(Sample(at(number * step), card, use, 0, 0, who))
    return made


CASES = [
    ("idleness counts from when a whole window was without work", "w......w", [("ann", 40, 70, True)]),
    ("a pause shorter than the window is none", "w..w..w..w", []),
    ("work right at the end of a window came before anybody took it for idle", "w...w", []),
    ("what goes on has not ended yet", "w......", [("ann", 40, 60, False)]),
    ("who lost the card did not come back", "w......-", [("ann", 40, 60, False)]),
    ("the next holder's idleness is another's", "w.....bbbbbb", [("ann", 40, 50, False), ("bob", 90, 110, False)]),
    ("after a time unseen nobody knows", "w......  w", [("ann", 40, 60, False)]),
    ("one sample that says nothing is passed over at the pace of looks", "w..... ?", [("ann", 40, 50, False)]),
    ("a card that nobody holds is nobody's idleness", "--------", []),
    ("it begins again after work", "....w....w", [("ann", 30, 40, True), ("ann", 80, 90, True)]),
]


@pytest.mark.parametrize(("promise", "text", "asked"), CASES, ids=[row[0] for row in CASES])
def test_samples_make_stretches_of_idleness(promise: str, text: str, asked: list[tuple[str, int, int, bool]]) -> None:
    """Each row's own promise, whether samples come at once or one by one."""
    wanted = [Stretch(who, at(since), at(until), ended) for who, since, until, ended in asked]
    whole, slowly = Idleness(RULES), Idleness(RULES)
    whole.add(samples(text))
    for sample in samples(text):
        slowly.add([sample])
    assert sorted(whole.stretches(), key=lambda one: one.since) == wanted, promise
    assert slowly.stretches() == whole.stretches()


def test_cards_are_watched_each_for_itself_and_what_is_long_over_is_forgotten() -> None:
    """Samples of many cards may come mixed."""
    watch = Idleness(RULES)
    mixed = samples("w......w", card="c0") + samples("w.......", card="c1")
    watch.add(sorted(mixed, key=lambda one: one.at))
    there = Stretch("ann", at(40), at(70), ended=True), Stretch("ann", at(40), at(70), ended=False)
    assert watch.stretches() == there
    watch.forget(at(70))
    assert watch.stretches() == there
    watch.forget(at(71))
    assert watch.stretches() == there[1:]


def row(card: str, who: str, since: float | None, closed: float | None = None, outcome: str = "") -> Assignment:
    """One assignment, by minutes."""
    state = (
        AssignmentState.CLOSED if closed else AssignmentState.ACTIVE if since is not None else AssignmentState.PLANNED
    )
    begin = None if since is None else at(since)
    end = None if closed is None else at(closed)
    return Assignment(f"{card}{who}{since}", Slot(card), who, state, START, since=begin, closed_at=end, outcome=outcome)


def test_only_who_gives_a_card_back_has_given_it_back() -> None:
    """Taken ones, and those that are held still, were held so long; a promise is no holding."""
    rows = [
        row("c0", "ann", 0, 10, "given back"),
        row("c0", "bob", 20, 30, "idle"),
        row("c0", "cid", 30, 40, "preempted"),
        row("c0", "dan", 50),
        row("c0", "eve", None),
    ]
    assert [(one.who, one.since, one.until, one.ended) for one in holdings(rows, at(60))] == [
        ("ann", at(0), at(10), True),
        ("bob", at(20), at(30), False),
        ("cid", at(30), at(40), False),
        ("dan", at(50), at(60), False),
    ]


def test_cards_are_free_between_holders() -> None:
    """From the first that is known; shares of one card make it held once, and a card of others does not count."""
    rows = [
        row("c0", "ann", 10, 20),
        row("c0", "bob", 15, 30),
        row("c0", "cid", 30, 40),
        row("c0", "dan", 50),
        row("gone", "eve", 10, 20),
    ]
    free, held = card_times(rows, ["c0", "c1"], since=at(0), now=at(60))
    assert [(one.since, one.until, one.ended) for one in free] == [
        (at(0), at(10), True),
        (at(40), at(50), True),
        (at(0), at(60), False),
    ]
    assert [(one.since, one.until, one.ended) for one in held] == [(at(10), at(40), True), (at(50), at(60), False)]
    assert {one.who for one in (*free, *held)} == {""}
