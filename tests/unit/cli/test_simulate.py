"""`lxgpu simulate`, run as people run it, on a small lab of its own."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from inventory_rows import assignment, card, instance, person
from json_shapes import SHAPES, faults

from lxgpu.cli import pagefile
from lxgpu.cli.simulating import COLUMNS
from lxgpu.inventory.store import open_inventory
from lxgpu.model.assignment import AssignmentState
from lxgpu.simulate.rules import RULES
from lxgpu.simulate.synthetic import MODELS

ROOT = Path(__file__).resolve().parents[3]

JOBS = """\
job_id,group,gpus,submit_s,duration_s
a,vision,2,0,7200
b,vision,1,60,3600
c,speech,1,120,1800
d,speech,5,180,60
e,speech,2,240,600
"""
LAB = ("--servers", "1", "--gpus-per-server", "2")


@pytest.fixture
def trace(tmp_path):
    """Five jobs, one of them larger than a lab of two cards."""
    path = tmp_path / "jobs.csv"
    path.write_text(JOBS, encoding="utf-8")
    return str(path)


def test_each_rule_is_an_item_with_exactly_the_fields_that_are_promised(lxgpu, trace):
    """Each rule is an item with exactly the fields that are promised, and its waits are those worked out by hand."""
    ran = lxgpu("simulate", trace, *LAB, "--rule", "fifo", "--rule", "sjf", "-o", "json")
    assert ran.returncode == 0, ran.stderr
    document = json.loads(ran.stdout)
    assert document["schema"] == "lxgpu.simulations/v1"
    assert [text for item in document["items"] for text in faults("simulations", item)] == []
    first, second = document["items"]
    assert (first["rule"], first["policy"], first["jobs"], first["left_out"]) == ("fifo", None, 4, 1)
    assert first["mean_wait_s"] == (0 + 7140 + 7080 + 10560) / 4
    assert second["mean_wait_s"] == (0 + 7740 + 7680 + 6960) / 4
    assert first["wait_by_group"] == {"speech": (7080 + 10560) / 2, "vision": 7140 / 2}
    assert first["deadline_misses"] is None
    assert "warning: 1 job is larger than the lab of 2 GPUs and left out" in ran.stderr


def test_a_trace_may_come_in(lxgpu, trace):
    """As `-`, with the figures of the same file."""
    said = ("--rule", "fifo", "-o", "json")
    words = [sys.executable, "-m", "lxgpu", "simulate", "-", *LAB, *said]
    came = subprocess.run(words, input=JOBS, capture_output=True, text=True, check=True, cwd=ROOT)
    of_file = json.loads(lxgpu("simulate", trace, *LAB, *said).stdout)["items"][0]
    (item,) = json.loads(came.stdout)["items"]
    assert {**item, "wall_s": 0} == {**of_file, "wall_s": 0}


def test_the_same_again_gives_the_same_figures(lxgpu, trace):
    """The same again gives the same figures, but for the time it took."""
    words = ("simulate", trace, *LAB, "--rule", "fifo-skip", "-o", "json")
    one, other = (json.loads(lxgpu(*words).stdout)["items"][0] for _ in range(2))
    assert {**one, "wall_s": 0} == {**other, "wall_s": 0}


def test_people_get_a_table_and_spreadsheets_every_figure(lxgpu, trace):
    """People get a table with its title, spreadsheets every figure."""
    table = lxgpu("simulate", trace, *LAB, "--rule", "fifo")
    assert table.stdout.splitlines()[0] == "jobs.csv: 4 jobs on 1 server of 2 GPUs"
    assert table.stdout.splitlines()[1].split()[:4] == ["RULE", "POLICY", "JOBS", "USE"]
    assert "speech 2h27m, vision 59m" in table.stdout
    rows = list(csv.DictReader(io.StringIO(lxgpu("simulate", trace, *LAB, "--rule", "fifo", "-o", "csv").stdout)))
    assert rows[0]["mean_wait_s"] == "6195.0"
    assert rows[0]["deadline_misses"] == ""
    assert rows[0]["left_out"] == "1"


def test_a_run_tells_when_it_begins_and_ends_unless_quiet(lxgpu, trace):
    """A run tells when it begins and ends, on stderr, unless quiet."""
    words = ("simulate", trace, *LAB, "--rule", "fifo", "--rule", "sjf")
    assert [line.partition(" (")[0] for line in lxgpu(*words).stderr.splitlines()[1:5]] == [
        "fifo: 4 jobs",
        "[1/2] fifo: done",
        "sjf: 4 jobs",
        "[2/2] sjf: done",
    ]
    assert lxgpu("-q", *words).stderr.splitlines() == ["warning: 1 job is larger than the lab of 2 GPUs and left out"]


def test_on_a_terminal_a_bar_grows(on_terminal, tmp_path):
    """On a terminal a bar grows while the jobs come in; it is drawn eight times a second, so there are many jobs."""
    path = tmp_path / "many.csv"
    path.write_text(JOBS.splitlines()[0] + "\n" + "".join(f"j{at},g,1,{at},1\n" for at in range(120_000)), "utf-8")
    status, text = on_terminal(["-m", "lxgpu", "simulate", str(path), *LAB, "--rule", "fifo", "--rule", "sjf"])
    assert status == 0
    assert re.search(r"(fifo|sjf) +\[#+\.*\] [1-9]\d* % of 120,000 jobs", text)


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        (
            ["--rule", "fif", *LAB],
            [
                "error[usage] --rule: there is no rule 'fif'",
                "why: the rules are fifo, ",
                "fix: did you mean --rule fifo?",
            ],
        ),
        (
            ["--rule", "fifo", "--servers", "2"],
            [
                "error[usage] the lab has no size: --gpus-per-server is missing",
                "why: what is simulated says what was asked for, not on how many cards",
                "fix: add --gpus-per-server N",
            ],
        ),
        (
            ["--rule", "fifo"],
            [
                "error[usage] the lab has no size: --servers and --gpus-per-server are missing",
                "why: what is simulated says what was asked for, not on how many cards",
                "fix: add --servers N --gpus-per-server N",
            ],
        ),
        (
            ["--servers", "1000", "--gpus-per-server", "1001"],
            [
                "error[usage] the lab is too large: 1,000 x 1,001 cards",
                "why: 1,000,000 cards are the most that can be simulated",
                "fix: name smaller --servers or --gpus-per-server",
            ],
        ),
        (
            ["--policy", "p" * 300, *LAB],
            [f"error[bad_file] {'p' * 300} cannot be read", "why: File name too long", "fix: "],
        ),
        (
            ["--policy", "nowhere.yaml", *LAB],
            ["error[bad_file] there is no policy file nowhere.yaml", "why: ", "fix: "],
        ),
    ],
)
def test_what_is_typed_wrong_is_told_with_its_remedy(lxgpu, trace, words, lines):
    """What is typed wrong is told with its remedy, and nothing is run."""
    ran = lxgpu("simulate", trace, *words)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert [line[: len(start)] for line, start in zip(ran.stderr.splitlines(), lines, strict=True)] == lines


def test_a_file_that_is_not_there_is_told(lxgpu, tmp_path):
    """A file that is not there is told."""
    ran = lxgpu("simulate", str(tmp_path / "none.csv"), *LAB)
    assert ran.returncode == 2
    assert ran.stderr.splitlines()[0] == f"error[bad_file] {tmp_path}/none.csv cannot be read"


def test_tab_offers_the_rules(lxgpu):
    """TAB offers the rules."""
    words = {"COMP_WORDS": "lxgpu simulate --rule fi", "COMP_CWORD": "3", "_LXGPU_COMPLETE": "bash_complete"}
    assert lxgpu(env=words).stdout.split() == ["plain,fifo", "plain,fifo-skip", "plain,fifo-borrow"]


def test_a_page_is_written_besides(lxgpu, trace, tmp_path):
    """With --html a page is written besides the result, and where is told."""
    page = tmp_path / "out.html"
    ran = lxgpu("simulate", trace, *LAB, "--rule", "fifo", "--rule", "sjf", "--html", str(page), "-o", "json")
    assert ran.returncode == 0, ran.stderr
    assert len(json.loads(ran.stdout)["items"]) == 2
    assert f"page: {page}" in ran.stderr
    text = page.read_text(encoding="utf-8")
    assert text.startswith("<!DOCTYPE html>")
    assert "jobs.csv: fifo, sjf" in text


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("", "it is a folder"),
        ("none/out.html", "there is no folder {}/none"),
        ("jobs.csv/out.html", "there is no folder"),
        ("x" * 300, "File name too long"),
        ("pipe", "it is no regular file"),
        ("null", "it is a link to /dev/null"),
        ("link", "it is a link to old.html"),
    ],
)
def test_a_page_that_cannot_be_written_is_told_before_the_runs(lxgpu, trace, tmp_path, place, why):
    """A page that cannot be written is told before the runs: no link is followed, and nobody waits for a pipe."""
    (tmp_path / "old.html").write_text("old", encoding="utf-8")
    (tmp_path / "link").symlink_to("old.html")
    (tmp_path / "null").symlink_to("/dev/null")
    os.mkfifo(tmp_path / "pipe")
    ran = lxgpu("simulate", trace, *LAB, "--rule", "fifo", "--html", str(tmp_path / place))
    assert (ran.returncode, ran.stdout) == (2, "")
    first, reason, fix = ran.stderr.splitlines()
    assert first == f"error[usage] --html: {tmp_path / place} cannot be written"
    assert reason.startswith(f"why: {why.format(tmp_path)}")
    assert fix == "fix: name another file, or - for stdout"
    assert (tmp_path / "old.html").read_text(encoding="utf-8") == "old"


def test_a_device_is_no_place_for_a_page(lxgpu, trace):
    """It is no file, so that nothing may take its place."""
    ran = lxgpu("simulate", trace, *LAB, "--rule", "fifo", "--html", "/dev/null")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "why: it is no regular file" in ran.stderr


def test_a_page_may_be_what_standard_output_gets(lxgpu, trace, tmp_path):
    """In place of the table; with -o there are two things for one place, which is refused before the runs."""
    ran = lxgpu("simulate", trace, *LAB, "--rule", "fifo", "--html", "-")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("<!DOCTYPE html>")
    assert ran.stdout.rstrip().endswith("</html>")
    ran = lxgpu("simulate", trace, *LAB, "--rule", "fifo", "--html", "-", "-o", "json")
    assert (ran.returncode, ran.stdout.partition('"code"')[0].strip()) == (2, '{\n  "error": {')
    assert not [path.name for path in tmp_path.iterdir() if path.name.startswith(("-", "."))]


@pytest.mark.parametrize("name", ["jobs.csv", "policy.yaml", "linked", "same", "sub/../jobs.csv"])
def test_a_page_never_replaces_what_is_read(lxgpu, trace, tmp_path, name):
    """A page never replaces the trace or a policy, whatever name of theirs it is given: nothing is run or lost."""
    policy, page = tmp_path / "policy.yaml", tmp_path / name
    policy.write_text("version: 1\ndefaults: {limit: 2}\n", encoding="utf-8")
    (tmp_path / "sub").mkdir()
    (tmp_path / "linked").symlink_to("policy.yaml")
    (tmp_path / "same").hardlink_to(trace)
    before = page.read_text(encoding="utf-8")
    ran = lxgpu("simulate", trace, *LAB, "--policy", str(policy), "--html", str(page))
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.splitlines()[0] == f"error[usage] --html: {page} cannot be written"
    assert "read here" in ran.stderr.splitlines()[1]
    assert page.read_text(encoding="utf-8") == before


def test_a_page_takes_the_place_of_an_older_one_whole(lxgpu, trace, tmp_path):
    """A page takes the place of an older one whole: owner and mode stay, and nothing lies about after."""
    (tmp_path / "pages").mkdir()
    old = tmp_path / "pages" / "old.html"
    old.write_text("old", encoding="utf-8")
    old.chmod(0o640)
    os.chown(old, 1234, 1234)
    with old.open(encoding="utf-8") as reader:
        ran = lxgpu("simulate", trace, *LAB, "--rule", "fifo", "--html", str(old))
        assert ran.returncode == 0, ran.stderr
        assert reader.read() == "old"  # who reads it meanwhile reads it to its end
    assert old.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    found = old.stat()
    assert (found.st_mode & 0o777, found.st_uid, found.st_gid) == (0o640, 1234, 1234)
    assert [path.name for path in old.parent.iterdir()] == ["old.html"]


def test_a_page_that_fails_leaves_the_older_one(tmp_path):
    """A page that fails half-way leaves the older one as it was, and nothing beside it."""
    place = tmp_path / "pages" / "out.html"
    place.parent.mkdir()
    place.write_text("old", encoding="utf-8")
    with pytest.raises(UnicodeEncodeError):
        pagefile.replace(place, "x" * 100_000 + "\udc80")
    assert place.read_text(encoding="utf-8") == "old"
    assert [path.name for path in place.parent.iterdir()] == ["out.html"]


def test_a_link_that_came_meanwhile_is_replaced_and_not_followed(tmp_path):
    """Whoever puts one there after the check gets a page in its place, and what it leads to is as it was."""
    other, place = tmp_path / "other", tmp_path / "out.html"
    other.write_text("old", encoding="utf-8")
    place.symlink_to(other)
    pagefile.replace(place, "page")
    assert not place.is_symlink()
    assert (place.read_text(encoding="utf-8"), other.read_text(encoding="utf-8")) == ("page", "old")


def test_a_page_that_fails_while_it_is_written_is_told(lxgpu, trace):
    """A page that fails while it is written is told too."""
    ran = lxgpu("simulate", trace, *LAB, "--rule", "fifo", "--html", "/proc/lxgpu.html")
    assert ran.returncode == 2
    assert "error[usage] --html: /proc/lxgpu.html cannot be written" in ran.stderr


def test_without_matplotlib_only_pages_are_missing(lxgpu, trace, tmp_path):
    """Without matplotlib all works but pages; for those it is said how to get it, before the runs."""
    (tmp_path / "matplotlib.py").write_text("raise ImportError('not here')\n", encoding="utf-8")
    without = {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    assert lxgpu("simulate", trace, *LAB, "--rule", "fifo", env=without).returncode == 0
    ran = lxgpu("simulate", trace, *LAB, "--rule", "fifo", "--html", str(tmp_path / "out.html"), env=without)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.splitlines() == [
        "error[no_plots] the page cannot be drawn: matplotlib is not installed here",
        "why: it is the optional part `plots` of lxgpu; not here",
        f"fix: {sys.executable} -m pip install matplotlib",
    ]


def test_ctrl_c_touches_nothing_and_says_so(tmp_path):
    """Ctrl-C ends a simulation with a reason that fits: there is nothing to undo, and no page is begun."""
    words = ("simulate", "--synthetic", "lab", "--servers", "400", "--html", str(tmp_path / "out.html"))
    call = [sys.executable, "-m", "lxgpu", *words]
    with subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as ran:
        assert ran.stderr.readline().startswith("lxgpu: ")  # the run has begun, and takes long
        ran.send_signal(signal.SIGINT)
        out, said = ran.communicate(timeout=60)
    assert (ran.returncode, out) == (130, "")
    assert [line for line in said.splitlines() if not line.startswith("lxgpu: ")] == [
        "error[interrupted] stopped by Ctrl-C",
        "why: nothing real was touched, and nothing is left to undo",
        "fix: where it took too long, play fewer rules, or a shorter trace",
    ]
    assert list(tmp_path.iterdir()) == []


def test_a_made_up_lab_needs_nothing_more(lxgpu):
    """A made-up lab needs nothing more, and is the same for the same seed only."""
    words = ("-q", "simulate", "--synthetic", "lab", "--rule", "fifo", "-o", "json")
    one, same, other = (json.loads(lxgpu(*words, *seed).stdout)["items"][0] for seed in ((), (), ("--seed", "1")))
    assert {**one, "wall_s": 0} == {**same, "wall_s": 0}
    assert one["mean_wait_s"] != other["mean_wait_s"]
    assert one["idle_reclaimed_gpu_s"] == 0


@pytest.mark.parametrize(
    ("words", "code", "what"),
    [
        ([], "usage", "there is nothing to simulate"),
        (["jobs.csv", "--synthetic", "lab"], "usage", "FILE and --synthetic are 2 things to simulate"),
        (["--synthetic", "lb"], "not_found", "there is no made-up lab 'lb'"),
    ],
)
def test_there_is_one_thing_to_simulate(lxgpu, words, code, what):
    """There is one thing to simulate: none, two, and one that is not there are told."""
    ran = lxgpu("simulate", *words)
    assert ran.returncode in {2, 3}
    assert ran.stdout == ""
    assert ran.stderr.startswith(f"error[{code}] {what}\n")
    assert "\nfix: " in ran.stderr


@pytest.fixture
def lived(tmp_path):
    """The variables of a lab of four cards in which alice has held two for ten hours, and bob had one before."""
    now = datetime.now(UTC)
    with open_inventory(tmp_path / "inventory.db") as inventory, inventory.write(actor="test", now=now) as tx:
        for number, name in enumerate(("alice", "bob")):
            tx.put(person(name, uid=2000 + number, ssh_port=22000 + number))
            tx.put(instance(name))
        for number in range(4):
            tx.put(card(f"GPU-{number}", pci=f"0000:0{number}:00.0"))
        for number in range(2):
            tx.put(assignment(f"a{number}", f"GPU-{number}", since=now - timedelta(hours=10)))
        over = {"state": AssignmentState.CLOSED, "closed_at": now - timedelta(hours=15)}
        tx.put(assignment("b0", "GPU-2", instance="bob", since=now - timedelta(hours=20), **over))
    (tmp_path / "policy.yaml").write_text("version: 1\ngroups: {vision: {members: [alice]}}\n", encoding="utf-8")
    return {"LXGPU_STATE_DIR": str(tmp_path), "LXGPU_POLICY": str(tmp_path / "policy.yaml")}


def test_the_labs_own_past_is_played_on_the_cards_it_has(lxgpu, lived):
    """The lab's own past is played on the cards it has, with the groups of its policy; on others if that is said."""
    words = ("simulate", "--history", "2d", "--rule", "fifo")
    ran = lxgpu(*words, "-o", "json", env=lived)
    assert ran.returncode == 0, ran.stderr
    (found,) = json.loads(ran.stdout)["items"]
    assert (found["jobs"], found["wait_by_group"], found["false_reclaims"]) == (2, {"(no group)": 0, "vision": 0}, 0)
    assert lxgpu(*words, env=lived).stdout.startswith("history: 2 jobs on 1 server of 4 GPUs\n")
    small = lxgpu(*words, "--gpus-per-server", "1", env=lived)
    assert small.stdout.startswith("history: 1 job on 1 server of 1 GPU\n")
    assert "1 job is larger than the lab of 1 GPU and left out" in small.stderr


def test_a_lab_without_a_past_says_so(lxgpu, tmp_path):
    """A lab without a past says so, and nothing is made by looking."""
    ran = lxgpu("simulate", "--history", "2d", "--rule", "fifo", env={"LXGPU_STATE_DIR": str(tmp_path / "none")})
    assert ran.returncode == 3
    assert "error[not_found] nobody held or wanted a card since" in ran.stderr
    assert not (tmp_path / "none").exists()


def test_a_rule_that_cannot_play_there_says_so_before_the_runs(lxgpu):
    """A rule that cannot play there says so before any run begins."""
    ran = lxgpu("simulate", "--synthetic", "lab", "--servers", "2", "--rule", "fifo", "--rule", "static")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("error[usage] 3 groups cannot have a server each of 2\n")


def test_policies_are_runs_of_lxgpu_side_by_side(lxgpu, trace, tmp_path):
    """Policies are runs of lxgpu side by side, after the rules that were named; what one refuses is told."""
    classes = "classes: {normal: {priority: 50}, scavenge: {priority: 10}}"
    policies = {"wide.yaml": f"defaults: {{limit: 2}}\n{classes}", "narrow.yaml": f"defaults: {{limit: 1}}\n{classes}"}
    policies["bare.yaml"] = "defaults: {limit: 2}"
    words = ["simulate", trace, *LAB, "--rule", "fifo"]
    for name, text in policies.items():
        (tmp_path / name).write_text(f"version: 1\n{text}\n", encoding="utf-8")
        words += ["--policy", str(tmp_path / name)]
    ran = lxgpu(*words, "-o", "json")
    assert ran.returncode == 0, ran.stderr
    found = [(item["rule"], item["policy"], item["never_started"]) for item in json.loads(ran.stdout)["items"]]
    named = {name: str(tmp_path / name) for name in policies}
    assert found == [
        ("fifo", None, 0),
        ("lxgpu", named["wide.yaml"], 0),
        ("lxgpu", named["narrow.yaml"], 2),
        ("lxgpu", named["bare.yaml"], 4),
    ]
    assert f"warning: {named['bare.yaml']} has no class scavenge, so jobs of it are refused" in ran.stderr
    assert f"warning: lxgpu {named['narrow.yaml']}: 2 of 4 jobs never started" in ran.stderr


def test_what_of_a_policy_is_not_as_in_the_lab_is_told(lxgpu, trace, tmp_path):
    """What of a policy is not played, or is of dates that lie in the simulated time, is told; and when that is."""
    policy = tmp_path / "dated.yaml"
    policy.write_text(
        "version: 1\nclasses: {normal: {priority: 50}, scavenge: {priority: 10}}\n"
        "defaults: {limit: 2, gpu_hours: 10/7d}\n"
        "users: {vision: {until: 2027-01-04T01:00:00Z}, ann: {until: 2026-01-01}, zoe: {until: 2028-01-01}}\n"
        "overrides:\n- {from: 2026-12-24, until: 2027-01-04T02:00:00Z, defaults: {limit: 1}}\n"
        "- {from: 2026-12-24, until: 2028-01-01, defaults: {weight: 2}}\n",
        encoding="utf-8",
    )
    ran = lxgpu("simulate", trace, *LAB, "--policy", str(policy))
    assert ran.returncode == 0, ran.stderr
    span = "the simulated time, 2027-01-04T00:00:00Z to 2027-01-04T02:00:00Z"
    assert [line for line in ran.stderr.splitlines() if line.startswith(f"warning: {policy}")] == [
        f"warning: {policy}: {text}"
        for text in (
            "gpu_hours is not simulated",
            f"users.vision: until 2027-01-04T01:00:00Z cuts {span}",
            f"users.ann: until 2026-01-01T00:00:00Z is before {span}",
            f"overrides[0]: 2026-12-24T00:00:00Z to 2027-01-04T02:00:00Z cuts {span}",
        )
    ]
    assert ran.stderr.splitlines()[-1] == "input: jobs.csv; second 0 is 2027-01-04T00:00:00Z"


def test_who_never_began_stands_in_the_plain_table(lxgpu, trace, tmp_path):
    """Who never began stands in the plain table, and a group of which nobody did is named; else there is no column."""
    policy = tmp_path / "narrow.yaml"
    classes = "classes: {normal: {priority: 50}, scavenge: {priority: 10}}"
    groups = "groups: {vision: {members: [vision], total: {limit: 0}}}"
    policy.write_text(f"version: 1\ndefaults: {{limit: 2}}\n{classes}\n{groups}\n", encoding="utf-8")
    ran = lxgpu("simulate", trace, *LAB, "--rule", "fifo", "--policy", str(policy))
    assert ran.returncode == 0, ran.stderr
    _, head, *rows = ran.stdout.splitlines()
    at = head.index("NEVER")
    assert [row[at:].split()[0] for row in rows] == ["0", "2"]
    assert rows[1].endswith(", vision never")
    assert "NEVER" not in lxgpu("simulate", trace, *LAB, "--rule", "fifo").stdout


def test_long_names_do_not_push_the_table_aside(lxgpu, tmp_path):
    """Long names of groups are shortened in the table and whole in documents."""
    path, name = tmp_path / "long.csv", "g" * 300
    path.write_text(f"{JOBS.splitlines()[0]}\na,{name},1,0,60\n", encoding="utf-8")
    assert lxgpu("simulate", str(path), *LAB, "--rule", "fifo").stdout.endswith(f"  {'g' * 23}… 0s\n")
    assert name in lxgpu("simulate", str(path), *LAB, "--rule", "fifo", "-o", "json").stdout


def test_names_command_neither_terminal_nor_browser(lxgpu, tmp_path):
    """Names of any letters make a page without a word of the library that draws it, and command no terminal."""
    path, page = tmp_path / "a\x1b[31mb.csv", tmp_path / "page.html"
    path.write_text(f"{JOBS.splitlines()[0]}\na,日本\x1b[31m\u202e,1,0,60\nb,speech,2,0,60\n", encoding="utf-8")
    words = ("simulate", str(path), *LAB, "--rule", "fifo")
    ran = lxgpu("-q", *words, "--html", str(page), env={"MPLCONFIGDIR": "/proc/none"})
    assert (ran.returncode, ran.stderr) == (0, "")
    for text in (ran.stdout, page.read_text(encoding="utf-8"), lxgpu(*words, "-o", "csv").stdout):
        assert "日本\\x1b[31m\\u202e" in text
        assert [char for char in text if not char.isprintable() and char not in "\n\t"] == []


def _documented():
    """The calls of `lxgpu simulate` in the documents, as words."""
    texts = [(ROOT / name).read_text(encoding="utf-8") for name in ("docs/simulate.md", "README.md")]
    return [line for text in texts for line in re.findall(r"^[#$] lxgpu (simulate [^#\n]+)", text, re.MULTILINE)]


@pytest.mark.parametrize("line", _documented())
def test_what_the_documents_say_can_be_typed(lxgpu, lived, tmp_path, monkeypatch, line):
    """What the documents say can be typed, with the trace that stands there and a lab of one's own."""
    monkeypatch.chdir(tmp_path)
    document = (ROOT / "docs" / "simulate.md").read_text(encoding="utf-8")
    Path("jobs.csv").write_text(re.search(r"^```csv\n(.*?)^```", document, re.DOTALL | re.MULTILINE)[1], "utf-8")
    Path("new-policy.yaml").write_text(Path("policy.yaml").read_text("utf-8") + "defaults: {limit: 4}\n", "utf-8")
    ran = lxgpu(*shlex.split(line.replace("/etc/lxgpu/", "")), env=lived)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout
    assert [name for name in re.findall(r"--html (\S+)", line) if not Path(name).stat().st_size] == []


def test_the_example_in_the_documents_shows_what_comes(lxgpu, tmp_path, monkeypatch):
    """The example in the documents shows what comes."""
    monkeypatch.chdir(tmp_path)
    document = (ROOT / "docs" / "simulate.md").read_text(encoding="utf-8")
    Path("jobs.csv").write_text(re.search(r"^```csv\n(.*?)^```", document, re.DOTALL | re.MULTILINE)[1], "utf-8")
    shown = re.search(r"^```text\n(.*?)^```", document, re.DOTALL | re.MULTILINE)[1]
    assert lxgpu(*shlex.split(_documented()[0])).stdout == shown


def test_each_figure_is_explained():
    """Each figure that is promised, and each column of the table, is explained in the documents."""
    document = (ROOT / "docs" / "simulate.md").read_text(encoding="utf-8")
    table = document.partition("## What the figures mean")[2].partition("## The page")[0]
    assert set(re.findall(r"`([a-z0-9_]+)`", table)) >= set(SHAPES["simulations"])
    assert [column.header for column in COLUMNS if not re.search(rf"\b{column.header}\b", table)] == []
    assert [rule for rule in RULES if f"| `{rule}` |" not in document] == []
    assert [name for name in MODELS if f"| `{name}` |" not in document] == []
