"""`ps`, `top` and `report`: their JSON, what people see, and a screen that comes and goes."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import time
from datetime import UTC, timedelta

import pytest
from fakes.site import make_site, newcomer
from json_shapes import SHAPES, faults

from lxgpu.cli.forecast import forecast_columns
from lxgpu.cli.ps import process_columns, process_rows, silent
from lxgpu.cli.render import Output
from lxgpu.cli.report import report_columns
from lxgpu.cli.screen import Screen
from lxgpu.cli.top import bar
from lxgpu.model.rules import IdleRules
from lxgpu.services import looking, observe
from lxgpu.services.foresight import ScoreView
from lxgpu.services.sampling import take_samples
from lxgpu.services.usage import Ground, UsageView, WasteView
from lxgpu.services.usagebook import book


@pytest.fixture
def site(tmp_path):
    """Alice works on her card, a process of the host on another one, and a third does not tell."""
    made = make_site(tmp_path, gpus=3)
    newcomer(made, "alice", gpus=1)
    uuid = made.inventory.read().held_by("alice")[0].slot.gpu
    mine = next(gpu for gpu in made.engine.cards if gpu.uuid == uuid)
    free = [gpu for gpu in made.engine.cards if gpu.uuid != uuid]
    made.probe.run(made.engine.init("alice"), mine.nodes, memory_bytes=2**30)
    made.probe.run(None, free[0].nodes)
    made.probe.unlisted.add(free[1].uuid)
    return made


def look(site):
    """One look."""
    return looking.look(site.engine, site.probe, site.inventory.read(), host=site.host, at=site.clock.now())


def written(capsys, noun, items, columns, form="json"):
    """What a command writes."""
    Output(Screen(), form=form).items(noun, items, columns)
    out = capsys.readouterr().out
    return json.loads(out) if form == "json" else out


def check(document, noun, number):
    """The envelope, and exactly the promised keys in each item."""
    assert list(document) == ["schema", "items"]
    assert document["schema"] == f"lxgpu.{noun}/v1"
    assert len(document["items"]) == number
    assert [text for item in document["items"] for text in faults(noun, item)] == []
    assert all(set(item) == set(SHAPES[noun]) for item in document["items"])


def test_processes_in_json(site, capsys):
    """A process of the host has no container: null, in JSON; what is not known is null too."""
    rows = process_rows(look(site))
    document = written(capsys, "processes", rows, process_columns([], form="json"))
    check(document, "processes", 2)
    assert {item["instance"] for item in document["items"]} == {"alice", None}


def test_people_see_that_a_process_is_nobodys(site, capsys):
    """The host's own are called foreign."""
    uuids = [gpu.uuid for gpu in site.engine.cards]
    text = written(capsys, "processes", process_rows(look(site)), process_columns(uuids, form="table"), form="table")
    assert "foreign" in text
    assert "alice" in text


def test_a_card_that_lists_none_is_named(site):
    """Not known is not none."""
    assert silent(look(site)) == tuple(site.probe.unlisted)


def test_report_in_json(site, capsys):
    """For each user and the total, whatever there is to count."""
    for _ in range(3):
        take_samples(site, observe.look(site, readings=True), site.inventory.read())
        site.clock.sleep(60)
    now = site.clock.now()
    since = now - timedelta(days=1)
    ground = Ground(
        records=site.inventory.read(),
        past=site.inventory.closed_since(since),
        samples=site.inventory.samples(since=since),
        reservations=site.inventory.reservations_since(since),
        events=site.inventory.events(since=since),
        rules=IdleRules(),
        groups_of=lambda _: (),
    )
    uuid = site.inventory.read().held_by("alice")[0].slot.gpu
    for by, number in (("user", 2), ("group", 2), ("gpu", 2)):
        rows = book(ground, since=since, now=now, zone=UTC).rows(by)
        check(written(capsys, "report", rows, report_columns(by)), "report", number)
        (line, *_) = written(capsys, "report", rows, report_columns(by, rows), form="table").splitlines()[1:]
        assert line.split()[0] == {"user": "alice", "group": "(no", "gpu": uuid[:12].rstrip("-")}[by]


def test_scores_of_the_forecast(capsys):
    """Numbers in JSON; a time ahead and short scores for people."""
    rows = (ScoreView("comes back", 3600, 900, 80, 0.0529, 0.07734, 0.0716, proven=True),)
    check(written(capsys, "forecasts", rows, forecast_columns()), "forecasts", 1)
    head, line = written(capsys, "forecasts", rows, forecast_columns(), form="table").splitlines()
    assert head.split() == ["WHAT", "WITHIN", "ASKED", "CAME", "FORECAST", "SAME", "USUAL", "PROVEN"]
    assert line.split() == ["comes", "back", "1h", "900", "80", "0.0529", "0.0773", "0.0716", "yes"]


def test_who_wastes_most_is_said_once(capsys):
    """A person's own container is in the row already; another one of theirs is named."""
    wasted = (WasteView("alice", 3.0), WasteView("alice-big", 1.0))
    alone = UsageView("user", "bob", 1.0, 0.0, 1.0, 0.0, wasted=(WasteView("bob", 1.0),))
    rows = (UsageView("user", "alice", 4.0, 0.0, 4.0, 0.0, wasted=wasted), alone)
    _, first, second = written(capsys, "report", rows, report_columns("user", rows), form="table").splitlines()
    assert first.endswith("alice-big 1.0h")
    assert "alice 3.0h" not in first
    assert second.endswith("-")
    total = (UsageView("total", "all", 5.0, 0.0, 5.0, 0.0, wasted=wasted),)
    assert "alice 3.0h" in written(capsys, "report", total, report_columns("user", total), form="table")


@pytest.mark.parametrize(("percent", "drawn"), [(0, "....."), (50, "##..."), (100, "#####"), (101, "#####")])
def test_a_bar(percent, drawn):
    """As long as the share, and never longer than its place."""
    assert bar(percent, width=5) == drawn


def environment(folder):
    """Where there is neither LXD nor an inventory."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("LXGPU_", "LXD_", "INCUS_"))}
    return {
        **kept,
        "LXD_DIR": str(folder / "lxd"),
        "LXGPU_STATE_DIR": str(folder / "state"),
        "LXGPU_RUN_DIR": str(folder / "run"),
        "LXGPU_POLICY": str(folder / "policy.yaml"),
        "PYTHONPATH": os.pathsep.join(sys.path),
        "TERM": "xterm",
    }


@pytest.mark.parametrize(
    ("words", "noun", "number"),
    [
        (["ps"], "processes", 0),
        (["top"], "gpus", 0),
        (["report"], "report", 1),
        (["report", "--forecast"], "forecasts", 0),
    ],
)
def test_a_machine_without_anything(tmp_path, words, noun, number):
    """No LXD, no inventory, no policy: an empty list, and nothing is made."""
    argv = [sys.executable, "-m", "lxgpu", *words, "-o", "json"]
    ran = subprocess.run(argv, env=environment(tmp_path), capture_output=True, text=True, check=False, timeout=60)
    assert ran.returncode == 0, ran.stderr
    check(json.loads(ran.stdout), noun, number)
    assert not (tmp_path / "state").exists()


def read_until(handle, text, limit_s=20):
    """What a terminal shows until a text appears in it."""
    ends, seen = time.monotonic() + limit_s, b""
    while text not in seen and time.monotonic() < ends:
        if select.select([handle], [], [], 0.2)[0]:
            try:
                seen += os.read(handle, 4096)
            except OSError:  # the other side has closed
                break
    return seen


@pytest.mark.parametrize("key", [b"q", b"\x03"], ids=["q", "Ctrl-C"])
def test_top_on_a_terminal_ends_with_a_key(tmp_path, key):
    """It draws on a screen of its own, and leaves the terminal as it was."""
    ours, theirs = pty.openpty()
    argv = ["setsid", "--ctty", sys.executable, "-m", "lxgpu", "top", "--every", "30s"]
    with subprocess.Popen(
        argv,
        env=environment(tmp_path),
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.DEVNULL,
    ) as process:
        os.close(theirs)
        assert b"q ends" in read_until(ours, b"q ends")
        os.write(ours, key)
        assert process.wait(timeout=60) == 0
    assert b"\x1b[?1049l" in read_until(ours, b"\x1b[?1049l", limit_s=2)
    os.close(ours)
