"""What is given to a command has bounds: texts are texts and end somewhere, and so do numbers."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest

from lxgpu.cli import commands, main, params
from lxgpu.cli.group import ROOT


def commands_of(command: click.Command, way: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """A command and those below it, with the words that call them."""
    if not isinstance(command, click.Group):
        yield way, command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        below = command.get_command(context, name)
        assert below is not None
        yield from commands_of(below, (*way, name))


ALL = [("lxgpu " + " ".join(way), command) for way, command in commands_of(ROOT)]


def test_all_commands_are_looked_at() -> None:
    """The table's, and those below them."""
    assert len(ALL) > len(commands.names())


@pytest.mark.parametrize(("way", "command"), ALL, ids=[way for way, _ in ALL])
def test_no_text_and_no_number_is_without_a_bound(way: str, command: click.Command) -> None:
    """Whatever option is made later gets a bound with the others."""
    for param in command.params:
        if not param.expose_value or isinstance(param.type, click.types.UnprocessedParamType):
            continue  # where the files are; words for another program
        assert not isinstance(param.type, click.types.StringParamType), f"{way} {param.name}"
        if isinstance(param.type, click.types.IntParamType):
            with pytest.raises(click.BadParameter):
                param.type.convert("99999999999999999999", param, None)
            with pytest.raises(click.BadParameter):
                param.type.convert("9" * 5000, param, None)


@pytest.mark.parametrize(
    "words",
    [
        ("history", "--limit", "99999999999999999999"),
        ("history", "--limit", "9" * 5000),
        ("inventory", "export", "--events", "99999999999999999999"),
        ("reserve", "bob", "--gpus", "9" * 5000, "--for", "1h"),
        ("reserve", "bob", "--gpus", "99999999999", "--for", "1h"),
        ("reserve", "bob", "--gpus", "1", "--for", "9" * 5000 + "d"),
        ("reserve", "bob", "--gpus", "1", "--for", "1h", "--at", "+" + "9" * 5000 + "d"),
        ("create", "bob", "--memory", "9" * 5000 + "GiB"),
        ("reserve", "bob", "--gpus", "1", "--for", "1h", "--note", "n" * 501),
        ("reserve", "bob", "--gpus", "1", "--for", "1h", "--class", "n" * 501),
        ("keep", "bob", "--for", "1h", "--reason", "n" * 501),
        ("daemon", "pause", "--reason", "n" * 501),
        ("gpu", "close", "GPU-1", "--reason", "n" * 501),
        ("suspend", "bob", "--reason", "n" * 501),
        ("why", "n" * 501),
    ],
    ids=lambda words: " ".join(words)[:40],
)
def test_what_is_too_large_is_wrong_usage(words, tmp_path, capsys) -> None:
    """Status 2 and a next step, before anything is looked at."""
    status = main.run([*words, "--state-dir", str(tmp_path / "s"), "--run-dir", str(tmp_path / "r")])
    told = capsys.readouterr().err
    assert status == 2, told
    assert "fix: " in told
    assert not (tmp_path / "s").exists()
    assert not (tmp_path / "r").exists()


def test_the_longest_text_is_taken_as_it_is() -> None:
    """In characters, not in bytes."""
    assert params.TEXT.convert("ü" * params.LONGEST_TEXT, None, None) == "ü" * params.LONGEST_TEXT


@pytest.mark.parametrize(
    "words",
    [
        ("daemon", "pause", "--reason", "\udcff\udcfe"),
        ("reserve", "bob", "--gpus", "1", "--for", "1h", "--note", "x\udcff"),
        ("gpu", "close", "GPU-1", "--reason", "\udcff"),
        ("suspend", "bob", "--reason", "\udcff"),
        ("why", "\udcff"),
        ("ls", "\udcff"),
        ("exec", "bob", "--", "echo", "\udcff"),
        ("\udcff",),
        ("history", "--state-dir", "nowhere/\udcff"),
    ],
    ids=ascii,
)
def test_what_is_no_text_is_refused_before_anything_happens(words, tmp_path, capsys, monkeypatch) -> None:
    """Whatever command and option it is for; with JSON too."""
    for name in ("STATE_DIR", "RUN_DIR"):
        monkeypatch.setenv(f"LXGPU_{name}", str(tmp_path / name))
    assert main.run(words) == 2
    told = capsys.readouterr().err
    assert told.startswith("error[usage] a word of the command is no UTF-8 text: ")
    assert "why: " in told
    assert "fix: " in told
    assert main.run(["-o", "json", *words]) == 2
    assert '"code": "usage"' in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []
