"""What the simulator costs as labs and traces grow: all of Philly, and traces that double."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log
from statistics import fmean

from benchmarks.alone import Ask, Told, told
from benchmarks.drawing import Series
from benchmarks.table import Figure

PHILLY = "philly_jobs_82k.csv"
DEEP, WIDE = (56, 8), (344, 8)
"""Servers and cards of each: on the first a queue of thousands builds up, on the second hardly any."""
MADE_UP = {"lab": (2, 8), "philly-like": (4, 8)}
"""Of which traces growth is shown, and on how many servers and cards: their load stays, while they get longer."""
SHORTEST_DAYS = 14
LENGTHS = {"fifo": 8, "fifo-skip": 8, "kueue": 8, "lxgpu": 3}
"""How many lengths each rule is measured at, each twice the one before: the dear one at fewer."""
NOISE = 1.05
"""An exponent above 1 by so much is noise of the measuring."""
Found = tuple[list[Figure], Mapping[str, Series]]


def philly(first: int) -> Found:
    """All of Philly where thousands wait, and where few do; and what memory it takes."""
    deep, wide = (told(Ask("fifo", lab, PHILLY, first=first, runs=3)) for lab in (DEEP, WIDE))
    beside = (
        f"{_rate(deep):,.0f} events/s at 56x8, {_rate(wide):,.0f} at 344x8; {deep.events:,} events, median of three"
    )
    return [
        Figure(
            "Philly, fifo: events/s at 56x8 over 344x8",
            round(_rate(deep) / _rate(wide), 3),
            "x",
            0.5,
            at_least=True,
            beside=beside,
        ),
        Figure(
            "Philly, fifo: memory",
            round(max(deep.peak_mb, wide.peak_mb)),
            "MB",
            500,
            beside=f"{deep.jobs:,} jobs, the most of the whole process",
        ),
    ], {}


def growth(first: int) -> Found:
    """CPU seconds of each rule over traces of doubling length, and the power of n log n that fits them."""
    rows, series = [], {}
    for name in MADE_UP:
        for rule, count in LENGTHS.items():
            runs = _doubled(name, rule, 2 if first else count)
            rows.append(_grown(f"growth of {rule} on {name}: power of n log n", runs))
            series[f"{rule} on {name}"] = [(found.jobs, found.events, round(found.cpu_s, 4)) for found in runs]
    return rows, {"growth": series}


def _doubled(name: str, rule: str, count: int) -> list[Told]:
    lengths = [SHORTEST_DAYS * 2**step for step in range(count)]
    return [told(Ask(rule, MADE_UP[name], made_up=name, days=days, runs=_runs(rule))) for days in lengths]


def _grown(name: str, runs: Sequence[Told]) -> Figure:
    exponent = power([(found.jobs * log(found.jobs), found.cpu_s) for found in runs])
    plain = power([(found.jobs, found.cpu_s) for found in runs])
    least, most = runs[0], runs[-1]
    beside = (
        f"{least.jobs:,} to {most.jobs:,} jobs, {least.cpu_s:.3g} to {most.cpu_s:.3g} s, "
        f"{_rate(least):,.0f} to {_rate(most):,.0f} events/s; as a power of n: {plain:.2f}"
    )
    return Figure(name, round(exponent, 3), "", NOISE, beside=beside)


def power(points: Sequence[tuple[float, float]]) -> float:
    """The exponent b of the y = a·x^b that is nearest to the points, by least squares of the logarithms."""
    logs = [(log(x), log(y)) for x, y in points]
    middle_x, middle_y = (fmean(column) for column in zip(*logs, strict=True))
    slope = sum((x - middle_x) * (y - middle_y) for x, y in logs)
    return slope / sum((x - middle_x) ** 2 for x, _ in logs)


def _runs(rule: str) -> int:
    return 1 if rule == "lxgpu" else 3


def _rate(found: Told) -> float:
    return found.events / found.cpu_s
