"""The calendar's grid: every bar in its columns, nothing that is over, days by the clock on the wall."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lively import lively

from lxgpu.services.calendarview import Bar, BarKind, Calendar, Line
from lxgpu.services.statusfile import Published
from lxgpu.web.calendar import COLUMNS, DAY, LEAST, WEEK, calendar_model

NOW = datetime(2027, 3, 1, 8, 20, tzinfo=UTC)
ZONES = ("UTC", "Asia/Shanghai", "Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe")


@pytest.fixture(scope="module")
def some(tmp_path_factory):
    """What is published of a lab."""
    return lively(tmp_path_factory.mktemp("lively"))


def at(hours):
    """So many hours from now."""
    return NOW + timedelta(hours=hours)


def seen(found: Published, *bars: Bar, uuid: str | None = "GPU-1", now=NOW) -> Published:
    """The same lab at that time, with one line of bars."""
    line = Line(uuid, uuid or "*", bars)
    shown = Calendar(now=now, start=now, end=now + timedelta(days=7), lines=(line,))
    return replace(found, written_at=now, calendar=shown)


def bars(found, *, view=DAY, day=0, zone="UTC", me=""):
    """The bars that are drawn."""
    return [
        bar for row in calendar_model(found, view=view, day=day, zone=ZoneInfo(zone), me=me).rows for bar in row.bars
    ]


def test_a_bar_is_where_its_time_is(some):
    """Today begins at the whole hour: 14 columns an hour."""
    (bar,) = bars(seen(some, Bar(at(0), at(4), "alice", BarKind.HELD)))
    assert (bar.column, bar.width) == (1 + round(20 / 1440 * COLUMNS), 56)
    assert (bar.who, bar.early, bar.late) == ("alice", False, False)


def test_what_goes_on_beyond_an_edge_is_cut_and_says_so(some):
    """Its real times stay."""
    (bar,) = bars(seen(some, Bar(at(-50), None, "alice", BarKind.HELD)))
    assert (bar.column, bar.width, bar.early, bar.late) == (1, COLUMNS, True, True)
    assert (bar.start, bar.until) == (at(-50), None)


def test_what_is_over_is_not_there(some):
    """Nor what comes later than is shown."""
    shown = seen(some, Bar(at(-9), at(0), "alice", BarKind.BOOKED), Bar(at(30), at(40), "bob", BarKind.BOOKED))
    assert bars(shown) == []
    assert [bar.who for bar in bars(shown, view=WEEK)] == ["bob"]
    assert [bar.who for bar in bars(shown, day=1)] == ["bob"]


def test_ones_own_are_marked(some):
    """And nobody else's."""
    shown = seen(some, Bar(at(0), at(4), "alice", BarKind.HELD), Bar(at(5), at(6), "bob", BarKind.BOOKED))
    assert [bar.mine for bar in bars(shown, me="alice")] == [True, False]
    assert [bar.mine for bar in bars(shown)] == [False, False]


def test_what_has_no_card_yet_says_for_how_many(some):
    """As the daemon counted: of its reservation a part may have cards already. Names with numbers are names."""
    booking = next(row for row in some.reservations if row.kind == "booking")
    (bar,) = bars(seen(some, Bar(at(1), at(2), "ann 2", BarKind.BOOKED, booking.id, 3), uuid=None))
    assert (bar.who, bar.gpus, bar.of) == ("ann 2", 3, booking.id)


SHOWN = st.fixed_dictionaries(
    {"zone": st.sampled_from(ZONES), "view": st.sampled_from([DAY, WEEK]), "day": st.integers(-1, 9)}
)


@given(start=st.floats(-200, 200), hours=st.floats(0.01, 400), month=st.integers(0, 11), shown=SHOWN)
def test_every_bar_is_within_the_grid(some, start, hours, month, shown):
    """Wide enough to be seen, never beyond the last column; also on days of 23 and 25 hours."""
    now = NOW + timedelta(days=30.5 * month)
    begins = now + timedelta(hours=start)
    found = seen(some, Bar(begins, begins + timedelta(hours=hours), "alice", BarKind.BOOKED), now=now)
    for bar in bars(found, **shown):
        assert 1 <= bar.column <= bar.column + bar.width - 1 <= COLUMNS
        assert bar.width >= LEAST
        assert bar.until > now


@pytest.mark.parametrize("zone", ZONES)
def test_days_begin_at_midnight(some, zone):
    """Also where the clocks are changed in between."""
    for month in range(12):
        now = NOW + timedelta(days=30.5 * month)
        found = calendar_model(seen(some, now=now), view=DAY, day=3, zone=ZoneInfo(zone), me="")
        local = [day.astimezone(ZoneInfo(zone)) for day in found.days]
        assert {(day.hour, day.minute) for day in local} == {(0, 0)}
        assert [day.toordinal() - local[0].toordinal() for day in local] == list(range(7))
        assert found.start == found.days[3]
        assert [tick.column for tick in found.ticks] == sorted({tick.column for tick in found.ticks})


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("view", [DAY, WEEK])
def test_the_word_for_a_mark_has_room(some, zone, view):
    """None runs into the next one or out of the calendar, whenever it is looked at."""
    for hour in range(24):
        found = calendar_model(
            seen(some, now=NOW + timedelta(hours=hour)), view=view, day=0, zone=ZoneInfo(zone), me=""
        )
        places = [*(tick.column for tick in found.ticks), COLUMNS + 1]
        room = {tick.at: after - before for tick, (before, after) in zip(found.ticks, pairwise(places), strict=True)}
        told = [tick for tick in found.ticks if tick.told]
        assert len(told) >= 5
        assert [tick for tick in told if room[tick.at] < {DAY: 28, WEEK: 24}[view]] == []
        assert [tick for tick in found.ticks if tick.strong and not tick.told] == []
