"""`why` of taking and of waiting: whom a card went to, by which rule, which numbers, and when it comes back."""

from __future__ import annotations

import pytest
from dealings import go_on, two_at_work, wish
from inventory_rows import assignment, at
from reservation_rows import booking, claim, displaced, request, warned

from lxgpu.model.assignment import AssignmentState
from lxgpu.model.operation import Event
from lxgpu.model.reservation import ReservationState
from lxgpu.model.snapshot import Records
from lxgpu.services import looking
from lxgpu.services.reasons import about_promise, about_reservation, about_yielding
from lxgpu.services.reservationviews import InLine
from lxgpu.services.reserve import reserve


def clock(instant):
    """A time for people."""
    return f"{instant:%H:%M}"


def records(*rows, assignments=()):
    """The living rows."""
    living = tuple(row for row in rows if row.open)
    return Records(1, None, assignments=tuple(assignments), reservations=living)


def known(*rows):
    """Finds those rows by id."""
    return {row.id: row for row in rows}.get


def yielding(rows, events, assignments=()):
    """What is told of alice."""
    found = about_yielding(records(*rows, assignments=assignments), "alice", events, known=known(*rows), show=clock)
    return [(reason.code, reason.text, reason.rule) for reason in found]


@pytest.fixture
def story(tmp_path):
    """Alice worked on both cards at low class; bob reserved two, and has them now."""
    site = two_at_work(tmp_path)
    (row,) = reserve(site, wish()).reservations
    go_on(site, 12)
    return site, site.inventory.reservation(row.id)


def test_after_the_story_alice_learns_it_all(story):
    """Bob's reservation by its id, the rule, both classes with their numbers, when her cards return, and until when."""
    site, row = story
    assert row.state is ReservationState.ACTIVE
    found = about_yielding(
        site.inventory.read(),
        "alice",
        site.inventory.events(subject="alice"),
        known=site.inventory.reservation,
        show=clock,
    )
    (told,) = found
    assert (told.code, told.rule) == ("claim", "priority")
    assert told.text.startswith(f"2 GPUs went to bob's reservation {row.id} (rule priority; ")
    assert "class low (10) yields to class normal (50)" in told.text
    assert "priority 10" not in told.text, "said once"
    assert f"they come back by themselves when bob's time ends at {clock(row.until)}" in told.text
    assert "the claim dies at" in told.text
    assert told.at is not None


def test_after_the_story_the_reservation_tells_who_gave_way(story):
    """Its own state first, then whose cards they were, and that they are owed."""
    site, row = story
    events = looking.events_about_reservation(lambda: site.inventory, row.id, most=100)
    state, gave = about_reservation(site.inventory.read(), row, events, place=InLine(), show=clock)
    assert state.text == f"bob has 2 of 2 GPUs from {clock(row.start)} until {clock(row.until)}"
    assert gave.text.startswith("alice gave GPU-")
    assert gave.text.endswith("; they have a claim to it")
    assert "class low (10) yields to class normal (50)" in gave.text


def test_a_warned_holder_learns_what_is_about_to_happen():
    """Before anything is gone: to whom, when, why."""
    held = assignment(state=AssignmentState.WARNED, due_at=at(65), outcome="priority")
    promise = assignment("p1", instance="bob", state=AssignmentState.PLANNED, reservation="r1")
    ((code, text, rule),) = yielding([booking()], [warned()], [held, promise])
    assert (code, rule) == ("yields", "priority")
    assert text == (
        "it goes to bob's reservation r1 at 09:05 (rule priority; bob goes before;"
        " priority 10, against 50, held 1h, min runtime 30m)"
    )
    ((_, bare, _),) = yielding([booking()], [], [held, promise])
    assert bare == "it goes to bob's reservation r1 at 09:05 (rule priority)"


def test_a_claim_whose_taker_is_done_waits_for_any_card():
    """No time is promised that nobody knows."""
    over = booking(state=ReservationState.FINISHED)
    ((code, text, _),) = yielding([over, claim()], [displaced(), warned()])
    assert code == "claim"
    assert "it comes back by itself as soon as a card like it is free; the claim dies at" in text


def test_without_a_claim_it_is_said_that_there_is_none():
    """An expired lease leaves none; a claim that ended says how; what came back is forgotten."""
    lost = displaced(rule="expired", claim=None)
    ((code, text, rule),) = yielding([booking(state=ReservationState.ACTIVE)], [lost])
    assert (code, rule) == ("displaced", "expired")
    assert text == "GPU-1 went to bob's reservation r1 (rule expired); there is no claim to have it back"
    dead = claim(state=ReservationState.CANCELLED, closed_at=at(90), outcome="the claim's time is over")
    ((_, text, _),) = yielding([booking(state=ReservationState.ACTIVE), dead], [displaced()])
    assert text.endswith("its claim c1 ended at 09:30: the claim's time is over")
    back = Event(at(99), "lxgpu", "returned", "alice", "claim", {"gpus": ["GPU-1"]})
    assert yielding([booking(), dead], [back, displaced()]) == []


def test_a_waiting_one_tells_its_place_and_what_would_have_to_change():
    """Place, estimate, then the obstacles as they were found."""
    row = request()
    state, first, second = about_reservation(
        records(row),
        row,
        [],
        place=InLine(2, at(300)),
        obstacles=[("no_capacity", "0 of 2 are free"), ("later", "alice's can be had from 10:00 on")],
        show=clock,
    )
    assert state.text == "1 GPU for carol, for 4h: number 2 in the line, likely from 13:00 (an estimate, no promise)"
    foretold, *_ = about_reservation(
        records(row), row, [], place=InLine(2, at(300), foreseen=True), obstacles=[], show=clock
    )
    assert foretold.text.endswith("number 2 in the line, likely from 13:00 (a forecast, no promise)")
    assert state.at == row.created_at
    assert [(one.code, one.text) for one in (first, second)] == [
        ("no_capacity", "0 of 2 are free"),
        ("later", "alice's can be had from 10:00 on"),
    ]


@pytest.mark.parametrize(
    ("state", "outcome", "end"),
    [
        (ReservationState.FINISHED, "given back", "it is over: given back"),
        (ReservationState.MISSED, "nobody came", "it ended since nobody used it: nobody came"),
        (ReservationState.CANCELLED, "cancelled by root", "it was given up: cancelled by root"),
        (ReservationState.FAILED, "its cards could not be had in time", "it could not be met: its cards could not be"),
    ],
)
def test_one_that_is_over_tells_how_it_ended(state, outcome, end):
    """And nothing of what it would have needed."""
    row = booking(state=state, outcome=outcome, closed_at=at(99))
    event = Event(at(99), "carol (sudo)", state.value, "bob", "booking", {"reservation": "r1"})
    (told,) = about_reservation(records(), row, [event], place=InLine(), obstacles=[("a", "b")], show=clock)
    assert end in told.text
    assert (told.at, told.actor) == (at(99), "carol (sudo)")


def test_each_promised_card_says_where_it_is():
    """Free, still held, or on its way."""
    rows = [
        assignment("p1", "GPU-1", instance="bob", state=AssignmentState.PLANNED, reservation="r1"),
        assignment("p2", "GPU-2", instance="bob", state=AssignmentState.PLANNED, reservation="r1"),
        assignment("p3", "GPU-3", instance="bob", state=AssignmentState.PLANNED, reservation="r1"),
        assignment("a2", "GPU-2"),
        assignment("a3", "GPU-3", state=AssignmentState.RELEASING, outcome="idle"),
    ]
    row = booking(gpus=3, state=ReservationState.PREPARING)
    found = about_reservation(records(row, assignments=rows), row, [], place=InLine(), show=clock)
    assert [reason.text for reason in found] == [
        "3 GPUs of NVIDIA A100 for bob from 09:00 until 13:00: 0 of 3 are there",
        "GPU-1 is free and promised to it",
        "GPU-2 is still with alice",
        "GPU-3 comes from alice, who is giving it back (rule idle)",
    ]
    promised = about_promise(records(row, assignments=rows), rows[0].slot, known=known(row), show=clock)
    assert promised.text == "it is promised to bob's reservation r1 from 09:00"
    assert about_promise(records(row), rows[0].slot, known=known(row), show=clock) is None
