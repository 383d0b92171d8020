"""What people are told of a reservation that they have just made."""

from __future__ import annotations

from datetime import UTC

import pytest
from inventory_rows import at
from reservation_rows import booking, request

from lxgpu.cli.bookingrows import columns, queue_columns
from lxgpu.cli.bookings import headline, next_steps, no_show_line, views_for
from lxgpu.cli.render import Output
from lxgpu.cli.screen import Screen
from lxgpu.cli.times import Times
from lxgpu.model.quota import Policy
from lxgpu.model.reservation import ReservationState
from lxgpu.model.rules import BookingRules, Rules
from lxgpu.model.snapshot import Records
from lxgpu.services.reservationviews import InLine, Ledger, reservation_views, waiting_views

TIMES = Times(now=at(0), zone=UTC)
LINE = {"q1": InLine(2, at(300), "none free")}


def views(*rows, line=LINE):
    """As they are shown."""
    return reservation_views(Ledger(Records(1, None, reservations=rows), rows, (), line))


@pytest.mark.parametrize(
    ("row", "lines"),
    [
        (
            booking(state=ReservationState.ACTIVE),
            ["bob has 2 GPUs until 13:00; lxgpu extend bob --for 1h makes it longer"],
        ),
        (
            booking(),
            ["2 GPUs are booked for bob from 09:00 until 13:00", "lxgpu reservation cancel r1 gives it up"],
        ),
        (
            request(),
            [
                "1 GPU for carol waits as number 2 in the line, likely from 13:00 (an estimate, no promise): none free",
                "it begins by itself; lxgpu reservations --queue shows the line",
                "lxgpu reservation cancel q1 gives it up",
            ],
        ),
        (
            booking(state=ReservationState.PREPARING),
            [
                "2 GPUs for bob are being got ready; lxgpu why r1 tells how far",
                "lxgpu reservation cancel r1 gives it up",
            ],
        ),
    ],
)
def test_each_state_says_what_comes_next(row, lines):
    """What there is, until when, and the command for the next wish."""
    (view,) = views(row)
    assert next_steps(view, TIMES, running=True, why="none free") == lines


def test_without_a_daemon_it_is_said_that_nothing_moves():
    """A booking that nobody looks after would be a trap."""
    (view,) = views(booking())
    assert next_steps(view, TIMES, running=False)[-1].startswith("no daemon runs, so nothing begins or ends by itself")


def test_the_list_and_the_line_for_people(capsys):
    """Short models, local times, claims by their own name, and what each waits for."""
    rows = (booking(note="paper"), request())
    found = Ledger(Records(1, None, reservations=rows), rows, (), LINE)
    every = reservation_views(found)
    assert headline(every) == "1 booked, 1 waiting"
    Output(Screen()).items("reservations", every, columns(TIMES))
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].split() == [
        "ID",
        "CONTAINER",
        "KIND",
        "GPUS",
        "MODEL",
        "STATE",
        "START",
        "END",
        "LINE",
        "LIKELY",
        "NOTE",
    ]
    assert shown[1].split() == ["r1", "bob", "booking", "2", "A100", "scheduled", "09:00", "13:00", "-", "-", "paper"]
    assert shown[2].split() == ["q1", "carol", "request", "1", "any", "waiting", "-", "-", "2", "13:00", "-"]
    line = waiting_views(found)
    Output(Screen()).items("reservations", line, queue_columns(LINE, TIMES))
    assert capsys.readouterr().out.splitlines()[1].endswith("any    13:00   none free")


def test_one_container_alone():
    """`reservations NAME` leaves out the others'."""
    every = views(booking(), request())
    assert [view.id for view in views_for(every, "carol")] == ["q1"]
    assert views_for(every, None) == list(every)


@pytest.mark.parametrize(
    ("row", "line"),
    [
        (booking(state=ReservationState.ACTIVE), "log in or use them within 2h, or they go back"),
        (booking(gpus=1, state=ReservationState.PREPARING), "log in or use it within 2h, or it goes back"),
        (booking(), "log in or use them within 2h of its start, or they go back"),
        (booking(state=ReservationState.ACTIVE, used_at=at(70)), ""),
        (request(), ""),
    ],
)
def test_a_booking_says_what_it_asks_of_its_person(row, line):
    """The no-show rule, in the answer and not only in a notice when it is late; nothing once somebody came."""
    policy = Policy(rules=Rules(bookings=BookingRules(no_show_s=7200)))
    assert no_show_line(row, policy) == line
    (view,) = views(row)
    assert (line in next_steps(view, TIMES, running=True, come=line)) == bool(line)
