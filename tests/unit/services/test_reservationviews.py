"""What is shown of reservations: order, slots, and who gave way."""

from __future__ import annotations

from inventory_rows import assignment, at
from reservation_rows import booking, claim, displaced, request

from lxgpu.model.assignment import AssignmentState
from lxgpu.model.reservation import ReservationState
from lxgpu.model.snapshot import Records
from lxgpu.services.reservationviews import (
    DisplacedView,
    InLine,
    Ledger,
    reservation_views,
    waiting_views,
)


def ledger(*rows, assignments=(), events=(), line=None):
    """All that is needed to show some reservations."""
    living = tuple(row for row in rows if row.open)
    records = Records(version=1, identity=None, assignments=tuple(assignments), reservations=living)
    return Ledger(records, rows, tuple(events), line or {})


def test_the_running_come_first_then_the_next_then_those_who_wait():
    """As people look for them: what is now, what comes, the line, and at the end what is over, newest first."""
    over = {"state": ReservationState.FINISHED}
    found = ledger(
        booking("old", closed_at=at(1), **over),
        booking("new", closed_at=at(2), **over),
        request("second"),
        request("first"),
        booking("later", start=at(90)),
        booking("soon", start=at(80)),
        booking("now", state=ReservationState.ACTIVE),
        line={"first": InLine(1, at(300)), "second": InLine(2)},
    )
    views = reservation_views(found)
    assert [view.id for view in views] == ["now", "soon", "later", "first", "second", "new", "old"]
    assert [view.id for view in waiting_views(found)] == ["first", "second"]
    assert (views[3].position, views[3].estimate, views[4].estimate) == (1, at(300), None)


def test_what_is_not_known_is_none():
    """No place in line, no start, no host, no note: nothing is made up."""
    (view,) = reservation_views(ledger(request(model="*A100*")))
    assert (view.start, view.end, view.host, view.note, view.position, view.estimate) == (None,) * 6
    assert view.model == "*A100*"
    assert view.slots == ()


def test_slots_are_those_it_has_or_is_promised():
    """A booking whose cards come one by one shows all of them; nobody else's, and none that it gave back."""
    found = ledger(
        booking(),
        assignments=[
            assignment("a1", "GPU-2", instance="bob", reservation="r1"),
            assignment("a2", "GPU-1", instance="bob", reservation="r1", state=AssignmentState.PLANNED),
            assignment("a3", "GPU-3", instance="bob", reservation="r2"),
            assignment("a4", "GPU-4", instance="bob", reservation="r1", state=AssignmentState.CLOSED),
        ],
    )
    (view,) = reservation_views(found)
    assert view.slots == ("GPU-1", "GPU-2")


def test_who_gave_way_is_owed_until_the_claim_ends():
    """By the history, with the rule; an open claim is a debt, one that is closed or never was is none."""
    without = displaced("carol", "expired", gpus=["GPU-2"], claim=None)
    events = [displaced(), without]
    row = booking(state=ReservationState.ACTIVE)
    owed, not_owed = reservation_views(ledger(row, claim(), events=events))[0].displaced
    assert owed == DisplacedView("alice", "GPU-1", "priority", owed=True)
    assert not_owed == DisplacedView("carol", "GPU-2", "expired", owed=False)
    back = claim(state=ReservationState.FINISHED, closed_at=at(300))
    assert reservation_views(ledger(row, back, events=events))[0].displaced[0].owed is False


def test_a_lost_history_still_knows_the_claims():
    """After `inventory rebuild` there are no events, and the claim itself says who it is from."""
    (view, _) = reservation_views(ledger(booking(state=ReservationState.ACTIVE), claim()))
    assert view.displaced == (DisplacedView("alice", "GPU-1", None, owed=True),)


def test_who_is_giving_way_now_is_shown_before_the_card_is_gone():
    """Warned for this booking: named with the rule; nothing is owed yet."""
    held = assignment("a1", "GPU-1", state=AssignmentState.WARNED, outcome="idle", due_at=at(61))
    promise = assignment("a2", "GPU-1", instance="bob", reservation="r1", state=AssignmentState.PLANNED)
    (view,) = reservation_views(ledger(booking(), assignments=[held, promise]))
    assert view.displaced == (DisplacedView("alice", "GPU-1", "idle", owed=None),)
    calm = assignment("a1", "GPU-1")
    (view,) = reservation_views(ledger(booking(), assignments=[calm, promise]))
    assert view.displaced == ()
