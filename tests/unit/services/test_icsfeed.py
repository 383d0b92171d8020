"""Bookings as a calendar file that other programs read."""

from __future__ import annotations

from icalendar import Calendar
from inventory_rows import at
from reservation_rows import booking, request

from lxgpu.model.reservation import ReservationState
from lxgpu.services.icsfeed import ics_text


def events(*rows):
    """The events, as a calendar program reads them."""
    text = ics_text(rows, host="gpu1", now=at(0))
    assert text.endswith("END:VCALENDAR\r\n")
    assert all(len(line.encode()) <= 75 for line in text.split("\r\n"))
    return Calendar.from_ical(text).walk("VEVENT")


def test_a_booking_is_an_event_in_utc():
    """Start, end, who and how many; a stable id, so that a change moves the event and makes no second one."""
    (found,) = events(booking(note="paper; due, soon\nreally"))
    assert (found.decoded("dtstart"), found.decoded("dtend")) == (at(60), at(300))
    assert found["uid"] == "r1@gpu1.lxgpu"
    assert found["summary"] == "bob: 2 GPUs (NVIDIA A100)"
    assert found["description"] == "paper; due, soon\nreally\nbooking r1, scheduled"
    assert found["status"] == "CONFIRMED"


def test_what_has_no_time_is_no_event():
    """A request that waits has no start; a long name in Chinese is folded by bytes."""
    assert events(request()) == []
    (found,) = events(booking(note="显卡" * 60))
    assert found["description"].startswith("显卡" * 60)


def test_states_are_those_of_calendars():
    """A soft booking is tentative, one that was given up is cancelled."""
    soft, gone = events(booking("r1", soft=True), booking("r2", state=ReservationState.CANCELLED))
    assert (soft["status"], gone["status"]) == ("TENTATIVE", "CANCELLED")
