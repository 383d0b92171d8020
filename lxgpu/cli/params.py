"""What command lines are made of: types of values, the options that many commands share, and asking back."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from datetime import datetime, tzinfo
from functools import wraps
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

import click
from click.shell_completion import CompletionItem

from lxgpu.cli.render import FORMATS, Output
from lxgpu.cli.screen import Screen
from lxgpu.errors import LxgpuError
from lxgpu.figures import quoted

LEAST_MEMORY, LEAST_DISK = 64 * 1024**2, 64 * 1024**2
LONGEST_TEXT = 500
"""Characters of a free text: reasons, notes, words that name something."""
MOST = 1_000_000_000
"""The largest number that an option takes, on either side of 0."""
P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])


class Checked(click.ParamType[Any]):
    """A value read by one of our own parsers; its error keeps its code and names the option."""

    def __init__(self, name: str, parse: Callable[[str], Any]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401, ARG002 -- click's signature
        """Parse a text; a default that is no text stays as it is."""
        if not isinstance(value, str):
            return value
        try:
            return self._parse(value)
        except LxgpuError as error:
            if param is None:
                raise
            where = param.opts[0] if param.param_type_name == "option" else param.human_readable_name
            raise LxgpuError(
                error.code, f"{where}: {error.brief}", why=error.why, fix=error.fix, details=error.details
            ) from error


class When(NamedTuple):
    """A point in time as it was typed. What it means depends on the lab's zone, which the policy file knows."""

    text: str

    def at(self, *, now: datetime, zone: tzinfo) -> datetime:
        """The instant in UTC.

        Raises:
            LxgpuError: `bad_time`: there is no such local time, or it comes twice.
        """
        from lxgpu.instants import parse_instant  # noqa: PLC0415

        return parse_instant(self.text, now=now, zone=zone)

    def ending(self, start: datetime, *, now: datetime, zone: tzinfo) -> datetime:
        """The instant in UTC as an end: a clock time alone is the first one after `start`.

        Raises:
            LxgpuError: as `at`.
        """
        from lxgpu.instants import parse_end  # noqa: PLC0415

        return parse_end(self.text, start=start, now=now, zone=zone)


class GpuCount(NamedTuple):
    """`--gpus N` (a total), `--gpus +N` (so many more), `--gpus 0.25`: one part of a card, so large at least.

    `--mig 3g.20gb` is one part as well.
    """

    number: int
    more: bool
    part: str = ""

    def of(self, model: str) -> str:
        """The pattern of a model with the part in it, as policy reads it."""
        return f"{model} {self.part}" if self.part else model


def _duration(text: str) -> int:
    from lxgpu.units import parse_duration  # noqa: PLC0415 -- when there is one to read

    seconds = 0 if text.strip(" ") == "0" else parse_duration(text)
    if seconds == 0:  # "none was given" is another thing
        why = "it would end as it begins; leave the option out where no time is meant"
        raise LxgpuError("bad_time", f"{quoted(text)} is no time at all", why=why, fix="give it a time, as 30m or 4h")
    return seconds


def _size(text: str) -> int:
    from lxgpu.units import parse_size  # noqa: PLC0415

    return parse_size(text)


def _at_least(text: str, least: int, what: str) -> int:
    size = _size(text)
    if size < least:
        fix = f"give {least // 1024**2}MiB or more"
        raise LxgpuError("usage", f"{what} of {text} is too little to start", why="systemd needs more", fix=fix)
    return size


def _when(text: str) -> When:
    from datetime import UTC  # noqa: PLC0415

    from lxgpu.instants import parse_instant  # noqa: PLC0415

    parse_instant(text, now=datetime.now(UTC), zone=UTC)  # the form; the zone's own traps are looked at later
    return When(text)


def _name(text: str) -> str:
    from lxgpu.model.names import check_name  # noqa: PLC0415

    return check_name(text)


def _known_name(text: str) -> str:
    return text if text.startswith("trash-") and _name(text.removeprefix("trash-")) else _name(text)


def _person(text: str) -> str:
    from lxgpu.model.names import check_person  # noqa: PLC0415

    return check_person(text)


_DIGITS = 8
"""A part of a card is read so exactly."""


def _gpu_count(text: str) -> GpuCount:
    digits = text.removeprefix("+")
    whole, point, part = text.partition(".")
    if point and whole in {"", "0"} and part.isascii() and part.isdigit() and 0 < float(f"0.{part}") < 1:
        return GpuCount(number=1, more=False, part=f"0.{part}"[:_DIGITS])
    if not (digits.isascii() and digits.isdigit()) or len(digits) > len(str(MOST)) or int(digits) > MOST:
        why = "2 means two in all, +1 means one more, 0.25 a quarter of one at least"
        raise LxgpuError("usage", f"{text[:40]!r} is no number of cards", why=why)
    return GpuCount(number=int(digits), more=text.startswith("+"))


def _text(text: str) -> str:
    if len(text) > LONGEST_TEXT:
        raise LxgpuError(
            "usage",
            f"the text has {len(text)} characters",
            why=f"{LONGEST_TEXT} are the most that are kept and shown",
            fix="say it in fewer words",
        )
    return text


def read_bytes(source: str) -> bytes:
    """The bytes of a file, or of standard input for `-`; error `OSError`, also for what is no regular file."""
    if source == "-":
        return sys.stdin.buffer.read()
    from lxgpu.regular import open_regular  # noqa: PLC0415 -- when there is one to read

    with open_regular(source) as file:
        return file.read()


class FilePath(click.Path):
    """A file that is there. A pipe or a device is none: it would be waited for, maybe for ever."""

    def __init__(self, *, path_type: type[Any] | None = None) -> None:
        super().__init__(exists=True, dir_okay=False, path_type=path_type)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401 -- click's signature
        """As click does it, for regular files alone."""
        import stat  # noqa: PLC0415 -- when there is one to look at

        from lxgpu.regular import NO_FILE  # noqa: PLC0415

        found = super().convert(value, param, ctx)
        if not stat.S_ISREG(os.stat(found).st_mode):  # noqa: PTH116 -- as click does
            self.fail(f"{os.fspath(found)!r}: {NO_FILE}.", param, ctx)
        return found


class InstanceName(Checked):
    """The name of a container that should exist; TAB offers those of the inventory."""

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002 -- click's signature
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list[CompletionItem]:
        """The names that begin so."""
        from lxgpu.cli.completion import instance_names  # noqa: PLC0415

        return [CompletionItem(name) for name in instance_names() if name.startswith(incomplete)]


TEXT = Checked("text", _text)
"""A free text of bounded length."""
FILE = FilePath()
"""The path of a file that is there."""
DURATION = Checked("duration", _duration)
"""`4h` → seconds, at least one."""
SIZE = Checked("size", _size)
MEMORY = Checked("size", lambda text: _at_least(text, LEAST_MEMORY, "a container's memory"))
"""Memory of a container."""
DISK = Checked("size", lambda text: _at_least(text, LEAST_DISK, "a container's disk"))
"""Disk of a container."""
"""`64GiB` → bytes."""
INSTANT = Checked("time", _when)
"""`tomorrow 09:00` → `When`."""
NAME = Checked("name", _name)
"""A name by the rule, for something new."""
PERSON = Checked("person", _person)
"""A person's name: a name, and a Linux account's."""
INSTANCE = InstanceName("name", _known_name)
"""The name of an existing container."""
GPUS = Checked("n", _gpu_count)
"""`2` or `+1` → `GpuCount`."""


class _Whole(click.IntRange):
    """A range of whole numbers that ends somewhere, though it says no end."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401 -- click's signature
        """As click does it, up to `MOST`."""
        return _bounded_int(self, super().convert(value, param, ctx), param, ctx)


class _AnyWhole(click.types.IntParamType):
    """A whole number that is not endless."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401 -- click's signature
        """As click does it, up to `MOST`."""
        return _bounded_int(self, super().convert(value, param, ctx), param, ctx)


def _bounded_int(
    kind: click.ParamType[Any], number: int, param: click.Parameter | None, ctx: click.Context | None
) -> int:
    if abs(number) > MOST:
        kind.fail(f"{number} is too large a number; {MOST} is the largest.", param, ctx)
    return number


def bound(param: click.Parameter) -> None:
    """Give a bound to a parameter that has none: texts of any length and numbers of any size."""
    if isinstance(param.type, click.IntRange):
        given = param.type
        param.type = _Whole(given.min, given.max, given.min_open, given.max_open, given.clamp)
    elif isinstance(param.type, click.types.IntParamType):
        param.type = _AnyWhole()
    elif isinstance(param.type, click.types.StringParamType):
        param.type = TEXT


def pass_screen(function: Callable[Concatenate[Screen, P], R]) -> Callable[P, R]:
    """Gives a command the `Screen` as its first argument; for commands without `-o`."""

    @wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        return function(click.get_current_context().find_root().obj, *args, **kwargs)

    return wrapped


def output(function: Callable[Concatenate[Output, P], R]) -> Callable[..., R]:
    """Adds `-o`, `--json` and `--no-header`, and gives the command an `Output` as its first argument."""

    @click.option(
        "-o",
        "--output",
        "form",
        type=click.Choice(FORMATS),
        default="table",
        show_default=True,
        help="Form of the result.",
    )
    @click.option("--json", "as_json", is_flag=True, help="The same as -o json.")
    @click.option("--no-header", is_flag=True, help="No header line in tables and CSV.")
    @wraps(function)
    def wrapped(*args: Any, form: str, as_json: bool, no_header: bool, **kwargs: Any) -> R:  # noqa: ANN401 -- the command's own
        screen: Screen = click.get_current_context().find_root().obj
        out = Output(screen, form="json" if as_json else form, header=not no_header)
        return function(out, *args, **kwargs)

    return wrapped


def dry_run(function: F) -> F:
    """Adds `--dry-run` (parameter `dry_run`)."""
    return click.option("--dry-run", is_flag=True, help="Show what would be done, and why; change nothing.")(function)


def yes(function: F) -> F:
    """Adds `-y`/`--yes` (parameter `yes`)."""
    return click.option("-y", "--yes", is_flag=True, help="Do not ask.")(function)


def change(function: F) -> F:
    """Adds what every changing command takes: `--dry-run` and `--yes`."""
    return dry_run(yes(function))


def confirm(what: str, *, yes: bool, name: str = "") -> None:
    """Ask before something is destroyed or taken; returns only if it is to be done.

    Args:
        what: what will happen, as a sentence without its stop: "alice's container is deleted".
        yes: --yes was given; nothing is asked.
        name: what to type; without it, y is enough.

    Raises:
        LxgpuError: `confirm`, when the answer is another one, or nobody can be asked.
    """
    if yes:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise LxgpuError("confirm", f"not done: {what}", why="there is no terminal to ask on", fix="add --yes")
    sys.stderr.write(f"{what}.\n" + (f"Type {name} to go on: " if name else "Go on? [y/N] "))
    sys.stderr.flush()
    answer = sys.stdin.readline().strip()
    if answer != name if name else answer.lower() not in {"y", "yes"}:
        raise LxgpuError("confirm", f"not done: {what}", why="the answer was not " + (name or "y"))
