"""The one way to the screen: data on stdout, all else on stderr. `print` stands in this module only.

A command gets an `Output` (by `params.output`) and hands it its result; what format was asked for is no concern of
the command. Without a terminal nothing is coloured, folded or cut off.
"""

from __future__ import annotations

import os
import sys

from lxgpu.cli.streams import refused

TYPE_CHECKING = False  # importing `typing` would cost as much as Python's own start
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime
    from typing import Any, TextIO

    from lxgpu.cli.progress import Steps
    from lxgpu.errors import LxgpuError
    from lxgpu.model.plan import Plan

FORMATS = ("table", "wide", "json", "yaml", "csv", "name")


class Column:
    """One column: its header, where its value is, and how people get to see it.

    `value` is a dotted path (`limits.memory_bytes`) or a function of the item; `text` makes the table's text of the
    value (never called for None, which shows as `-`). CSV carries the value itself, under the path's name.
    `wide` columns show with `-o wide` only, and in CSV.
    """

    __slots__ = ("header", "text", "value", "wide")

    def __init__(
        self,
        header: str,
        value: str | Callable[[Any], object],
        text: Callable[..., str] | None = None,
        *,
        wide: bool = False,
    ) -> None:
        self.header = header
        self.value = value
        self.text = text
        self.wide = wide

    def of(self, item: object) -> object:
        """The value of an item."""
        from lxgpu.cli.plain import pick  # noqa: PLC0415 -- not for --help

        return pick(item, self.value) if isinstance(self.value, str) else self.value(item)

    def cell(self, item: object) -> str:
        """The text of an item's value."""
        from lxgpu.cli.plain import cell  # noqa: PLC0415

        value = self.of(item)
        return cell(value if value is None or self.text is None else self.text(value))

    @property
    def key(self) -> str:
        """The name of the column in CSV."""
        name = self.value if isinstance(self.value, str) else self.header.lower()
        return name.replace(".", "_").replace(" ", "_")


def tame(text: str) -> str:
    """The text without what could command a terminal: a container's root has a say in some of what is told."""
    if text.isprintable():
        return text
    return "".join(
        char if char in "\n\t" or char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )


def _write(text: str, stream: TextIO) -> None:
    print(text, file=stream, flush=True)


class Screen:
    """Where a run of lxgpu writes to, and how much. Made once, at the start of the command line."""

    def __init__(self, *, color: str = "auto", verbosity: int = 0, quiet: bool = False, debug: bool = False) -> None:
        self.color = color
        self.verbosity = verbosity
        self.quiet = quiet
        self.debug = debug
        self.document_written = False
        self.zone = ""  # of the times that were shown, until it was said

    def colored(self, stream: TextIO) -> bool:
        """Whether to colour what goes to a stream: --color, then NO_COLOR, FORCE_COLOR, TERM and the terminal."""
        if self.color != "auto":
            return self.color == "always"
        if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
            return False
        return bool(os.environ.get("FORCE_COLOR")) or stream.isatty()

    def data(self, text: str) -> None:
        """Write a result to stdout.

        Raises:
            OutputClosedError: nobody reads it any more.
            LxgpuError: `usage`: it cannot be written, as to a disk that is full.
        """
        try:
            _write(text, sys.stdout)
        except OSError as error:
            raise refused(error) from error

    def note(self, text: str) -> None:
        """Say something useful on stderr, unless --quiet."""
        if not self.quiet:
            _write(tame(text), sys.stderr)

    def warn(self, text: str) -> None:
        """Say something that must be seen."""
        self.alarm(f"warning: {text}", word="warning:")

    def alarm(self, text: str, *, word: str) -> None:
        """Write to stderr whatever the settings, with the leading word in bold red on a terminal."""
        text = tame(text)
        if self.colored(sys.stderr) and text.startswith(word):
            text = f"\033[1;31m{word}\033[0m{text[len(word) :]}"
        _write(text, sys.stderr)

    def steps(self, *, total: int | None = None) -> Steps:
        """A progress display; see `progress.Steps`."""
        from lxgpu.cli.progress import Steps  # noqa: PLC0415 -- for commands that take a while

        return Steps(self, total=total)


class Output:
    """Writes results in the format that was asked for."""

    def __init__(self, screen: Screen, *, form: str = "table", header: bool = True) -> None:
        self.screen = screen
        self.form = form
        self.header = header

    @property
    def structured(self) -> bool:
        """Whether a program reads this (JSON or YAML): then only `items`, `item` and `plan` write to stdout."""
        return self.form in {"json", "yaml"}

    def items(
        self,
        noun: str,
        items: Iterable[object],
        columns: Sequence[Column],
        *,
        title: str = "",
        empty: str = "",
        error: LxgpuError | None = None,
    ) -> None:
        """Write a list of dataclasses or mappings.

        Args:
            noun: plural, for the schema `lxgpu.NOUN/v1`.
            items: whole; JSON and YAML carry all their fields.
            columns: for tables and CSV; the first one is the item's name.
            title: a line above the table, such as "3 of 8 GPUs free; next at 18:00".
            empty: a note for people when there is nothing.
            error: what failed besides (a batch of which some rows failed), for JSON and YAML; raise it after.
        """
        rows = list(items)
        if self.structured:
            self._document(noun, rows, error)
        elif self.form == "csv":
            self._csv(rows, columns)
        elif self.form == "name":
            for row in rows:
                self.screen.data(columns[0].cell(row))
        else:
            self._table(rows, columns, title=title, empty=empty)
            self._say_zone()

    def item(self, noun: str, item: object, columns: Sequence[Column]) -> None:
        """Write one thing: for people one line a field; else as a list of one."""
        if self.form not in {"table", "wide"}:
            self.items(noun, [item], columns)
            return
        from lxgpu.cli.table import lines  # noqa: PLC0415 -- not for --help

        shown = [column for column in columns if self.form == "wide" or not column.wide]
        for line in lines([(f"{column.header}:", column.cell(item)) for column in shown]):
            self.screen.data(line)
        self._say_zone()

    def sheet(
        self,
        noun: str,
        item: object,
        columns: Sequence[Column],
        text: Callable[[], Sequence[tuple[str, Sequence[str]]]],
    ) -> None:
        """Write one thing at length: for people labelled lines from `text`, else as `items` writes a list of one.

        A label of `text` without lines is left out; lines with an empty label are titles and stand alone.
        """
        if self.form not in {"table", "wide"}:
            self.items(noun, [item], columns)
            return
        from lxgpu.cli.table import lines  # noqa: PLC0415 -- not for --help

        found = text()
        for title in (line for label, texts in found if not label for line in texts):
            self.screen.data(title)
        rows = [(label if not at else "", line) for label, texts in found if label for at, line in enumerate(texts)]
        for line in lines(rows):
            self.screen.data(line)
        self._say_zone()

    def plan(
        self,
        plan: Plan,
        *,
        show: Callable[[datetime], str] | None = None,
        words: Mapping[str, str] | None = None,
        error: LxgpuError | None = None,
    ) -> None:
        """Write what would be done (`--dry-run`), and in documents the `error` that the command would end with.

        `show` writes the steps' times for people; `words` names decisions otherwise than usual.
        """
        if self.structured:
            keys = ("decision", "reasons", "steps", "victims", "when")
            self.items("plans", [{key: getattr(plan, key) for key in keys}], PLAN_COLUMNS, error=error)
            return
        if people := self.form in {"table", "wide"}:
            names = {**_ANSWERS, **(words or {})}
            answer = names.get(plan.decision.value, plan.decision.value)
            for reason in plan.reasons:
                self.screen.data(f"{answer}: {reason.text}")
            if not plan.reasons and not plan.steps:
                self.screen.note("nothing to do")
            if not plan.reasons and plan.when is not None and show is not None:
                yields = f"; {', '.join(plan.victims)} must yield" if plan.victims else ""
                self.screen.data(f"{answer}: at {show(plan.when)}{yields}")
        columns = [
            Column("AT", "at", text=show) if column.header == "AT" and people else column for column in PLAN_COLUMNS
        ]
        self.items("steps", plan.steps, columns)

    def _say_zone(self) -> None:
        """Below what had times in it: whose they are; on terminals and in wide tables."""
        if self.screen.zone and self.header and (self.form == "wide" or sys.stdout.isatty()):
            self.screen.note(f"times in {self.screen.zone}")
        self.screen.zone = ""

    def _document(self, noun: str, rows: list[object], error: LxgpuError | None) -> None:
        from lxgpu.plain import plain  # noqa: PLC0415

        document: dict[str, object] = {"schema": f"lxgpu.{noun}/v1", "items": plain(rows)}
        if error is not None:
            from lxgpu.cli.failure import error_object, with_fix  # noqa: PLC0415

            document["error"] = plain(error_object(with_fix(error, ())))
        self.screen.document_written = True
        self.screen.data(yaml_text(document) if self.form == "yaml" else json_text(document))

    def _csv(self, rows: list[object], columns: Sequence[Column]) -> None:
        import csv  # noqa: PLC0415
        import io  # noqa: PLC0415

        from lxgpu.cli.plain import cell  # noqa: PLC0415

        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        if self.header:
            writer.writerow([column.key for column in columns])
        writer.writerows([cell(column.of(row), unknown="") for column in columns] for row in rows)
        if written := text.getvalue():
            self.screen.data(written.removesuffix("\n"))

    def _table(self, rows: list[object], columns: Sequence[Column], *, title: str, empty: str) -> None:
        shown = [column for column in columns if self.form == "wide" or not column.wide]
        cells = [[column.cell(row) for column in shown] for row in rows]
        if title and self.header:
            self.screen.data(tame(title))
        if not rows:
            if empty:
                self.screen.note(empty)
            return
        from lxgpu.cli.table import foldable, lines, stacked  # noqa: PLC0415

        names = [column.header for column in shown]
        headers = names if self.header else []
        if sys.stdout.isatty():
            from shutil import get_terminal_size  # noqa: PLC0415 -- for terminals only

            colored, wide = self.screen.colored(sys.stdout), get_terminal_size().columns
            if foldable([headers, *cells] if headers else cells, wide=wide):
                self.screen.data(_folded(headers, cells, colored=colored))
                return
            found = stacked(names, cells, wide=wide, header=self.header)
            if headers and colored:
                found[0] = f"\x1b[1m{found[0]}\x1b[0m"
            self.screen.data("\n".join(found))
            return
        self.screen.data("\n".join(lines([headers, *cells] if headers else cells)))


def _folded(headers: Sequence[str], cells: Sequence[Sequence[str]], *, colored: bool) -> str:
    """A table that fits the terminal: what is too long goes on in the next line of its column."""
    from rich.console import Console  # noqa: PLC0415 -- for terminals only
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=bool(headers), header_style="bold")
    for number in range(len(cells[0])):
        table.add_column(headers[number] if headers else "", overflow="fold")
    for row in cells:
        table.add_row(*(Text(text) for text in row))
    console = Console(force_terminal=colored, no_color=not colored, highlight=False)
    with console.capture() as captured:
        console.print(table)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def json_text(document: Mapping[str, object]) -> str:
    """Returns JSON, two spaces a level; non-ASCII is escaped where stdout could not carry it."""
    import json  # noqa: PLC0415 -- not for --help

    wide = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    return json.dumps(document, indent=2, ensure_ascii=not wide, allow_nan=False)


def yaml_text(document: Mapping[str, object]) -> str:
    """Returns YAML with the same content as the JSON."""
    import yaml  # noqa: PLC0415 -- on request only

    return yaml.safe_dump(dict(document), sort_keys=False, allow_unicode=True, width=10_000).rstrip("\n")


_ANSWERS = {"waiting": "not now", "granted_after_preemption": "granted, others yield"}
"""What a decision is called for people: only `reserve` waits."""

PLAN_COLUMNS = (
    Column("DO", "do"),
    Column("CONTAINER", "instance"),
    Column("GPU", "gpu"),
    Column("AT", "at"),
    Column("WHY", "why"),
)
