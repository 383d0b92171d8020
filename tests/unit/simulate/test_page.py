"""The page: whole in itself, readable by most eyes and by programs, and made of names that are never markup."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from lxgpu.config.shipped import shipped
from lxgpu.drivers.texts import JinjaTexts
from lxgpu.simulate import plots
from lxgpu.simulate.floor import Floor
from lxgpu.simulate.jobs import Burst, Job, Lab, Workload
from lxgpu.simulate.page import and_on, page_of, short_names, steps_of
from lxgpu.simulate.pagetable import rows_of
from lxgpu.simulate.rules import make
from lxgpu.simulate.runs import Asked, run

LAB = Lab(1, 4)
WORK = Workload(
    "small.csv",
    (
        Job("a", "a", 3, 0, 5000, group="red"),
        Job("b", "b", 2, 60, 9000, group="blue"),
        Job("c", "c", 2, 90, 300, group="blue", deadline_s=700),
        Job("h", "h", 1, 100, 90000, group="red", bursts=(Burst(200, 3000), Burst(50000, 100))),
    ),
    source="made up",
)


class Stops:
    """Fifo, but what is at work at the fifth decision is stopped once, and starts again."""

    def __init__(self, floor, inner):
        self._floor, self._inner, self._count = floor, inner, 0
        self.asked, self.ended, self.turned = inner.asked, inner.ended, inner.turned

    def decide(self):
        """One stop and one start, besides what fifo does."""
        self._inner.decide()
        self._count += 1
        busy = [job for job, place in enumerate(self._floor.place) if place and self._floor.working(job)]
        if self._count == 5 and busy:
            place = self._floor.place[busy[0]]
            self._floor.stop(busy[0])
            self._floor.start(busy[0], place)


def _stopping(workload, lab, policy):
    floor, rule = make("fifo")(workload, lab, policy)
    assert isinstance(floor, Floor)
    return floor, Stops(floor, rule)


def _runs(workload=WORK, lab=LAB):
    some = [run(workload, lab, Asked(rule), make(rule), watch=True) for rule in ("fifo", "sjf")]
    return [*some, run(workload, lab, Asked("stops", "site/<b>new.yaml"), _stopping, watch=True)]


@pytest.fixture(scope="module")
def text():
    """The page of the small story."""
    return _text()


def _text(workload=WORK, lab=LAB, runs=None):
    page = page_of(workload, lab, _runs(workload, lab) if runs is None else runs)
    return JinjaTexts((shipped("templates"),)).render("simulate/page.html.j2", page=page, version="1")


class Seen(HTMLParser):
    """Every tag with its attributes, and the text of everything."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.text, self.open = [], "", []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        """A tag that opens."""
        self.tags.append((tag, dict(attrs)))
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        """A tag that is empty."""
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        """A tag that closes."""
        assert self.open.pop() == tag

    def handle_data(self, data):
        """Text."""
        self.text += data


def test_the_page_needs_nothing_but_itself(text):
    """No script, nothing fetched: every link of it leads to a place in it."""
    seen = Seen(text)
    assert seen.open == []
    assert not {tag for tag, _ in seen.tags} & {"script", "link", "iframe", "img", "object", "image", "style!"}
    ids = [attrs["id"] for _, attrs in seen.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    links = re.findall(r'url\(#([^)"]+)\)|href="([^"]*)"', text)
    assert links
    assert {one or other for one, other in links} <= {*ids, *(f"#{name}" for name in ids)}
    assert not re.search(r"@import|url\((?!#)", text)


def test_every_plot_is_told_in_words_too(text):
    """Every plot is told in words too, and the page says what it is on and how wide it may be."""
    seen = Seen(text)
    plots_seen = [attrs for tag, attrs in seen.tags if tag == "svg"]
    assert len(plots_seen) >= 9
    assert all(attrs["role"] == "img" and attrs["aria-label"] for attrs in plots_seen)
    assert ("html", {"lang": "en"}) in seen.tags
    assert any(attrs.get("name") == "viewport" for _, attrs in seen.tags)
    for words in ("Waits", "Use over time", "Who waited for whom", "Preemptions and lost work", "1 server of 4 GPUs"):
        assert words in seen.text
    for axis in ("waited at most", "share of the jobs (%)", "hours since the beginning", "cards", "GPU-hours"):
        assert axis in seen.text


def test_cards_that_are_kept_of_a_set_that_is_not_whole_are_not_called_free():
    """Cards that are kept of a set that is not whole are not called free, where they are drawn like free ones."""
    jobs = (
        Job("h", "h", 4, 0, 90_000, group="red", bursts=(Burst(0, 600), Burst(80_000, 100))),
        Job("a", "a", 1, 10, 9000, group="blue"),
        Job("b", "b", 1, 20, 300, group="blue"),
    )
    seen = run(Workload("w", jobs), LAB, Asked("lxgpu"), make("lxgpu"), watch=True)
    assert seen.stops[0] == 1
    said = Seen(_text(Workload("w", jobs), runs=[seen])).text
    assert "(free or kept)" in said
    assert "(free)" not in said
    assert "by a job that has lost others of its cards" in said


def test_names_are_text_wherever_they_stand():
    """Names are text wherever they stand: no markup, no formulas, whole in the table."""
    nasty = ("<script>go(1)</script>", "$x^2$ & co", '"quoted"')
    jobs = tuple(
        replace(job, group=nasty[at % 3]) for at, job in enumerate([*WORK.jobs, *(replace(WORK.jobs[0], id="z"),)])
    )
    seen = Seen(_text(Workload("<i>w</i>", jobs, source="a & b <u>")))
    assert not {tag for tag, _ in seen.tags} & {"script", "i", "u", "b"}
    for name in (*nasty, "<i>w</i>", "a & b <u>", "stops <b>new.yaml"):
        assert name in seen.text


@pytest.mark.parametrize(
    "jobs",
    [
        (),
        (Job("x", "x", 5, 0, 10),),
        (Job("x", "x", 1, 0, 0),),
        tuple(Job(str(at), "x", 1, at, 50, group=f"a group with a long name {at}") for at in range(14)),
    ],
    ids=["no job", "none that begins", "none that takes time", "many groups"],
)
def test_there_is_a_page_of_whatever_was_run(jobs):
    """There is a page of whatever was run."""
    seen = Seen(_text(Workload("w", jobs)))
    assert "All figures" in seen.text


def test_where_nobody_had_to_stop_it_is_said(text):
    """Where nobody had to stop it is said, and no empty plot is drawn."""
    quiet = [run(WORK, LAB, Asked("fifo"), make("fifo"), watch=True)]
    assert "Nobody had to stop" in _text(runs=quiet)
    assert "Nobody had to stop" not in text


def test_where_nobody_waited_it_is_said(text):
    """Where nobody waited it is said, and no empty plot is drawn."""
    wide = Lab(4, 4)
    quick = Seen(_text(runs=[run(WORK, wide, Asked("fifo"), make("fifo"), watch=True)], lab=wide))
    assert "Everybody who began did so at once" in quick.text
    assert "Everybody who began did so at once" not in text


def test_the_same_runs_give_the_same_page(text):
    """The same runs give the same page, to the letter, but for the time they took."""
    row = re.compile(r"<tr><th scope=.row.>The run took.*")
    assert row.search(text)
    assert row.sub("", _text()) == row.sub("", text)


def test_a_figure_is_compared_with_the_first_run():
    """A figure is compared with the first run: which way it went, and whether that is good."""
    first = _runs()[0].outcome
    other = replace(first, mean_wait_s=first.mean_wait_s / 2, utilization=first.utilization * 0.9, median_wait_s=None)
    rows = {row.name: row.cells for row in rows_of([first, other])}
    assert (rows["Wait, mean"][1].change, rows["Wait, mean"][1].sense) == ("−50 %", "better")  # noqa: RUF001 -- as shown
    assert (rows["Use"][1].change, rows["Use"][1].sense) == ("−10 %", "worse")  # noqa: RUF001 -- as shown
    assert rows["Wait, median"][1].text == "–"  # noqa: RUF001 -- as shown
    assert rows["Wait, 95th of 100"][1].change == "same"
    assert {cells[0].change for cells in rows.values()} == {""}


def test_waits_of_other_jobs_are_not_compared():
    """Where other jobs began than in the first run no wait is compared, but what is of all jobs is; both are told."""
    few = replace(WORK, jobs=(*WORK.jobs, replace(WORK.jobs[1], id="x", group="red", gpus=4)))
    first, other = (run(few, LAB, Asked(rule), make(rule), watch=True) for rule in ("sjf", "fifo"))
    use = other.outcome.utilization / 2
    gone = replace(other.outcome, never_started=1, never_started_why={"waited": 1}, utilization=use)
    other = replace(other, outcome=gone, waits=(*other.waits[:-1], None))
    page = page_of(few, LAB, [first, other])
    changes = {row.name: row.cells[1].change for row in page.rows}
    waits = {name for name in changes if name.startswith(("Wait", "…", "From"))}
    assert len(waits) == 6
    assert {changes[name] for name in waits} == {""}
    assert changes["Use"]
    assert page.notes[0].startswith("Jobs that never began: 1 of 5 under fifo (1 waited to the end).")
    assert "not compared" in page.notes[1]
    assert all(note in Seen(_text(few, runs=[first, other])).text for note in page.notes)
    assert page_of(few, LAB, [first, first]).notes == ()


def test_a_long_name_of_a_group_is_short_in_the_table_and_whole_as_its_title():
    """A long name of a group is short in the table, and whole in its title."""
    name = '"><i>' + "a" * 40
    seen = Seen(_text(replace(WORK, jobs=(*WORK.jobs, replace(WORK.jobs[0], id="z", group=name)))))
    assert ("th", {"scope": "row", "title": name}) in seen.tags
    assert f"… of {name[:23]}…" in seen.text


@pytest.mark.parametrize("count", [1, 2, 7, 400, 3001])
def test_the_curve_of_the_waits_is_made_of_steps_that_are_true(count):
    """Each step says which share of all jobs waited no longer, up to those that began; few jobs are all there."""
    known = sorted(float(at * at % 97) for at in range(count))
    steps = list(steps_of(known, count + 3))
    assert all(share == sum(one <= wait for one in known) / (count + 3) for wait, share in steps)
    assert [steps[0][0], *steps[-1]] == [0, known[-1], count / (count + 3)]
    assert steps == sorted(steps)
    assert len(steps) < 510
    if count < 250:
        assert {wait for wait, _ in steps} == {0, *known}
    assert list(steps_of([], 3)) == []


def test_who_never_began_waits_on_to_the_end_of_the_axis(text):
    """The line of who waits ends where the axis does, also of a run that was over before: at those who never began."""
    series = run(WORK, LAB, Asked("fifo"), make("fifo"), watch=True).series
    times, counts = and_on(series, 2, series.lasts_s + 500)
    assert times == sorted(times)
    assert (times[-2:], counts[-2:]) == ([series.lasts_s, series.lasts_s + 500], [2, 2])
    assert counts[:-2] == list(series.waiting)
    assert "before the first start (to the end, for jobs that never began)" in Seen(text).text


@pytest.mark.parametrize("name", ["fifo", "lxgpu a-policy-with-a-very-long-name-of-its-own.yaml"])
def test_the_words_below_a_plot_are_not_cut(name):
    """The words below the bars of lost work lie within the picture, however long the names of the runs."""
    from matplotlib.textpath import TextPath  # noqa: PLC0415 -- with the optional part only

    label = "GPU-hours; at the bar: share of what was asked for"
    svg = plots.bars({name: 3.0}, label=label, text=str)
    wide = float(re.search(r'viewBox="0 0 ([0-9.]+)', svg)[1])
    middle = float(re.search(rf'text-anchor: middle[^>]*? x="([0-9.]+)"[^>]*>{label}<', svg)[1])
    half = TextPath((0, 0), label, size=10).get_extents().width / 2
    assert 0 <= middle - half < middle + half <= wide


def test_policies_are_called_by_their_files_where_that_tells_them_apart():
    """Policies are called by their files' own names where that tells them apart, else as they were typed."""
    one = _runs()[0].outcome
    named = [replace(one, rule="lxgpu", policy=policy) for policy in ("site/old.yaml", "site/new.yaml", "old/new.yaml")]
    assert short_names(named[:2]) == ["lxgpu old.yaml", "lxgpu new.yaml"]
    assert short_names(named[1:]) == ["lxgpu site/new.yaml", "lxgpu old/new.yaml"]


def _light(colour):
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("colour", plots.COLOURS)
def test_lines_stand_out_from_the_paper(colour):
    """Lines stand out from white by 3 to 1 (WCAG 2.1, 1.4.11), and no two are the same."""
    assert 1.05 / (_light(colour) + 0.05) >= 3
    assert plots.COLOURS.count(colour) == 1


def test_words_stand_out_from_the_paper():
    """Words stand out from white by 4.5 to 1 (WCAG 2.1, 1.4.3), those that are coloured too."""
    style = (shipped("templates") / "simulate" / "page.html.j2").read_text(encoding="utf-8").partition("</style>")[0]
    colours = set(re.findall(r"(?:--ink|--soft|[{ ]color): (#[0-9a-f]{6})", style))
    assert len(colours) == 4
    assert [colour for colour in colours if 1.05 / (_light(colour) + 0.05) < 4.5] == []
