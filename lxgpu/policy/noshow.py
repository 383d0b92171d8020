"""Bookings that nobody comes to: their cards go back, after a warning, if somebody would have been seen; pure."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from lxgpu.model.assignment import Assignment, AssignmentState
from lxgpu.model.reservation import Reservation, ReservationState
from lxgpu.model.usage import Use
from lxgpu.policy import words
from lxgpu.policy.classes import class_of
from lxgpu.policy.desk import Desk
from lxgpu.policy.stakes import NO_SHOW

RULE = NO_SHOW


def judge_use(desk: Desk, row: Reservation) -> bool:
    """Note the first sign of use of a running booking; True when it is over because nobody came.

    The time to come begins anew wherever nobody looked: what was not seen is no proof that nobody was there.
    """
    if row.used_at is not None:
        return False
    if row.id in desk.given.shows:
        desk.put(replace(row, used_at=desk.now))
        return False
    begun = max((at for at in (row.start, desk.given.watched.get(row.id)) if at is not None), default=None)
    if begun is None:
        return False
    limit = begun + timedelta(seconds=desk.given.policy.rules.bookings.no_show_s)
    desk.look_again(limit)
    return row.id in desk.given.watched and limit <= desk.now


def give_up(desk: Desk, row: Reservation) -> None:
    """The booking is missed: its cards are taken when the grace is over, unless they are used by then."""
    held = [item for item in desk.live(row.id) if item.state is AssignmentState.ACTIVE and not outlasts(item, row)]
    grace = class_of(desk.given.policy, row.class_name).grace_s
    due_at = desk.now + timedelta(seconds=grace)
    for item in held:
        desk.put(replace(item, state=AssignmentState.WARNED, due_at=due_at, outcome=RULE))
    desk.put(replace(row, state=ReservationState.MISSED, closed_at=desk.now, outcome="nobody came"))
    facts = {"reservation": row.id, "gpus": row.gpus, "outcome": "nobody came", "due_at": words.instant(due_at)}
    desk.note("missed", row.instance, rule=RULE, detail=facts)
    no_show = desk.given.policy.rules.bookings.no_show_s
    desk.tell("booking_missed", row.instance, about=row.id, facts={**words.booking(row), "no_show": no_show})
    desk.look_again(due_at)


def outlasts(item: Assignment, row: Reservation) -> bool:
    """Whether a card was its holder's before the booking and is for longer: the booking neither ends nor costs it."""
    return row.until is not None and (item.until is None or item.until > row.until)


def came_after_all(desk: Desk, item: Assignment) -> bool:
    """Whether a card of a missed booking is in use now."""
    verdict = desk.given.verdicts.get(item.slot)
    reading = desk.given.seen.readings.of(item.slot.gpu) if desk.given.seen.readings else None
    working = reading is not None and bool(reading.processes)
    return working or (verdict is not None and verdict.use is Use.BUSY and (verdict.since or desk.now) >= desk.now)
