"""The renderer: six formats from one list of values, and the progress display."""

from __future__ import annotations

import csv
import io
import json
import threading
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from lxgpu.cli.history import in_words
from lxgpu.cli.plain import cell, pick
from lxgpu.cli.render import Column, Output
from lxgpu.cli.screen import Screen
from lxgpu.cli.table import lines, stacked, width
from lxgpu.cli.times import Times
from lxgpu.errors import LxgpuError
from lxgpu.model.gpu import Slot
from lxgpu.model.instance import InstanceState, Limits
from lxgpu.model.plan import Plan, PlannedStep, Reason, Verdict
from lxgpu.plain import plain

AT = datetime(2027, 5, 1, 9, 0, tzinfo=timezone(timedelta(hours=8)))


@dataclass(frozen=True, slots=True)
class Thing:
    """An item with every kind of value."""

    name: str
    state: InstanceState
    limits: Limits
    since: datetime | None = None
    groups: frozenset[str] = frozenset()
    slots: tuple[Slot, ...] = ()
    note: str = ""


ALICE = Thing(
    "alice",
    InstanceState.READY,
    Limits(cpu=8, memory_bytes=2**35),
    since=AT,
    groups=frozenset({"vision", "audio"}),
    slots=(Slot("GPU-1"), Slot("GPU-2/mig-1")),
    note="数据 set, with “quotes”",
)
BOB = Thing("bob", InstanceState.SUSPENDED, Limits())
COLUMNS = (
    Column("NAME", "name"),
    Column("STATE", "state"),
    Column("MEM", "limits.memory_bytes", text=lambda size: f"{size // 2**30}GiB"),
    Column("SLOTS", "slots", text=lambda slots: ",".join(map(str, slots))),
    Column("NOTE", "note"),
    Column("CPU", "limits.cpu", wide=True),
    Column("GROUP COUNT", lambda item: len(item.groups), wide=True),
)


LOADED = "from lxgpu.cli.render import *; from lxgpu.cli.screen import *"


def written(capsys, form: str, items=(ALICE, BOB), **more) -> str:
    """What `items` writes to stdout in a format."""
    header = more.pop("header", True)
    Output(Screen(), form=form, header=header).items("things", items, COLUMNS, **more)
    return capsys.readouterr().out


def test_json_has_the_envelope_and_plain_values(capsys):
    """Times are RFC 3339 in UTC, enums values, sets sorted, tuples lists, None null."""
    document = json.loads(written(capsys, "json"))
    assert list(document) == ["schema", "items"]
    assert document["schema"] == "lxgpu.things/v1"
    assert document["items"][0] == {
        "name": "alice",
        "state": "ready",
        "limits": {"cpu": 8, "memory_bytes": 2**35, "disk_bytes": None, "processes": None},
        "since": "2027-05-01T01:00:00Z",
        "groups": ["audio", "vision"],
        "slots": [{"gpu": "GPU-1"}, {"gpu": "GPU-2/mig-1"}],
        "note": "数据 set, with “quotes”",
    }


def test_yaml_says_the_same_as_json(capsys):
    """The two machine formats carry one document."""
    assert yaml.safe_load(written(capsys, "yaml")) == json.loads(written(capsys, "json"))


def test_names_are_told_once_each(capsys):
    """`-o name` is for loops: a container that has several rows stands in it once, at its first place."""
    assert written(capsys, "name", (BOB, ALICE, BOB)) == "bob\nalice\n"


def test_an_empty_list_is_a_document_too(capsys):
    """No items is an answer, not an error."""
    assert json.loads(written(capsys, "json", ())) == {"schema": "lxgpu.things/v1", "items": []}
    assert written(capsys, "table", (), empty="no things") == ""


def test_the_note_for_an_empty_list_goes_to_stderr(capsys):
    """People learn that there is nothing; pipes get nothing."""
    Output(Screen()).items("things", (), COLUMNS, empty="no things")
    Output(Screen(quiet=True)).items("things", (), COLUMNS, empty="no things")
    assert capsys.readouterr().err == "no things\n"


def test_a_partial_failure_stands_in_the_same_document(capsys):
    """A batch of which some rows failed gives one document with items and error."""
    error = LxgpuError("partly_failed", "1 of 2 rows failed")
    document = json.loads(written(capsys, "json", (ALICE,), error=error))
    assert list(document) == ["schema", "items", "error"]
    assert document["error"]["code"] == "partly_failed"


def test_table_is_aligned_by_what_the_terminal_shows(capsys):
    """Wide characters take two columns, None is a dash, wide columns stay out."""
    assert written(capsys, "table").splitlines() == [
        "NAME   STATE      MEM    SLOTS              NOTE",
        "alice  ready      32GiB  GPU-1,GPU-2/mig-1  数据 set, with “quotes”",
        "bob    suspended  -",
    ]


def test_wide_has_every_column(capsys):
    """-o wide shows what the table leaves out."""
    assert written(capsys, "wide").splitlines()[0].endswith("CPU  GROUP COUNT")


def test_header_and_title_can_be_left_out(capsys):
    """--no-header leaves rows only."""
    assert written(capsys, "table", title="2 things").splitlines()[0] == "2 things"
    assert len(written(capsys, "table", title="2 things", header=False).splitlines()) == 2
    assert len(written(capsys, "csv", header=False).splitlines()) == 2


def test_csv_carries_values_and_not_the_texts_for_people(capsys):
    """Bytes are numbers, unknown is empty, commas are quoted, every column is there."""
    rows = list(csv.DictReader(io.StringIO(written(capsys, "csv"))))
    assert list(rows[0]) == ["name", "state", "limits_memory_bytes", "slots", "note", "limits_cpu", "group_count"]
    assert rows[0]["limits_memory_bytes"] == str(2**35)
    assert rows[0]["note"] == "数据 set, with “quotes”"
    assert (rows[1]["limits_memory_bytes"], rows[1]["limits_cpu"], rows[1]["group_count"]) == ("", "", "0")


def test_name_is_one_name_a_line(capsys):
    """-o name feeds xargs."""
    assert written(capsys, "name") == "alice\nbob\n"


def test_nothing_is_cut_off_where_there_is_no_terminal(capsys):
    """A long value stays whole in a pipe, whatever COLUMNS says."""
    long = Thing("x" * 300, InstanceState.READY, Limits(), note="y" * 300)
    text = written(capsys, "table", (long,))
    assert "x" * 300 in text
    assert "y" * 300 in text


def test_a_table_on_a_terminal_keeps_to_its_width_and_cuts_nothing(on_terminal):
    """What is too long goes on in the next line of its column."""
    program = (
        f"{LOADED}; Output(Screen()).items('t', [{{'a': 'alice', 'b': 'word' * 40}}],"
        " (Column('NAME', 'a'), Column('NOTE', 'b')))"
    )
    status, text = on_terminal(["-c", program], env={"NO_COLOR": "1"})
    assert status == 0
    assert max(map(len, text.splitlines())) <= 80
    assert text.replace("\n", "").replace(" ", "").count("word") == 40
    assert "\033[" not in text


def test_many_columns_on_a_narrow_terminal_go_on_below_their_row(on_terminal):
    """No column is folded into shreds: the first ones are a table, the rest follows by name, and `-` is left out."""
    columns = ", ".join(f"Column('COLUMN{number}', '{number}')" for number in range(12))
    item = {str(number): f"value-{number}" for number in range(12)} | {"10": None}
    program = f"{LOADED}; Output(Screen()).items('t', [{item}, {item}], ({columns}))"
    status, text = on_terminal(["-c", program], env={"NO_COLOR": "1"})
    rows = text.splitlines()
    assert status == 0
    assert max(map(len, rows)) <= 80
    assert rows[0].split() == [f"COLUMN{number}" for number in range(9)]
    assert rows[1] == rows[3]
    assert rows[2] == "    COLUMN9 value-9  COLUMN11 value-11"


WORDS = st.lists(st.text("ab-ü数", min_size=1, max_size=9), min_size=1, max_size=9).map(" ".join)


@given(cells=st.lists(st.lists(WORDS, min_size=5, max_size=5), min_size=1, max_size=4), wide=st.integers(20, 120))
def test_what_is_stacked_is_all_there(cells, wide):
    """Every value but `-` stands there whole and in its order, however narrow the terminal is."""
    found = stacked([f"C{number}" for number in range(5)], cells, wide=wide)
    assert found[0].startswith("C0")
    rest = "".join("".join(found[1:]).split())
    for text in (one.replace(" ", "") for row in cells for one in row if one != "-"):
        assert text in rest
        rest = rest[rest.index(text) + len(text) :]


def test_one_item_is_a_line_a_field_for_people_and_a_list_of_one_for_programs(capsys):
    """`show` and `ls` have the same JSON."""
    Output(Screen()).item("things", ALICE, COLUMNS[:2])
    assert capsys.readouterr().out == "NAME:   alice\nSTATE:  ready\n"
    Output(Screen(), form="json").item("things", ALICE, COLUMNS)
    assert len(json.loads(capsys.readouterr().out)["items"]) == 1


def test_a_plan_is_shown_with_its_reason_and_steps(capsys):
    """--dry-run says what, to whom, why."""
    plan = Plan(
        Verdict.GRANTED,
        reasons=(Reason("fits", "2 of 4 cards are free"),),
        steps=(PlannedStep("attach", "alice", gpu="GPU-1", why="asked for"),),
    )
    Output(Screen()).plan(plan)
    text = capsys.readouterr().out
    assert "granted: 2 of 4 cards are free" in text
    assert "attach  alice      GPU-1  -   asked for" in text
    Output(Screen(), form="json").plan(plan)
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "lxgpu.plans/v1"
    assert set(document["items"][0]) >= {"decision", "reasons", "steps", "victims", "when"}


def test_a_plan_that_time_may_cure_does_not_say_that_the_command_waits(capsys):
    """No command waits for a card, so --dry-run says "not now"; for programs the word stays."""
    plan = Plan(Verdict.WAITING, reasons=(Reason("no_capacity", "1 GPU asked for, 0 of 4 are free"),))
    Output(Screen()).plan(plan)
    assert capsys.readouterr().out == "not now: 1 GPU asked for, 0 of 4 are free\n"
    Output(Screen(), form="json").plan(plan)
    assert json.loads(capsys.readouterr().out)["items"][0]["decision"] == "waiting"


def test_a_plan_without_a_step_says_so(capsys):
    """Silence would leave it open whether anything was looked at."""
    Output(Screen()).plan(Plan(Verdict.GRANTED))
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", "nothing to do\n")


def test_history_for_people_has_times_of_the_lab_and_no_whole_fingerprints():
    """What is only for programs stays in JSON and CSV."""
    times = Times(now=AT, zone=UTC)
    detail = {"image": "ab" * 32, "until": "2027-05-01T18:00:00.118785+00:00", "why": ["held by alice", "by bob"]}
    assert in_words(detail, times) == ["image abababababab", "until 18:00", "why held by alice,by bob"]
    assert in_words({"used_bytes": 7 * 2**30, "share_bytes": None}, times) == ["used 7GiB", "share_bytes -"]


@pytest.mark.parametrize("value", [object(), datetime(2027, 5, 1), b"bytes"])  # noqa: DTZ001 -- the missing zone is the point
def test_a_value_without_a_form_is_refused(value):
    """Nothing is written by accident as its repr, and no time without its zone."""
    with pytest.raises(TypeError):
        plain({"value": [value]})


def test_paths_are_text():
    """A path is written as it is typed."""
    assert plain(Path("/etc/lxgpu")) == "/etc/lxgpu"


def test_a_dotted_path_stops_at_what_is_unknown_but_not_at_what_is_wrong():
    """None on the way is None; a wrong name is a fault."""
    assert pick({"a": None}, "a.b") is None
    with pytest.raises(KeyError):
        pick({"a": {}}, "a.b")
    with pytest.raises(AttributeError):
        pick(ALICE, "nothing")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (0, "0"),
        (True, "yes"),
        ((), "-"),
        (("a", None), "a,-"),
        ({"a": 1}, "a=1"),
        ("two\nlines", "two lines"),
    ],
)
def test_a_cell_is_one_line(value, text):
    """Zero is zero and unknown a dash."""
    assert cell(value) == text


@given(st.lists(st.lists(st.text(alphabet="abü数\u0301", max_size=9), min_size=3, max_size=3), min_size=1, max_size=5))
def test_columns_begin_at_the_same_place_in_every_row(rows):
    """Whatever the characters, each column starts where it starts in the other rows."""
    marked = [[f"<{text}>" for text in row] for row in rows]
    for column in range(3):
        starts = set()
        for line in lines(marked):
            before = line.split("<")[: column + 1]
            starts.add(width("<".join(before)))
        assert len(starts) == 1


def test_progress_is_a_line_a_step_without_a_terminal(capsys):
    """Logs tell who does what, and how it ended."""
    with Screen().steps(total=2) as steps:
        steps.of("alice")("starting")
        steps.done("alice", "ready")
        steps.failed("bob", "no card")
    said = capsys.readouterr()
    assert said.out == ""
    first, second, third = said.err.splitlines()
    assert first == "alice: starting"
    assert second.startswith("[1/2] alice: ready (")
    assert third.startswith("[2/2] bob: FAILED: no card (")


def test_quiet_has_no_progress(capsys):
    """With -q there is nothing but errors."""
    with Screen(quiet=True).steps() as steps:
        steps.say("alice", "starting")
        steps.done("alice")
    assert capsys.readouterr().err == ""


def test_progress_survives_many_threads(capsys):
    """Every worker's every line is there, whole."""
    with Screen().steps(total=8) as steps:

        def work(name: str) -> None:
            report = steps.of(name)
            for number in range(20):
                report(f"step {number}")
            steps.done(name)

        threads = [threading.Thread(target=work, args=(f"p{number}",)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 8 * 21
    assert all(line.split(": ")[0].lstrip("[0123456789/] ").startswith("p") for line in said)


def test_progress_on_a_terminal_ends_with_the_results(on_terminal):
    """The living lines go, the lines of what was done stay, and threads do not block one another."""
    program = (
        "import threading, time; from lxgpu.cli.screen import Screen\n"
        "with Screen().steps(total=4) as steps:\n"
        "    def work(name):\n"
        "        steps.say(name, 'starting'); time.sleep(0.3); steps.done(name, 'ready')\n"
        "    threads = [threading.Thread(target=work, args=(f'p{n}',)) for n in range(4)]\n"
        "    [t.start() for t in threads]; [t.join() for t in threads]\n"
    )
    status, text = on_terminal(["-c", program])
    assert status == 0
    assert "[4/4]" in text
    assert all(f"p{number}: ready" in text for number in range(4))
    assert "starting" in text


def test_times_are_utc_whatever_the_zone():
    """An aware time is written in UTC, and exactly so."""
    assert plain(datetime(2027, 1, 1, tzinfo=UTC)) == "2027-01-01T00:00:00Z"
