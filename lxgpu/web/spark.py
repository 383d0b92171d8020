"""A card's use over a day as one line, drawn with attributes only: the page allows no inline style; pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

HEIGHT = 20
STEP = 4
"""Units of the drawing: so high, and so wide a value."""


@dataclass(frozen=True, slots=True)
class Spark:
    """Paths of an SVG `0 0 width HEIGHT`: the line, and the area below it; gaps where nothing is known."""

    width: int
    line: str
    area: str
    mean: float
    """Of what is known, in percent."""


def spark(percents: Sequence[float | None]) -> Spark | None:
    """The drawing; None where nothing is known."""
    known = [value for value in percents if value is not None]
    if not known:
        return None
    line, area = [], []
    for run in _runs(percents):
        points = [(at * STEP, _y(value)) for at, value in run]
        points.append((points[-1][0] + STEP, points[-1][1]))
        drawn = "L".join(f"{x} {y}" for x, y in points)
        line.append(f"M{drawn}")
        area.append(f"M{points[0][0]} {HEIGHT}L{drawn}L{points[-1][0]} {HEIGHT}Z")
    return Spark(len(percents) * STEP, "".join(line), "".join(area), sum(known) / len(known))


def _y(percent: float) -> int:
    return round((HEIGHT - 1) * (1 - min(max(percent, 0.0), 100.0) / 100))


def _runs(percents: Sequence[float | None]) -> list[list[tuple[int, float]]]:
    runs: list[list[tuple[int, float]]] = []
    before = -2
    for at, value in enumerate(percents):
        if value is None:
            continue
        if at != before + 1:
            runs.append([])
        runs[-1].append((at, value))
        before = at
    return runs
