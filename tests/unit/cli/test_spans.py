"""`--at`, `--for` and `--until`: what they come to, and what is refused."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from lxgpu.cli.params import When
from lxgpu.cli.spans import Asked, asked_time, edited_time
from lxgpu.errors import LxgpuError

ZONE = ZoneInfo("Europe/Berlin")
NOW = datetime(2027, 3, 26, 15, 0, tzinfo=ZONE)


def asked(at=None, until=None, for_s=None):
    """What the options come to."""
    return asked_time(at=at and When(at), until=until and When(until), for_s=for_s, now=NOW, zone=ZONE)


def local(text):
    """A time in the lab's zone."""
    return datetime.fromisoformat(text).replace(tzinfo=ZONE)


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ({"for_s": 14400}, Asked(None, 14400)),
        ({"until": "18:00"}, Asked(None, 3 * 3600)),
        ({"at": "now", "for_s": 60}, Asked(None, 60)),
        ({"at": "tomorrow 09:00", "for_s": 3600}, Asked(local("2027-03-27 09:00"), 3600)),
        ({"at": "tomorrow 09:00", "until": "tomorrow 12:30"}, Asked(local("2027-03-27 09:00"), 12600)),
        ({"at": "14:00", "for_s": 14400}, Asked(None, 10800, local("2027-03-26 14:00"))),
        ({"at": "14:00", "until": "16:00"}, Asked(None, 3600, local("2027-03-26 14:00"))),
        ({"at": "tomorrow 14:00", "until": "18:00"}, Asked(local("2027-03-27 14:00"), 14400)),
        ({"at": "sun 22:00", "until": "2am"}, Asked(local("2027-03-28 22:00"), 4 * 3600)),
        ({"at": "18:00", "until": "17:00"}, Asked(local("2027-03-26 18:00"), 23 * 3600)),
        # The clocks go forward at 02:00 on the 28th: the night has seven hours between these two.
        ({"at": "2027-03-27 22:00", "until": "2027-03-28 06:00"}, Asked(local("2027-03-27 22:00"), 7 * 3600)),
    ],
)
def test_a_start_and_a_length(words, found):
    """As soon as can be without a start; one that is over is moved to now, and the end stays where it is."""
    assert asked(**words) == found


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ({}, "usage"),
        ({"for_s": 60, "until": "18:00"}, "usage"),
        ({"until": "14:00"}, "bad_time"),
        ({"at": "18:00", "until": "today 17:00"}, "bad_time"),
        ({"at": "10:00", "for_s": 3600}, "bad_time"),
        ({"at": "2027-03-28 02:30", "for_s": 3600}, "bad_time"),
        ({"at": "2027-10-31 02:30", "for_s": 3600}, "bad_time"),
        ({"until": "2027-03-26T14:00:00.500Z", "at": "2027-03-26T14:00:00.200Z"}, "bad_time"),
    ],
)
def test_what_is_no_time_is_refused(words, code):
    """None or two ends, the past, backwards, a time that the clock change skips or repeats."""
    with pytest.raises(LxgpuError) as caught:
        asked(**words)
    assert caught.value.code == code


def edited(start="2027-03-27 09:00", at=None, until=None, for_s=None):
    """What the options of `reservation edit` come to, for one that begins tomorrow at nine."""
    begin = local(start) if start else None
    return edited_time(at=at and When(at), until=until and When(until), for_s=for_s, start=begin, now=NOW, zone=ZONE)


def test_an_edit_changes_what_is_named():
    """The rest stays: None is as it was."""
    assert edited() == (None, None)
    assert edited(for_s=7200) == (None, local("2027-03-27 11:00"))
    assert edited(at="tomorrow 10:00", for_s=7200) == (local("2027-03-27 10:00"), local("2027-03-27 12:00"))
    assert edited(until="tomorrow 12:00") == (None, local("2027-03-27 12:00"))
    assert edited(until="18:00") == (None, local("2027-03-27 18:00"))
    assert edited(at="sun 10:00", until="9:30") == (local("2027-03-28 10:00"), local("2027-03-29 09:30"))
    assert edited("2027-03-26 14:00", until="18:00") == (None, local("2027-03-26 18:00"))
    assert edited(at="tomorrow 10:00") == (local("2027-03-27 10:00"), None)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ({"for_s": 60, "until": "18:00"}, "usage"),
        ({"for_s": 60, "start": ""}, "usage"),
        ({"at": "14:00"}, "bad_time"),
        ({"until": "today 18:00"}, "bad_time"),
        ({"until": "14:00", "start": "2027-03-26 13:00"}, "bad_time"),
    ],
)
def test_an_edit_that_makes_no_sense_is_refused(words, code):
    """Two ends; a length without a start to count from; a start in the past."""
    with pytest.raises(LxgpuError) as caught:
        edited(**words)
    assert caught.value.code == code


def test_two_ends_and_wrong_ends_are_named():
    """Both options by their names; an end before its start with the two times, in the lab's zone; how long ago."""
    with pytest.raises(LxgpuError, match="both --for and --until were given"):
        asked(for_s=60, until="18:00")
    with pytest.raises(LxgpuError) as caught:
        edited(until="today 18:00")
    assert caught.value.why == ("from 2027-03-27 09:00 Europe/Berlin until 2027-03-26 18:00 Europe/Berlin",)
    with pytest.raises(LxgpuError, match="that start is over: it was 8h6m ago"):
        edited(at="06:54")
