"""Values and options of command lines, and asking back."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import click
import pytest
from click.testing import CliRunner

from lxgpu.cli import params
from lxgpu.cli.render import Column, Output
from lxgpu.cli.screen import Screen
from lxgpu.errors import LxgpuError

NOW = datetime(2027, 5, 1, 4, 0, tzinfo=UTC)


@click.command()
@click.argument("name", type=params.NAME)
@click.option("--for", "span", type=params.DURATION)
@click.option("--memory", type=params.SIZE)
@click.option("--at", type=params.INSTANT)
@click.option("--gpus", type=params.GPUS)
@params.change
@params.output
def probe(out: Output, **values: object) -> None:
    """Show what came in."""
    out.items("values", [values], [Column("NAME", "name"), Column("GPUS", "gpus")])


def call(*words: str):
    """Run the probe with a screen as the root gives it."""
    return CliRunner().invoke(probe, list(words), obj=Screen(), catch_exceptions=False, standalone_mode=False)


def values(*words: str) -> dict[str, object]:
    """What the probe got, by way of JSON."""
    [item] = json.loads(call(*words, "-o", "json").stdout)["items"]
    return item


def test_values_arrive_parsed():
    """Durations are seconds, sizes bytes, counts numbers with or without a plus."""
    got = values("alice", "--for", "1d12h", "--memory", "64GiB", "--gpus", "+2", "--dry-run", "-y")
    assert got == {
        "name": "alice",
        "span": 129_600,
        "memory": 64 * 2**30,
        "at": None,
        "gpus": [2, True, ""],
        "dry_run": True,
        "yes": True,
    }
    assert values("alice", "--gpus", "3")["gpus"] == [3, False, ""]


@pytest.mark.parametrize(
    ("words", "code", "named"),
    [
        (("alice", "--for", "4"), "bad_time", "--for"),
        (("alice", "--memory", "64"), "bad_size", "--memory"),
        (("alice", "--at", "tomorow 9:00"), "bad_time", "--at"),
        (("alice", "--gpus", "two"), "usage", "--gpus"),
        (("alice", "--gpus=-1"), "usage", "--gpus"),
        (("Alice",), "bad_name", "NAME"),
    ],
)
def test_a_bad_value_keeps_its_code_and_names_its_option(words, code, named):
    """The parser's own words come through, with the place where the value stood."""
    with pytest.raises(LxgpuError) as caught:
        call(*words)
    assert caught.value.code == code
    assert caught.value.brief.startswith(f"{named}: ")


def test_a_time_is_read_in_the_labs_zone():
    """What `09:00` means is decided where the zone is known."""
    when = params.When("09:00").at(now=NOW, zone=ZoneInfo("Asia/Shanghai"))
    assert when == datetime(2027, 5, 1, 1, 0, tzinfo=UTC)


@pytest.mark.parametrize(("words", "first"), [((), "NAME   GPUS"), (("--no-header",), "alice  -")])
def test_no_header_takes_the_header_away(words, first):
    """The option reaches the renderer."""
    assert call("alice", *words).stdout.splitlines()[0] == first


def test_json_has_two_names():
    """--json is -o json."""
    assert call("alice", "--json").stdout == call("alice", "-o", "json").stdout


def test_yes_is_enough_to_go_on():
    """With --yes nothing is asked."""
    params.confirm("alice is deleted", yes=True, name="alice")


def test_without_a_terminal_nothing_is_asked_and_nothing_done():
    """Scripts must say --yes; the error names it."""
    program = "from lxgpu.cli import params; params.confirm('alice is deleted', yes=False, name='alice')"
    done = subprocess.run(
        [sys.executable, "-c", program + "; print('went on')"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stdout == ""
    assert "LxgpuError: not done: alice is deleted" in done.stderr


@pytest.mark.parametrize(
    ("typed", "name", "goes_on"),
    [
        (b"alice\n", "alice", True),
        (b"bob\n", "alice", False),
        (b"y\n", "alice", False),
        (b"\n", "alice", False),
        (b"y\n", "", True),
        (b"YES\n", "", True),
        (b"\n", "", False),
        (b"n\n", "", False),
        (b"\x04", "", False),
    ],
)
def test_on_a_terminal_the_answer_decides(on_terminal, typed, name, goes_on):
    """The name must be typed for what destroys; y is enough for the rest; anything else changes nothing."""
    program = (
        f"from lxgpu.cli import params; from lxgpu.errors import LxgpuError\n"
        f"try:\n    params.confirm('alice is deleted', yes=False, name={name!r}); print('went on')\n"
        f"except LxgpuError as error:\n    print(error.code, 'stopped')"
    )
    status, text = on_terminal(["-c", program], keys=typed)
    assert status == 0
    assert "alice is deleted." in text
    assert ("went on" in text) is goes_on
    assert ("confirm stopped" in text) is not goes_on
