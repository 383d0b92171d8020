"""The rows of results.json, and the table of them in results.md and docs/benchmarks.md."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RESULTS = HERE / "results.json"
DOCUMENT = HERE.parent / "docs" / "benchmarks.md"
_BLOCK = re.compile(r"(<!-- results -->\n).*?(<!-- end of results -->)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Result:
    """Ours against a named rival in the same run: medians in seconds over `runs` pairs, and their ratio."""

    name: str
    rival: str
    ours_s: float
    rival_s: float
    ratio: float
    goal: float
    runs: int
    part: str = ""

    @property
    def met(self) -> bool:
        """Whether the ratio is within the goal."""
        return self.ratio <= self.goal

    @property
    def cells(self) -> tuple[str, str, str]:
        """What was measured, its goal, and what it stands beside."""
        beside = f"{self.ours_s:.3f} s; {self.rival}: {self.rival_s:.3f} s"
        return f"{self.ratio:.2f} x", f"≤ {self.goal:g}", beside


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of the simulator; `beside` is what it was made of or is compared with.

    `value` None: it could not be measured, and `beside` says why. `goal` None: there is none.
    """

    name: str
    value: float | None
    unit: str
    goal: float | None = None
    at_least: bool = False
    beside: str = ""
    part: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the goal is reached; None where there is nothing to compare."""
        if self.value is None or self.goal is None:
            return None
        return self.value >= self.goal if self.at_least else self.value <= self.goal

    @property
    def cells(self) -> tuple[str, str, str]:
        """As of a Result."""
        goal = "" if self.goal is None else f"{'≥' if self.at_least else '≤'} {self.goal:,g}"
        measured = "not measured" if self.value is None else f"{shown(self.value)} {self.unit}".strip()
        return measured, goal, self.beside


Row = Result | Figure


def shown(value: float) -> str:
    """A number with as many places as say something."""
    places = 0 if abs(value) >= 100 or value == int(value) else 2 if abs(value) >= 1 else 4  # noqa: PLR2004 -- for eyes
    text = f"{value:,.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def known(target: Path = RESULTS) -> list[Row]:
    """What results.json holds."""
    rows: list[dict[str, Any]] = json.loads(target.read_text(encoding="utf-8")) if target.exists() else []
    return [Result(**row) if "ratio" in row else Figure(**row) for row in rows]


def merged(before: Iterable[Row], fresh: Sequence[Row]) -> list[Row]:
    """The rows that were known, each as measured last, and those that are new; of a part measured anew none is old."""
    parts = {row.part for row in fresh if isinstance(row, Figure)}
    new = {row.name: row for row in fresh}
    kept = [new.pop(row.name, row) for row in before if row.name in new or row.part not in parts]
    return [*kept, *new.values()]


def table(rows: Iterable[Row]) -> str:
    """All rows as Markdown, with how to repeat each."""
    lines = ["| what | measured | goal | | of what, beside what | repeat |", "|---|---|---|---|---|---|"]
    for row in rows:
        measured, goal, beside = row.cells
        verdict = {True: "met", False: "**missed**", None: ""}[row.met]
        cells = (row.name, measured, goal, verdict, beside, f"`{row.part}`")
        lines.append(f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |")
    return "\n".join(lines) + "\n"


def with_table(text: str, rows: Iterable[Row]) -> str:
    """The document with its table made anew."""
    return _BLOCK.sub(lambda match: f"{match[1]}{table(rows)}{match[2]}", text)


def write(rows: Sequence[Row]) -> None:
    """results.json, results.md, and the table in the documents."""
    RESULTS.write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n", encoding="utf-8")
    RESULTS.with_suffix(".md").write_text(table(rows), encoding="utf-8")
    DOCUMENT.write_text(with_table(DOCUMENT.read_text(encoding="utf-8"), rows), encoding="utf-8")
