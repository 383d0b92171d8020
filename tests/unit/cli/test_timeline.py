"""The calendar as text: right times at right columns, in the width there is."""

from __future__ import annotations

from datetime import timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inventory_rows import assignment, at, card
from reservation_rows import booking

from lxgpu.cli.table import width
from lxgpu.cli.timeline import LEGEND, legend, timeline
from lxgpu.model.assignment import AssignmentState
from lxgpu.model.snapshot import Records
from lxgpu.services.calendarview import BarKind, Calendar, calendar

SHANGHAI = ZoneInfo("Asia/Shanghai")
NOW = at(0)


def records(*assignments, reservations=(), **fields):
    """Two cards and who has them."""
    cards = (card("GPU-1"), card("GPU-2", pci="0000:03:00.0", **fields))
    return Records(1, None, cards=cards, assignments=assignments, reservations=tuple(reservations))


def lines(found, columns=80):
    """The text, by the name of the line."""
    return timeline(found, columns=columns, zone=SHANGHAI, name=lambda line: line.name)


def test_a_day_with_a_holder_a_booking_and_a_promise():
    """Held until it is promised, promised from its start on, and below what has no card yet."""
    held = assignment("a1", "GPU-1", since=at(-60), until=at(240))
    promise = assignment("p1", "GPU-1", instance="bob", state=AssignmentState.PLANNED, reservation="r1")
    rows = records(
        held,
        promise,
        reservations=[
            booking(gpus=1, start=at(240), until=at(480)),
            booking("r2", "carol", start=at(600), until=at(660)),
        ],
    )
    assert lines(calendar(rows, now=NOW)) == [
        "                16:00     18:00      20:00     22:00      tue 01    02:00",
        "             ...|.........+..........+.........+..........+.........+..........+",
        "GPU-1        <a======================[b-------------------)",
        "GPU-2           |",
        "NVIDIA A100     |                                                   [c----)",
    ]


def show(moment):
    """A time in the lab's zone."""
    return moment.astimezone(SHANGHAI).strftime("%d %H:%M")


def test_each_bar_has_a_letter_and_the_legend_says_whose_it_is():
    """Names are in the legend whole, with ids and times; the cards of one reservation have one letter."""
    long = "c" * 40
    rows = records(
        assignment("a1", "GPU-1", since=at(-60), until=at(240)),
        *(
            assignment(f"p{number}", f"GPU-{number}", instance="bob", state=AssignmentState.PLANNED, reservation="r1")
            for number in (1, 2)
        ),
        reservations=[booking(gpus=2, start=at(240), until=at(480)), booking("r2", long, start=at(300), until=at(301))],
    )
    found = calendar(rows, now=NOW)
    assert legend(found, show=show) == [
        f"a  alice: has it until {show(at(240))}",
        f"b  bob (r1): booked from {show(at(240))} until {show(at(480))}, 2 cards",
        f"c  {long} 2 GPUs (r2): booked from {show(at(300))} until {show(at(301))}",
        LEGEND,
    ]
    _, _, first, second, unbound = lines(found)
    assert [name for name in "abc" if name in first] == ["a", "b"]
    assert "[b--" in second
    assert unbound.endswith("c)")  # too short for more than its letter


def test_a_series_leaves_the_scale_to_the_next_of_it():
    """Until the next booking ends; what comes after is counted below, and shown by --days."""
    weekly = [booking(f"r{week}", start=at(week * 10080 + 1440), until=at(week * 10080 + 1500)) for week in range(4)]
    found = calendar(records(reservations=weekly), now=NOW)
    assert at(1500) < found.end < at(2 * 1440)
    last = show(at(3 * 10080 + 1500))
    more = f"3 bookings are after this, the last until {last}: --days shows more, --from a later part"
    assert legend(found, show=show)[-2] == more
    whole = calendar(records(reservations=weekly), now=NOW, ahead=timedelta(days=30))
    assert len(legend(whole, show=show)) == 5
    assert calendar(records(reservations=weekly[1:]), now=NOW).end == NOW + timedelta(days=7)
    later = calendar(records(reservations=weekly), now=NOW, ahead=timedelta(days=7), begin=at(10080))
    assert (later.start, later.end) == (at(10080), at(2 * 10080))
    assert len(lines(later)) == 5


def test_over_open_and_closed_are_told_apart():
    """Past its lease, without an end, out of service: each has its own fill, and goes on beyond the edge."""
    rows = records(assignment("a1", "GPU-1", until=at(-5)), closed="fan", closed_at=at(-10))
    kinds = {line.name: line.bars[0].kind for line in calendar(rows, now=NOW).lines}
    assert kinds == {"GPU-1": BarKind.OVER, "GPU-2": BarKind.CLOSED}
    over, closed = lines(calendar(rows, now=NOW))[2:]
    assert over.endswith("..>")
    assert closed.endswith("xx>")
    open_ended = records(assignment("a1", "GPU-1", until=None))
    assert lines(calendar(open_ended, now=NOW))[2].endswith("==>")


def test_bookings_without_a_card_share_a_line_where_they_do_not_overlap():
    """Half-open: one that ends when the other starts leaves it the line."""
    rows = records(
        reservations=[
            booking("r1", start=at(60), until=at(120)),
            booking("r2", start=at(120), until=at(180)),
            booking("r3", start=at(90), until=at(150)),
            booking("r4", pool="", model="*", start=at(90), until=at(150)),
        ]
    )
    unbound = [line for line in calendar(rows, now=NOW).lines if line.uuid is None]
    assert [(line.name, len(line.bars)) for line in unbound] == [
        ("NVIDIA A100", 2),
        ("NVIDIA A100", 1),
        ("*", 1),
    ]


def test_a_booking_that_has_part_of_its_cards_shows_the_rest():
    """What is bound stands at its card, what is not at its model."""
    promise = assignment("p1", "GPU-1", instance="bob", state=AssignmentState.PLANNED, reservation="r1")
    rows = records(promise, reservations=[booking(gpus=3)])
    found = calendar(rows, now=NOW)
    (unbound,) = [line for line in found.lines if line.uuid is None]
    assert [(bar.instance, bar.gpus) for bar in unbound.bars] == [("bob", 2)]
    assert any("  bob 2 GPUs (r1): booked" in text for text in legend(found, show=show))


@given(st.integers(30, 200), st.lists(st.tuples(st.integers(-900, 900), st.integers(1, 900)), max_size=6))
def test_no_line_is_ever_wider_than_the_terminal(columns, spans):
    """Whatever is shown, nothing is folded: an axis of at least thirty columns, else the width there is."""
    rows = records(
        reservations=[
            booking(f"r{number}", start=at(begin), until=at(begin + length))
            for number, (begin, length) in enumerate(spans)
        ]
    )
    made = calendar(rows, now=NOW)
    names = max(len(line.name) for line in made.lines) + 2
    assert max(map(width, lines(made, columns))) <= max(columns, names + 30)


@pytest.mark.parametrize("hours", [1, 5, 24, 100, 24 * 14, 24 * 90])
def test_the_axis_has_marks_at_every_scale(hours):
    """From an hour to a season there are marks, and they do not run into each other."""
    axis, ruler, *_ = lines(calendar(records(), now=NOW, ahead=timedelta(hours=hours)), 100)
    assert len(axis.split("  ")) > 1
    assert "|" in ruler
    assert not [word for word in axis.split() if len(word) > 5]


def test_the_night_without_two_o_clock_has_its_marks():
    """In spring a local hour is missing; the axis does not stumble over it."""
    spring = at(0).replace(year=2027, month=3, day=27, hour=20)
    found = Calendar(now=spring, start=spring, end=spring + timedelta(hours=12), lines=())
    axis, _ = timeline(found, columns=100, zone=ZoneInfo("Europe/Berlin"), name=lambda line: line.name)
    assert "sun 28" in axis
