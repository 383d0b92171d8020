"""The catalogue is whole in both languages, and times are told as people read them."""

from __future__ import annotations

import re
import string
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lxgpu.config.shipped import shipped
from lxgpu.instants import parse_instant
from lxgpu.web.cards import STATES
from lxgpu.web.forms import ACTIONS
from lxgpu.web.words import LANGUAGES, Words, catalogue, chosen

FOLDER = shipped("templates") / "web"
TEXTS = catalogue(FOLDER / "words.yaml")
DASH = "\N{EN DASH}"
NOW = datetime(2027, 3, 1, 8, 0, tzinfo=UTC)
SHANGHAI = ZoneInfo("Asia/Shanghai")
MADE = {
    *(f"state_{state}" for state in STATES),
    *(f"did_{action}" for action in ACTIONS),
    *(f"bar_{kind}" for kind in ("held", "over", "booked", "closed")),
    *(f"look_to_{look}" for look in ("auto", "light", "dark")),
    *(f"wish_{state}" for state in ("waiting", "scheduled", "preparing", "active")),
    *(f"verdict_{verdict}" for verdict in ("busy", "idle", "unknown", "foreign")),
    *("in_used", "in_used_more", "in_away", "in_away_more"),
}
"""Keys that are put together in a template."""


def words(language="en", *, now=NOW, zone=SHANGHAI):
    """The texts of a language."""
    return Words(TEXTS, language, now, zone)


def places(text):
    """The names in braces."""
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


@pytest.mark.parametrize("key", sorted(TEXTS))
def test_every_text_is_there_in_every_language_with_the_same_values(key):
    """Nothing is left in one language, and nothing that is told in one is left out in the other."""
    texts = TEXTS[key]
    assert set(LANGUAGES) <= set(texts) <= {*LANGUAGES, "en_1"}
    assert all(text.strip() for text in texts.values())
    assert places(texts["en"]) == places(texts["zh"])
    assert places(texts.get("en_1", texts["en"])) | {"n"} == places(texts["en"]) | {"n"}


def used():
    """The keys that templates and modules name."""
    sources = [*FOLDER.glob("*.j2"), *(FOLDER.parents[1] / "lxgpu" / "web").glob("*.py")]
    text = "\n".join(path.read_text(encoding="utf-8") for path in sources)
    whole = re.findall(r"""(?:\bt|self|t\.has)\(\s*f?["']([a-z_]+)["'](?!\s*~)""", text)
    return set(whole) | set(re.findall(r"""else t\("([a-z_]+)"\)""", text)) | MADE


def test_every_text_that_is_asked_for_is_there():
    """No page breaks for want of a word."""
    lacking = {key for key in used() if key not in TEXTS and not key.endswith("_")}
    assert lacking == set()


def test_every_text_that_is_there_is_asked_for():
    """Nothing is translated in vain."""
    spans = {f"span_{unit}" for unit in ("days", "hours", "minutes", "seconds")}
    left = {key for key in TEXTS if key not in used() | spans and not key.startswith("error_")}
    assert left == {"weekdays"}


@pytest.mark.parametrize(
    ("ahead", "english", "chinese"),
    [
        (timedelta(0), "16:00", "16:00"),
        (timedelta(hours=8), "tomorrow 00:00", "明天 00:00"),
        (timedelta(days=2), "Wed 16:00", "周三 16:00"),
        (timedelta(days=9), "2027-03-10 16:00", "2027-03-10 16:00"),
        (timedelta(days=-1), "2027-02-28 16:00", "2027-02-28 16:00"),
    ],
)
def test_times_are_told_in_the_labs_zone(ahead, english, chinese):
    """As the command line tells them."""
    assert (words().when(NOW + ahead), words("zh").when(NOW + ahead)) == (english, chinese)


@given(st.datetimes(datetime(2027, 1, 1), datetime(2028, 1, 1)), st.sampled_from(["Europe/Berlin", "Asia/Shanghai"]))  # noqa: DTZ001 -- in UTC below
def test_a_time_that_is_told_can_be_typed(moment, zone):
    """What the page says of a time in the next week means that minute to the command line as well."""
    zone, at = ZoneInfo(zone), moment.replace(second=0, microsecond=0, tzinfo=UTC)
    told = words(now=NOW, zone=zone).when(at)
    if not re.search(r"[+-]\d{4}$", told):  # in an hour that the day has twice, the offset is told
        assert parse_instant(told, now=NOW, zone=zone) == at


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (59, "59 s"), (240, "4 min"), (3600, "1 h"), (12000, "3 h 20 min"), (187200, "2 d 4 h"), (-5, "0 s")],
)
def test_durations_are_cut_and_short(seconds, text):
    """Two units at most."""
    assert words().span(seconds) == text


def test_what_begins_and_ends_on_a_day_names_it_once():
    """And an end that is not known is said."""
    start = NOW + timedelta(days=2)
    assert words().between(start, start + timedelta(hours=4)) == f"Wed 16:00 {DASH} 20:00"
    assert words().between(start, start + timedelta(hours=9)) == f"Wed 16:00 {DASH} Thu 01:00"
    assert words().between(start, None) == "from Wed 16:00 on"


@pytest.mark.parametrize(
    ("cookie", "accepts", "language"),
    [
        (None, "", "en"),
        (None, "zh-CN,zh;q=0.9,en;q=0.8", "zh"),
        (None, "de-DE,de;q=0.9,en;q=0.7", "en"),
        ("en", "zh-CN", "en"),
        ("xx", "zh-TW", "zh"),
    ],
)
def test_the_language_is_ones_own(cookie, accepts, language):
    """What was chosen, else what the browser wants, else English."""
    assert chosen(cookie, accepts) == language
