"""Times as people write them; the cases are in tests/cases/times.yaml."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from lxgpu.errors import LxgpuError
from lxgpu.instants import (
    clamp_interval,
    format_utc,
    load_zone,
    parse_day,
    parse_end,
    parse_instant,
    parse_utc,
    show_instant,
    show_zoned,
)

NOON = datetime(2027, 3, 1, 12, tzinfo=UTC)
ZONES = ("UTC", "Asia/Shanghai", "Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe", "Africa/Cairo")
INSTANTS = st.datetimes(datetime(2001, 1, 1), datetime(2150, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 -- bounds, the zone comes with them


def _cases() -> list[Any]:
    path = Path(__file__).resolve().parents[1] / "cases" / "times.yaml"
    return [pytest.param(case, id=case["id"]) for case in yaml.safe_load(path.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("case", _cases())
def test_a_time_means_one_moment_or_is_refused(case):
    """No guess: each text is one instant, or the error says why not and what to write."""
    now, zone = datetime.fromisoformat(case["now"]), ZoneInfo(case["zone"])
    if "at" in case:
        assert parse_instant(case["text"], now=now, zone=zone) == datetime.fromisoformat(case["at"])
        return
    with pytest.raises(LxgpuError) as raised:
        parse_instant(case["text"], now=now, zone=zone)
    assert raised.value.code == "bad_time"
    assert case["error"] in raised.value.brief
    assert case.get("fix", "") in raised.value.fix
    assert case.get("why", "") in " ".join(raised.value.why)
    assert raised.value.fix


@given(at=INSTANTS, now=INSTANTS, zone=st.sampled_from(ZONES), near=st.booleans())
def test_what_is_shown_is_read_back(at, now, zone, near):
    """`show_instant` writes what `parse_instant` reads, to the minute, also around clock changes."""
    if near:
        at = now + (at - datetime(2001, 1, 1, tzinfo=UTC)) % timedelta(days=10)
    minute = at.replace(second=0, microsecond=0)
    text = show_instant(at, now=now, zone=ZoneInfo(zone))
    assert parse_instant(text, now=now, zone=ZoneInfo(zone)) == minute


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("18:00", "2027-03-02 18:00"),
        ("6pm", "2027-03-02 18:00"),
        ("02:00", "2027-03-03 02:00"),
        ("14:00", "2027-03-03 14:00"),
        ("today 18:00", "2027-03-01 18:00"),
        ("wed 09:00", "2027-03-03 09:00"),
    ],
)
def test_a_clock_time_ends_what_begins_before_it(text, end):
    """Of a booking from tomorrow 14:00 on: that day, or the next one; with a day it means that day."""
    zone = ZoneInfo("Asia/Shanghai")
    start = datetime(2027, 3, 2, 14, tzinfo=zone)
    assert parse_end(text, start=start, now=NOON, zone=zone) == datetime.fromisoformat(end).replace(tzinfo=zone)


@given(at=INSTANTS)
def test_utc_text_is_read_back(at):
    """`format_utc` writes what `parse_utc` reads, to the second."""
    assert parse_utc(format_utc(at)) == at.replace(microsecond=0)


@given(
    text=st.text(alphabet="0123456789:-+TZ .nowmtdayue", max_size=30) | st.text(max_size=12),
    zone=st.sampled_from(ZONES),
)
def test_any_text_is_a_moment_or_an_error_for_people(text, zone):
    """No text makes anything but an instant in UTC or a `bad_time`."""
    at, code = NOON, "bad_time"
    try:
        at = parse_instant(text, now=NOON, zone=ZoneInfo(zone))
    except LxgpuError as error:
        code = error.code
    assert (at.utcoffset(), code) == (timedelta(0), "bad_time")


@pytest.mark.parametrize(
    ("start", "end", "wanted"),
    [
        (timedelta(hours=1), timedelta(hours=2), (timedelta(hours=1), timedelta(hours=2))),
        (timedelta(hours=-1), timedelta(hours=2), (timedelta(0), timedelta(hours=2))),
        (timedelta(0), timedelta(seconds=1), (timedelta(0), timedelta(seconds=1))),
    ],
)
def test_a_started_interval_is_clamped_to_now(start, end, wanted):
    """B71: what has begun already begins now; what is ahead stays as it is."""
    assert clamp_interval(NOON + start, NOON + end, now=NOON) == (NOON + wanted[0], NOON + wanted[1])


@pytest.mark.parametrize(
    ("start", "end", "brief"),
    [
        (timedelta(hours=-5), timedelta(minutes=-150), "that time is over: it ended 2h30m ago"),
        (timedelta(hours=-5), timedelta(0), "that time is over: it ended 0s ago"),
        (timedelta(hours=2), timedelta(hours=2), "the end is not after the start"),
        (timedelta(hours=2), timedelta(hours=1), "the end is not after the start"),
    ],
)
def test_an_ended_or_empty_interval_is_refused(start, end, brief):
    """B71: at 14:30 nobody books 09:30 to 12:00; half-open, so an end that is now is over."""
    with pytest.raises(LxgpuError) as raised:
        clamp_interval(NOON + start, NOON + end, now=NOON)
    assert raised.value.brief == brief


@pytest.mark.parametrize("name", ["Asia/Shangai", "../../etc/passwd", "/etc/localtime", "", "Asia", "a\0b", "é"])
def test_a_zone_that_does_not_exist_is_an_error_for_people(name):
    """Whatever is wrong with a zone's name, it is told as such."""
    with pytest.raises(LxgpuError, match="there is no time zone"):
        load_zone(name)


@pytest.mark.parametrize(
    ("name", "fix"),
    [
        ("Asia/Shangai", "did you mean Asia/Shanghai?"),
        ("Europe/berlin ", "did you mean Europe/Berlin?"),
        ("Asia/Nowhere", "`timedatectl list-timezones` lists them"),
    ],
)
def test_only_a_near_name_is_offered(name, fix):
    """The continent alone makes no two cities alike."""
    with pytest.raises(LxgpuError) as raised:
        load_zone(name)
    assert raised.value.fix == fix


def test_a_day_needs_no_more_than_its_date():
    """`parse_day` takes a date alone and nothing else."""
    assert parse_day("2027-05-01", zone=UTC) == datetime(2027, 5, 1, tzinfo=UTC)
    with pytest.raises(LxgpuError):
        parse_day("2027-05-01 09:00", zone=UTC)


@pytest.mark.parametrize(
    ("zone", "at", "text"),
    [
        ("Asia/Shanghai", "2027-03-01T06:00:00+00:00", "14:00 CST"),
        ("UTC", "2027-03-01T06:00:00+00:00", "06:00 UTC"),
        ("America/Sao_Paulo", "2027-03-01T06:00:00+00:00", "03:00 UTC-03"),
        ("Asia/Shanghai", "2027-05-01T06:00:00+00:00", "2027-05-01 14:00 CST"),
        ("Europe/Berlin", "2027-10-31T00:30:00+00:00", "2027-10-31 02:30+02:00"),
    ],
)
def test_a_time_that_is_read_elsewhere_names_its_zone(zone, at, text):
    """By its word, by its offset where it has no word, once."""
    now = datetime(2027, 3, 1, 5, tzinfo=UTC)
    assert show_zoned(datetime.fromisoformat(at), now=now, zone=ZoneInfo(zone)) == text
