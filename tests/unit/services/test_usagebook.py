"""A whole report of a month made by chance: its sums, a recount by other means, and the days on which clocks change."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from seeded_month import BEGIN, GROUPS, seeded_month

from lxgpu.model.assignment import Assignment, AssignmentState
from lxgpu.model.gpu import Slot
from lxgpu.model.rules import IdleRules
from lxgpu.model.snapshot import Records
from lxgpu.model.usage import Sample
from lxgpu.services.usage import GPU, GROUP, USER, Ground
from lxgpu.services.usagebook import BY, DAILY, HOURLY, WAIT, at_work, book, held

BERLIN = ZoneInfo("Europe/Berlin")
HOURS = ("held_gpu_hours", "used_gpu_hours", "idle_gpu_hours", "unknown_gpu_hours")
MINUTE = timedelta(minutes=1)


@pytest.fixture(scope="module")
def month(tmp_path_factory):
    """In the real inventory."""
    return seeded_month(tmp_path_factory.mktemp("month"), seed=20270308)


@pytest.fixture(scope="module")
def found(month):
    """Its report."""
    return book(month.ground(), since=month.since, now=month.now, zone=BERLIN)


@pytest.fixture(scope="module")
def recount(month):
    """Minutes by what they were: card, holder, used or idle or unknown, local hour and day; asked one by one."""
    minutes: Counter = Counter()
    for card in month.cards:
        holds = sorted((one for one in month.holds if one.slot.gpu == card), key=lambda one: one.since)
        begins = [one.since for one in holds]
        samples = sorted((one for one in month.samples if one.uuid == card), key=lambda one: one.at)
        looks = [one.at for one in samples]
        at = month.since
        while at < month.now:
            place = bisect_right(begins, at) - 1
            hold = holds[place] if place >= 0 else None
            if hold is not None and (hold.closed_at is None or at < hold.closed_at):
                number = bisect_right(looks, at) - 1
                last = number == len(looks) - 1
                speaks = timedelta(minutes=1 if last else 15)
                sample = samples[number] if number >= 0 and at < looks[number] + speaks else None
                what = "unknown"
                if sample is not None and sample.instance == hold.instance and sample.utilization_percent is not None:
                    what = "used" if sample.utilization_percent >= 1 else "idle"
                local = at.astimezone(BERLIN)
                minutes[card, hold.instance, what, f"{local:%a %H}:00", f"{local:%Y-%m-%d}"] += 1
            at += MINUTE
    return minutes


def summed(recount, names, what=None):
    """Hours by name; `names` gives those that a key counts for."""
    sums: dict[str, float] = defaultdict(float)
    for key, minutes in recount.items():
        if what in {None, key[2]}:
            for name in names(key):
                sums[name] += minutes / 60
    return sums


NAMES = {
    USER: lambda key: [key[1]],
    GROUP: lambda key: GROUPS[key[1]] or ("",),
    GPU: lambda key: [key[0]],
    HOURLY: lambda key: [key[3]],
    DAILY: lambda key: [key[4]],
}


@pytest.mark.parametrize("by", sorted(NAMES))
def test_a_recount_by_minutes_comes_to_the_same(found, recount, by):
    """Whoever it is counted by: held, used, idle and unknown are what asking each minute gives."""
    rows = {row.name: row for row in found.rows(by)[:-1]}
    for field, what in zip(HOURS, (None, "used", "idle", "unknown"), strict=True):
        wanted = summed(recount, NAMES[by], what)
        assert set(wanted) <= set(rows)
        for name, row in rows.items():
            assert getattr(row, field) == pytest.approx(wanted.get(name, 0.0), abs=0.011), (name, field)
    assert sum(recount.values()) > 40_000, "else it says nothing"


def test_the_parts_are_the_whole(found):
    """Used, idle and unknown are held, to the last digit; a sum of rows is the total but for the rounding of each."""
    for row in found.every:
        if row.by != WAIT:
            parts = row.used_gpu_hours + row.idle_gpu_hours + row.unknown_gpu_hours
            assert round(parts, 2) == row.held_gpu_hours, row
    waste = {one.instance: one.idle_gpu_hours for one in found.total.wasted}
    assert waste == {row.name: row.idle_gpu_hours for row in found.users if row.idle_gpu_hours}, (
        "each has one container"
    )
    for by in (USER, GPU, HOURLY, DAILY):
        rows = found.rows(by)
        for field in HOURS:
            total = sum(getattr(row, field) for row in rows[:-1])
            assert total == pytest.approx(getattr(rows[-1], field), abs=0.005 * len(rows) + 1e-9)


def test_nobody_holds_more_than_there_is(found, month):
    """Of a card its time, of an hour or a day the cards times how much of it was."""
    period = (month.now - month.since).total_seconds() / 3600
    assert all(row.held_gpu_hours <= period for row in found.gpus)
    for row in (*found.hours, *found.days):
        assert 0 <= row.held_gpu_hours <= len(month.cards) * row.period_hours + 0.01, row
    assert found.total.held_gpu_hours <= found.capacity_hours
    assert found.capacity_hours == period * len(month.cards)


@pytest.mark.parametrize(
    ("zone", "day", "hours"), [("Europe/Berlin", "2027-03-28", 23), ("Europe/Berlin", "2027-03-27", 24)]
)
def test_days_have_the_hours_that_they_have(found, zone, day, hours):
    """In spring one has 23, and nothing of it is lost; all days together are the time."""
    rows = {row.name: row for row in found.days}
    assert rows[day].period_hours == hours
    assert zone == BERLIN.key
    assert sum(row.period_hours for row in found.days) == pytest.approx(720)
    assert sum(row.period_hours for row in found.hours) == pytest.approx(720)


@pytest.mark.parametrize(
    ("zone", "begin", "day", "hours"),
    [
        ("Europe/Berlin", datetime(2027, 10, 30, tzinfo=UTC), "2027-10-31", 25),
        ("Europe/Berlin", datetime(2027, 3, 27, tzinfo=UTC), "2027-03-28", 23),
        ("Australia/Lord_Howe", datetime(2027, 4, 2, tzinfo=UTC), "2027-04-04", 24.5),
        ("Asia/Kathmandu", datetime(2027, 4, 2, tzinfo=UTC), "2027-04-04", 24),
        ("Asia/Shanghai", datetime(2027, 4, 2, tzinfo=UTC), "2027-04-04", 24),
    ],
)
def test_a_card_that_is_always_held_is_held_each_hour_of_each_day(zone, begin, day, hours):
    """Whatever the clock does: the day has its hours, and one card is one card in every hour of the week."""
    now = begin + timedelta(days=3)
    hold = Assignment("a", Slot("GPU-1"), "alice", AssignmentState.ACTIVE, begin, since=begin)
    samples = [Sample(begin + n * timedelta(minutes=5), "GPU-1", 50, 0, 1, "alice") for n in range(3 * 288)]
    ground = Ground(Records(1, None, assignments=(hold,)), (), samples, (), (), IdleRules(), lambda _: ())
    made = book(ground, since=begin, now=now, zone=ZoneInfo(zone))
    row = next(one for one in made.days if one.name == day)
    assert (row.period_hours, row.held_gpu_hours) == (hours, hours)
    assert {held(one) for one in made.hours} <= {1.0, None}
    assert at_work(row) == pytest.approx(1.0)
    assert made.total.held_gpu_hours == 72


def test_what_people_asked_for(found, month):
    """Bookings by outcome, waits by length, refusals: each of all and of everybody."""
    wishes = month.inventory.reservations_since(month.since)
    bookings = Counter(row.state.value for row in wishes if row.kind.value == "booking")
    total = found.total
    assert total.bookings == sum(bookings.values()) > 30
    ended = (bookings["finished"] + bookings["active"], bookings["missed"], bookings["failed"])
    assert (total.bookings_honoured, total.bookings_missed, total.bookings_failed) == ended
    begun = [row for row in wishes if row.kind.value == "request" and row.state.value in {"finished", "missed"}]
    waiting = [row for row in wishes if row.state.value == "waiting"]
    assert (total.waits, total.waiting) == (len(begun), len(waiting))
    assert sum(row.waits for row in found.waits) == total.waits > 20
    waited = sum((row.start - row.created_at).total_seconds() * row.gpus for row in begun)
    waited += sum((month.now - row.created_at).total_seconds() * row.gpus for row in waiting)
    assert total.waited_gpu_hours == pytest.approx(waited / 3600, abs=0.01)
    refused = month.inventory.events(since=month.since, limit=100_000)
    assert total.refused == sum(one.kind == "refused" for one in refused) == sum(row.refused for row in found.users)
    full = [one.detail for one in refused if one.rule in {"no_capacity", "no_room"}]
    assert 0 < total.refused_full == len(full) < total.refused
    wanted = sum(one["asked_gpus"] * (one["asked_s"] or 0) for one in full) / 3600
    assert total.refused_gpu_hours == wanted > 0


def test_waits_by_length(found):
    """No longer than each bound; the last ones are longer than all."""
    assert [row.name for row in found.waits] == ["1m", "10m", "1h", "6h", "1d", "3d", "longer"]


def test_all_rows_are_there_once(found):
    """What a page shows, a program can read."""
    assert Counter(row.by for row in found.every)["total"] == 1
    assert {row.by for row in found.every} == {*BY, "total"}
    assert len({(row.by, row.name) for row in found.every}) == len(found.every)


def test_a_lab_that_is_younger_than_the_time_asked_for(month):
    """It has the hours since it began, and no empty ones before."""
    made = book(month.ground(), since=BEGIN - timedelta(days=90), now=month.now, zone=BERLIN)
    first = min(hold.since for hold in month.ground().past)
    assert made.begin == first < BEGIN
    assert made.total.period_hours == round((month.now - first).total_seconds() / 3600, 2)


def test_nothing_at_all():
    """No lab, no hours, no division by none."""
    made = book(
        Ground(Records(0, None), (), (), (), (), IdleRules(), lambda _: ()), since=BEGIN, now=BEGIN, zone=BERLIN
    )
    assert made.capacity_hours == 0
    assert {at_work(row) for row in made.hours} == {None}
    assert [row.by for row in made.rows(USER)] == ["total"]
