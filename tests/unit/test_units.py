"""Durations, sizes, shares and rates: one grammar, and the way back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lxgpu import units
from lxgpu.errors import LxgpuError

LIKE = "write it like 4h"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30s", 30),
        ("90m", 5400),
        ("4h", 14400),
        ("2d", 172800),
        ("1d12h", 129600),
        ("2w", 1209600),
        ("1h30m10s", 5410),
        ("0s", 0),
        ("4H", 14400),
        ("4 h", 14400),
        ("90min", 5400),
        ("4hours", 14400),
        ("4 hours", 14400),
        ("1 hour 30 minutes", 5400),
        ("1h30", 5400),
        ("1.5h", 5400),
        ("1h0.5m", 3630),
        ("1d 12h", 129600),
        ("2 Weeks", 1209600),
        ("3650d", units.LONGEST_S),
    ],
)
def test_durations_are_read(text, seconds):
    """Numbers with units, largest first."""
    assert units.parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ("4", "say 4m for minutes, 4h for hours or 4d for days"),
        ("0", "say 0m for minutes, 0h for hours or 0d for days"),
        ("", LIKE),
        ("h", LIKE),
        ("1h1d", LIKE),
        ("1h1h", LIKE),
        ("1h60", LIKE),
        ("1h5", LIKE),
        ("1d30", LIKE),
        ("1.5d12h", LIKE),
        ("1,5h", LIKE),
        (".5h", LIKE),
        ("-4h", LIKE),
        ("four hours", LIKE),
        ("4h\n", LIKE),
        ("٤h", LIKE),
        ("0.00001s", "give whole ones"),
        ("3651d", "give a shorter one"),
        ("9999999999h", LIKE),
    ],
)
def test_what_is_no_duration_is_refused_with_advice(text, fix):
    """A bare number above all: 4 could be hours as well as minutes."""
    with pytest.raises(LxgpuError) as raised:
        units.parse_duration(text)
    assert raised.value.code == "bad_time"
    assert raised.value.fix == fix


@given(st.integers(0, units.LONGEST_S))
def test_a_duration_is_read_back(seconds):
    """`format_duration` is exact."""
    assert units.parse_duration(units.format_duration(seconds)) == seconds


@given(st.floats(0, units.LONGEST_S))
def test_a_short_duration_never_promises_too_much(seconds):
    """What people see is cut, by less than the smaller of its two units."""
    shown = units.parse_duration(units.short_duration(seconds))
    assert shown <= seconds < shown + max(1.0, seconds / 10)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(14399, "3h59m"), (187264, "2d4h"), (845, "14m"), (599, "9m59s"), (45.9, "45s"), (0, "0s"), (-90, "-1m30s")],
)
def test_short_durations(seconds, text):
    """Two units at most."""
    assert units.short_duration(seconds) == text


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("64GiB", 64 * 2**30),
        ("512MiB", 512 * 2**20),
        ("1.5GiB", 3 * 2**29),
        ("2GB", 2_000_000_000),
        ("0.5kB", 500),
        ("1B", 1),
        ("0B", 0),
        ("7EiB", 7 * 2**60),
    ],
)
def test_sizes_are_read_exactly(text, size):
    """Powers of 1024 with i, of 1000 without; LXD's 2GB is not 2GiB."""
    assert units.parse_size(text) == size


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ("1Gib", "say 1GiB"),
        ("64", "say 64GiB or 64MiB"),
        ("64G", "say 64GiB or 64GB"),
        ("1KB", "say 1kB"),
        ("64 GiB", "say 64GiB"),
        ("0.1GiB", ""),
        ("8EiB", ""),
        ("-1GiB", ""),
        ("1e3MiB", ""),
        ("GiB", ""),
        ("", ""),
    ],
)
def test_what_is_no_size_is_refused_with_advice(text, fix):
    """No guess of the unit, no rounding to whole bytes."""
    with pytest.raises(LxgpuError) as raised:
        units.parse_size(text)
    assert raised.value.code == "bad_size"
    assert raised.value.fix == fix


@given(st.integers(0, units.LARGEST_BYTES))
def test_a_size_is_read_back(size):
    """`format_size` is exact."""
    assert units.parse_size(units.format_size(size)) == size


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (64 * 2**30, "64GiB"),
        (2_000_000_000, "1.9GiB"),
        (1_000_001, "977KiB"),
        (1000, "1000B"),
        (0, "0B"),
        (-1024, "-1KiB"),
    ],
)
def test_short_sizes(size, text):
    """Three digits or so, in powers of 1024."""
    assert units.short_size(size) == text


@pytest.mark.parametrize(("text", "share"), [("90%", 90.0), ("0.5%", 0.5), ("0%", 0.0), ("100%", 100.0)])
def test_shares_are_read_and_written(text, share):
    """A share carries its percent sign."""
    assert units.parse_percent(text) == share
    assert units.format_percent(share) == text


@pytest.mark.parametrize("text", ["90", "0.9", "101%", "-1%", "%", "1e1%", ""])
def test_what_is_no_share_is_refused(text):
    """0.9 could be 90 % or 0.9 %."""
    with pytest.raises(LxgpuError, match="is no share"):
        units.parse_percent(text)


def test_rates_are_read():
    """An amount in a window: times, or time."""
    assert units.parse_count_per("2/1d") == (2, 86400)
    assert units.parse_count_per("200/30d") == (200, 30 * 86400)
    assert units.parse_duration_per("8h/7d") == (8 * 3600, 7 * 86400)


@pytest.mark.parametrize("text", ["2", "2/", "/1d", "2/0s", "x/1d", "2/1", "1/2/3d"])
def test_what_is_no_rate_is_refused(text):
    """Both parts must be there, and the window must not be empty."""
    with pytest.raises(LxgpuError) as raised:
        units.parse_count_per(text)
    assert raised.value.code == "bad_time"


def test_a_window_holds_no_more_time_than_it_has():
    """8 days in 7 days is a mistake."""
    with pytest.raises(LxgpuError, match="more time than its window"):
        units.parse_duration_per("8d/7d")


def _code(call) -> str:
    """The code of the error that a call ends in; empty when there is none."""
    try:
        call()
    except LxgpuError as error:
        return error.code
    return ""


@given(st.text(alphabet="0123456789dhmsw.GiMBk%/ -", max_size=12) | st.text(max_size=8))
def test_any_text_is_a_value_or_an_error_for_people(text):
    """No text makes anything but a value or an error with our code."""
    for parse in (
        units.parse_duration,
        units.parse_size,
        units.parse_percent,
        units.parse_count_per,
        units.parse_duration_per,
    ):
        assert _code(lambda parse=parse: parse(text)) in {"", "bad_time", "bad_size"}
