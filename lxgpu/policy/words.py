"""The facts of what people are told (their kinds stand in services/noticekinds.py), as JSON: instants are RFC 3339."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from lxgpu.model.gpu import Slot
from lxgpu.model.reservation import Reservation

RULES: Mapping[str, str] = {
    "idle": "the cards were idle, and {by} waits for cards",
    "expired": "the time that they were lent for is over, and {by} waits for cards",
    "over_limit": "more cards are held than the policy allows now, and {by} waits for cards",
    "booking_start": "{by} had booked this time before the cards were lent",
    "within_guarantee": "{by} asks for cards of the guaranteed ones, and these go beyond the holder's guarantee",
    "priority": "{by} asks in class {class_name}, which goes before",
    "no_show": "nobody used them after the booking began",
}
"""Why somebody loses cards, in words; a rule that is not here is told by its own name."""
HOW: Mapping[str, str] = {"idle": "keep"}
"""By which rule's loss the holder can do something against it, and what."""

FINAL = frozenset({"expired", "over_limit", "no_show"})
"""Rules by which somebody loses what was not theirs any more: no claim comes of it."""


def instant(at: datetime | None) -> str | None:
    """An instant for a fact."""
    return at.isoformat() if at else None


def rule_text(rule: str, row: Reservation) -> str:
    """A rule in words, for the loss that a reservation causes."""
    return RULES.get(rule, rule).format(by=row.owner, class_name=row.class_name or "-")


def loss(slots: Sequence[Slot], row: Reservation, rule: str, *, work_on: int = 0) -> dict[str, object]:
    """Which cards are lost, to whom, and why. `work_on`: on how many cards the work runs that ends with them."""
    text = rule_text(rule, row)
    if work_on > len(slots):
        text += f"; the work that ends with that runs on {work_on} cards, the others stay yours"
    return {"gpus": [slot.gpu for slot in slots], "by": row.owner, "rule": text}


def back_at(row: Reservation) -> str | None:
    """When cards that a reservation takes are thought to come back."""
    return instant(row.until)


def booking(row: Reservation) -> dict[str, object]:
    """A booking's facts; one that has no start yet has the time it was asked for."""
    start = row.start or row.created_at
    until = row.until or row.until_if_begun(start)
    model = row.pool or row.model
    return {
        "booking": row.id,
        "number": row.gpus,
        "model": model,
        "start": instant(start),
        "until": instant(until),
    }
