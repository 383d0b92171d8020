"""Bookings as a calendar file (RFC 5545), for the calendar programs that people have anyway."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING

from lxgpu.model.cardnames import n_asked
from lxgpu.model.layout import in_parts
from lxgpu.model.reservation import Reservation, ReservationState

if TYPE_CHECKING:
    from icalendar import Event as IcsEvent

_CLOSED = frozenset({ReservationState.CANCELLED, ReservationState.FAILED, ReservationState.MISSED})


def ics_text(rows: Iterable[Reservation], *, host: str, now: datetime) -> str:
    """Everything that has a start and an end, one event each; times are UTC, lines end as the standard says."""
    from icalendar import Calendar  # noqa: PLC0415 -- heavy, and asked for rarely

    found = Calendar()
    found.add("prodid", "-//lxgpu//reservations//EN")
    found.add("version", "2.0")
    found.add("x-wr-calname", f"GPUs of {host}")
    for row in sorted(rows, key=lambda row: (row.start or row.created_at, row.id)):
        if row.start is not None and row.until is not None:
            found.add_component(_event(row, row.start, row.until, host=host, now=now))
    text: str = found.to_ical().decode()
    return text


def _event(row: Reservation, start: datetime, until: datetime, *, host: str, now: datetime) -> IcsEvent:
    from icalendar import Event  # noqa: PLC0415 -- as above

    made = Event()
    made.add("uid", f"{row.id}@{host}.lxgpu")
    made.add("dtstamp", now)
    made.add("dtstart", start)
    made.add("dtend", until)
    made.add("created", row.created_at)
    model = row.pool or row.model
    cards = n_asked(row.gpus, model)
    made.add("summary", f"{row.instance}: {cards}{'' if model == '*' or in_parts(model) else f' ({model})'}")
    made.add("description", "\n".join(filter(None, [row.note, f"{row.kind.value} {row.id}, {row.state.value}"])))
    made.add("location", row.host or host)
    soft = "TENTATIVE" if row.soft else "CONFIRMED"
    made.add("status", "CANCELLED" if row.state in _CLOSED else soft)
    made.add("transp", "TRANSPARENT")  # a card that is booked keeps nobody from meeting anybody
    return made
