"""Results in the form that was asked for: tables, lines, documents.

A command gets an `Output` (by `params.output`) and hands it its result; what format was asked for is no concern of
the command. Without a terminal nothing is coloured, folded or cut off.
"""

from __future__ import annotations

import sys

from lxgpu.cli.screen import tame

TYPE_CHECKING = False  # importing `typing` would cost as much as Python's own start
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime
    from typing import Any

    from lxgpu.cli.screen import Screen
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
            for name in dict.fromkeys(columns[0].cell(row) for row in rows):
                self.screen.data(name)
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
        from lxgpu.cli.documents import json_text, yaml_text  # noqa: PLC0415 -- not for --help
        from lxgpu.plain import plain  # noqa: PLC0415

        document: dict[str, object] = {"schema": f"lxgpu.{noun}/v1", "items": plain(rows)}
        if error is not None:
            from lxgpu.cli.failure import error_object, with_fix  # noqa: PLC0415

            document["error"] = plain(error_object(with_fix(error, ())))
        self.screen.document_written = True
        self.screen.data(yaml_text(document) if self.form == "yaml" else json_text(document))

    def _csv(self, rows: list[object], columns: Sequence[Column]) -> None:
        from lxgpu.cli.documents import csv_text  # noqa: PLC0415 -- on request only
        from lxgpu.cli.plain import cell  # noqa: PLC0415

        lines = [[cell(column.of(row), unknown="") for column in columns] for row in rows]
        if written := csv_text([*([[column.key for column in columns]] if self.header else []), *lines]):
            self.screen.data(written)

    def _table(self, rows: list[object], columns: Sequence[Column], *, title: str, empty: str) -> None:
        shown = [column for column in columns if self.form == "wide" or not column.wide]
        cells = [[column.cell(row) for column in shown] for row in rows]
        if title and self.header:
            self.screen.data(tame(title))
        if not rows:
            if empty:
                self.screen.note(empty)
            return
        from lxgpu.cli.table import foldable, folded, lines, stacked  # noqa: PLC0415

        names = [column.header for column in shown]
        headers = names if self.header else []
        if sys.stdout.isatty():
            from shutil import get_terminal_size  # noqa: PLC0415 -- for terminals only

            colored, wide = self.screen.colored(sys.stdout), get_terminal_size().columns
            if foldable([headers, *cells] if headers else cells, wide=wide):
                self.screen.data(folded(headers, cells, colored=colored))
                return
            found = stacked(names, cells, wide=wide, header=self.header)
            if headers and colored:
                found[0] = f"\x1b[1m{found[0]}\x1b[0m"
            self.screen.data("\n".join(found))
            return
        self.screen.data("\n".join(lines([headers, *cells] if headers else cells)))


_ANSWERS = {"waiting": "not now", "granted_after_preemption": "granted, others yield"}
"""What a decision is called for people: only `reserve` waits."""

PLAN_COLUMNS = (
    Column("DO", "do"),
    Column("CONTAINER", "instance"),
    Column("GPU", "gpu"),
    Column("AT", "at"),
    Column("WHY", "why"),
)
