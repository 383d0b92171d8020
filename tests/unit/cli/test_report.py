"""`lxgpu report` as a program: a page, JSON and CSV of the very same figures, from the real inventory."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser

import pytest
from json_shapes import faults
from seeded_month import GROUPS, seeded_month

POLICY = {"version": 1, "timezone": "Europe/Berlin"}


class Reader(HTMLParser):
    """The tables of a page by the title above them, and the tiles; what would run or be loaded, too."""

    def __init__(self) -> None:
        super().__init__()
        self.tables: dict[str, list[list[str]]] = defaultdict(list)
        self.tiles: list[str] = []
        self.loaded: list[str] = []
        self._title, self._cell, self._words = "", False, ""

    def handle_starttag(self, tag, attrs):
        """A cell begins, or something that must not be there."""
        named = dict(attrs)
        outside = [value for key, value in attrs if key in {"src", "href", "srcset", "action"} or key.startswith("on")]
        self.loaded += outside + [tag for one in [tag] if one in {"script", "link", "iframe", "object", "img"}]
        if tag == "tr":
            self.tables[self._title].append([])
        self._cell = tag in {"th", "td", "h2"} or named.get("class") == "value"
        self._words = ""

    def handle_data(self, data):
        """The words of it."""
        if self._cell:
            self._words += data

    def handle_endtag(self, tag):
        """It ends."""
        if tag == "h2":
            self._title = self._words
        elif tag in {"th", "td"}:
            self.tables[self._title][-1].append(self._words)
        elif tag == "dd" and self._cell:
            self.tiles.append(self._words)
        self._cell = False


def read(path) -> Reader:
    """A page."""
    reader = Reader()
    reader.feed(path.read_text(encoding="utf-8"))
    return reader


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """The environment of a lab whose last month was made by chance."""
    folder = tmp_path_factory.mktemp("lab")
    (folder / "state").mkdir()
    end = datetime.now(UTC).replace(second=0, microsecond=0)
    seeded_month(folder / "state", seed=7, begin=end - timedelta(days=30))
    groups: dict[str, list[str]] = defaultdict(list)
    for person, mine in GROUPS.items():
        for name in mine:
            groups[name].append(person)
    policy = {**POLICY, "groups": {name: {"members": people} for name, people in groups.items()}}
    (folder / "policy.yaml").write_text(json.dumps(policy))
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("LXGPU_", "LXD_", "INCUS_"))}
    places = {
        "LXD_DIR": str(folder / "lxd"),
        "LXGPU_STATE_DIR": str(folder / "state"),
        "LXGPU_RUN_DIR": str(folder / "run"),
        "LXGPU_POLICY": str(folder / "policy.yaml"),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    return {**kept, **places}


def report(lab, *words: str, status: int = 0) -> str:
    """What the command writes on stdout; on stderr where it fails."""
    argv = [sys.executable, "-m", "lxgpu", "report", *words]
    ran = subprocess.run(argv, env=lab, capture_output=True, text=True, check=False, timeout=120)
    assert ran.returncode == status, ran.stderr
    return ran.stderr if status else ran.stdout


@pytest.fixture(scope="module")
def made(lab, tmp_path_factory):
    """The page and the JSON of one call."""
    path = tmp_path_factory.mktemp("page") / "use.html"
    items = json.loads(report(lab, "--since", "30d", "--by", "all", "-o", "json", "--html", str(path)))["items"]
    return path, items


def rows_of(items, by):
    """The rows of one kind by name."""
    return {row["name"]: row for row in items if row["by"] == by}


def hours(row, *fields):
    """Figures as the page writes them."""
    return [f"{row[f'{field}_gpu_hours']:,.2f}" for field in fields]


def test_the_json_has_its_shape(made):
    """Each row, of every kind."""
    _, items = made
    assert [text for row in items for text in faults("report", row)] == []
    assert {row["by"] for row in items} == {"user", "group", "gpu", "hour", "day", "wait", "total"}


@pytest.mark.parametrize(("title", "by"), [("By person", "user"), ("By group", "group"), ("By GPU", "gpu")])
def test_the_hours_on_the_page_are_those_of_the_json(made, title, by):
    """Every row and the last one, to the last digit."""
    path, items = made
    _, *shown, last = read(path).tables[title]
    rows = rows_of(items, by)
    assert len(shown) == len(rows) > 0
    for name, *cells in shown:
        plain = "" if name == "(no group)" else name
        (row,) = (row for full, row in rows.items() if full == plain or (by == "gpu" and full.startswith(plain)))
        assert cells[:4] == hours(row, "held", "used", "idle", "unknown")
    assert last[1:5] == hours(rows_of(items, "total")["all"], "held", "used", "idle", "unknown")


@pytest.mark.parametrize("title", ["By person", "By GPU"])
def test_the_columns_of_the_page_add_up(made, title):
    """The last row is the sum of those above it, but for the rounding of each; used, idle and unknown are held."""
    path, _ = made
    _, *shown, last = read(path).tables[title]
    for column in range(1, 5):
        figures = [float(row[column].replace(",", "")) for row in shown]
        assert sum(figures) == pytest.approx(float(last[column].replace(",", "")), abs=0.005 * len(shown) + 1e-9)
    for row in (*shown, last):
        held, *parts = (float(cell.replace(",", "")) for cell in row[1:5])
        assert round(sum(parts), 2) == held


def test_what_people_asked_for_is_the_same_too(made):
    """Waits and refusals by group, bookings by person, waste by container, the figures that stand first."""
    path, items = made
    page, total, groups, users = (
        read(path),
        rows_of(items, "total")["all"],
        *(rows_of(items, by) for by in ("group", "user")),
    )
    for name, *cells in page.tables["Waits"][1:-1]:
        row = groups["" if name == "(no group)" else name]
        assert (cells[0], cells[3]) == (str(row["waits"]), str(row["waiting"]))
        assert cells[4] == hours(row, "waited")[0]
    for name, *cells in page.tables["Refused"][1:-1]:
        row = groups["" if name == "(no group)" else name]
        by_policy = row["refused"] - row["refused_full"]
        assert cells[:3] == [str(row["refused"]), str(by_policy), str(row["refused_full"])]
        assert cells[3] == hours(row, "refused")[0]
    for name, *cells in page.tables["Bookings"][1:-1]:
        row = users[name]
        wanted = [row["bookings"], row["bookings_honoured"], row["bookings_missed"], row["bookings_failed"]]
        assert cells[:4] == [str(one) for one in wanted]
    assert page.tables["Bookings"][-1][1] == str(total["bookings"])
    waste = [(one["instance"], f"{one['idle_gpu_hours']:,.2f}") for one in total["wasted"]]
    assert [tuple(row[:2]) for row in page.tables["Waste"][1:]] == waste
    assert page.tiles[:4] == hours(total, "held", "used", "idle", "unknown")
    assert page.tiles[6] == str(total["refused"])


def test_csv_has_the_figures_of_its_page(lab, tmp_path):
    """Every column of every row, as of the page that was written with it."""
    path = tmp_path / "use.html"
    found = list(
        csv.DictReader(io.StringIO(report(lab, "--since", "30d", "--by", "all", "-o", "csv", "--html", str(path))))
    )
    people = {row["name"]: row for row in found if row["by"] == "user"}
    for name, *cells in read(path).tables["By person"][1:-1]:
        row = people[name]
        told = [row[f"{field}_gpu_hours"] for field in ("held", "used", "idle", "unknown")]
        assert [f"{float(one):,.2f}" for one in told] == cells[:4]
    assert {row["by"] for row in found} == {"user", "group", "gpu", "hour", "day", "wait", "total"}
    assert {"refused_full", "waited_gpu_hours", "period_hours", "wait_longest_s"} <= set(found[0])


def test_a_kind_is_its_rows_and_the_total(lab):
    """Hours of the week and days too; the sums of both are what was held."""
    for by, number in (("hour", 168), ("day", 31)):
        items = json.loads(report(lab, "--since", "30d", "--by", by, "-o", "json"))["items"]
        assert len(items) - 1 in {number, number + 1}
        assert items[-1]["by"] == "total"
        total = sum(row["held_gpu_hours"] for row in items[:-1])
        assert total == pytest.approx(items[-1]["held_gpu_hours"], abs=0.005 * len(items))


def test_the_page_needs_nothing_and_runs_nothing(made):
    """No script, no picture, no address; a browser shows it from a stick."""
    path, _ = made
    text = path.read_text(encoding="utf-8")
    assert read(path).loaded == []
    assert re.findall(r"https?://[^\s\"']+", text.replace("http://www.w3.org/2000/svg", "")) == []
    assert "url(#hatch)" in text
    assert re.findall(r"url\((?!#hatch)", text) == []
    assert len(text) < 300_000


def test_a_page_that_cannot_be_written_is_said_first(lab, tmp_path):
    """Before anything is read."""
    said = report(lab, "--html", str(tmp_path / "nowhere/use.html"), status=2)
    assert said.startswith("error[usage] --html:")


def test_without_anything_the_page_says_so(tmp_path):
    """A machine where lxgpu has never been: no rows, no plots, no fault."""
    env = {**os.environ, "LXGPU_STATE_DIR": str(tmp_path / "state"), "LXGPU_RUN_DIR": str(tmp_path / "run")}
    env |= {
        "LXD_DIR": str(tmp_path),
        "LXGPU_POLICY": str(tmp_path / "policy.yaml"),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    report(env, "--html", str(tmp_path / "use.html"))
    assert "There is nothing to show of this time." in (tmp_path / "use.html").read_text()


def test_there_is_no_page_of_the_forecast(lab, tmp_path):
    """It is refused, and not left out silently."""
    said = report(lab, "--forecast", "--html", str(tmp_path / "x.html"), status=2)
    assert "error[usage] --forecast goes with no --html" in said
    assert list(tmp_path.iterdir()) == []


def test_the_page_may_be_what_standard_output_gets(lab):
    """Alone, in place of the table."""
    assert report(lab, "--html", "-").startswith("<!DOCTYPE html>")
