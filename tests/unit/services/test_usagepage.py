"""A report's page as values and as text: odd names, no data, a year, and drawings that stay in their frame."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree as ET
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from seeded_month import seeded_month

from lxgpu.config.shipped import shipped
from lxgpu.drivers.texts import JinjaTexts
from lxgpu.services import usageplots
from lxgpu.services.usage import UsageView, WasteView
from lxgpu.services.usagebook import Book, book
from lxgpu.services.usagepage import page_of
from lxgpu.services.usageplots import Bar, Column

NOW = datetime(2027, 3, 8, tzinfo=UTC)
BERLIN = ZoneInfo("Europe/Berlin")
SVG = "{http://www.w3.org/2000/svg}"


def text_of(made: Book, *, host="gpu1") -> str:
    """The page as it is written."""
    page = page_of(made, host=host, zone=BERLIN)
    return JinjaTexts([shipped("templates")]).render("report/page.html.j2", page=page, version="1")


def alone(name: str) -> Book:
    """An hour of one card, of one person, in one group, all of that name."""
    row = UsageView(
        "user", name, 1.0, 1.0, 0.0, 0.0, 1, 1, 0, 0, 1, 5, 5, 0, 1.0, 1, 1, 4.0, 1.0, (WasteView(name, 1.0),)
    )
    then = NOW - timedelta(hours=1)
    return Book(then, then, NOW, 1, (row,), (row,), (row,), (), (), (), row)


@pytest.mark.parametrize("odd", ['"><script>alert(1)</script>&', "<b>", "a&b", "'", "名前", "x" * 300])
def test_names_are_text_wherever_they_stand(odd):
    """What people are called becomes no mark-up, in tables and in drawings."""
    text = text_of(alone(odd), host=odd)
    assert "<script" not in text
    assert "<b>" not in text
    for svg in re.findall(r"<svg viewBox.*?</svg>", text, re.DOTALL):
        ET.fromstring(svg)  # noqa: S314 -- our own


@pytest.fixture(scope="module")
def year(tmp_path_factory):
    """A year of one card."""
    month = seeded_month(tmp_path_factory.mktemp("year"), seed=3, days=365, cards=2, every_m=60)
    return book(month.ground(), since=month.since, now=month.now, zone=BERLIN)


def test_a_year_is_drawn_by_weeks(year):
    """Fewer columns than can be told apart; days and their sum stay in the data."""
    (section,) = (one for one in page_of(year, host="gpu1", zone=BERLIN).sections if one.title == "Over time")
    ((_, svg),) = section.drawings
    assert svg.count("<g>") in {53, 54}
    assert len(year.days) == 366  # the first begins at 01:00 of the lab's time
    assert "a week a column" in section.text


def test_each_drawing_stays_in_its_frame(year):
    """Nothing is drawn beyond the edges, and none of it is upside down."""
    text = text_of(year)
    found = re.findall(r"<svg viewBox.*?</svg>", text, re.DOTALL)
    assert len(found) == 9
    for svg in found:
        root = ET.fromstring(svg)  # noqa: S314 -- our own
        _, _, wide, high = (float(one) for one in root.attrib["viewBox"].split())
        assert root.attrib["aria-label"]
        for rect in root.iter(f"{SVG}rect"):
            x, y, width, height = (float(rect.attrib[name]) for name in ("x", "y", "width", "height"))
            assert min(x, y, width, height) >= 0
            assert x + width <= wide + 0.2
            assert y + height <= high + 0.2


@given(st.lists(st.lists(st.floats(0, 1e7), min_size=3, max_size=3), max_size=30))
def test_bars_are_as_long_as_their_share(sizes):
    """Whatever they stand for, the longest fills the room."""
    bars = [Bar(f"n{number}", tuple(zip("uik", parts, strict=True)), "") for number, parts in enumerate(sizes)]
    root = ET.fromstring(usageplots.bars(bars, alt="a"))  # noqa: S314 -- our own
    widths = [float(rect.attrib["width"]) for rect in root.iter(f"{SVG}rect")]
    assert sum(widths) <= (usageplots.WIDE + 1) * max(1, len(bars))
    if any(sum(parts) > 0 for parts in sizes):
        assert max(float(rect.attrib["x"]) + float(rect.attrib["width"]) for rect in root.iter(f"{SVG}rect")) > 300


@pytest.mark.parametrize("top", [0.0, 0.5, 1.0, 3.0, 8.0, 64.0, 1000.0])
def test_an_axis_has_a_few_round_marks(top):
    """From 0 to no further than the top, three to six of them."""
    svg = usageplots.columns([Column("1 Mar", "", (("u", top),))], alt="a", top=top, unit="GPUs")
    marks = [float(one) for one in re.findall(r'text-anchor="end">([\d.]+)<', svg)]
    assert marks[0] == 0
    assert 1 <= len(marks) <= 6
    if top >= 1:
        assert top / 2 < marks[-1] <= top


def test_an_hour_that_was_not_is_no_empty_one(year):
    """In a time of two days most hours of the week are not known, which is hatched and not pale."""
    short = replace(year, hours=tuple(replace(row, period_hours=0.0, used_gpu_hours=0.0) for row in year.hours))
    (section,) = (one for one in page_of(short, host="gpu1", zone=BERLIN).sections if "hour" in one.title)
    assert all(svg.count('class="k"') == 168 for _, svg in section.drawings)


def test_a_lab_that_is_younger_is_said():
    """Whoever asks for 30 days of a lab of an hour reads so."""
    made = alone("alice")
    young = replace(made, since=NOW - timedelta(days=30))
    assert "nothing is known of the time before 2027-03-08 00:00" in text_of(young)
    assert "nothing is known" not in text_of(made)
