"""The simulator: is it right, how fast is it, and what do lxgpu's decisions come to beside those of others.

Each run has a process of its own, and costs are CPU seconds of one core, so that other work on the machine matters
little. What needs the public traces is left out, and that is said, where `LXGPU_TRACES` does not name their folder.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from statistics import median

from benchmarks import rival, simgrowth, simlabs
from benchmarks.alone import ACCASIM, FOLDER, Ask, Told, has, told
from benchmarks.drawing import Series
from benchmarks.table import Figure

ONE, TWELVE = "lab1x8.csv", "lab12x8.csv"
ORACLES = {"fifo": 237_725.0, "sjf": 97_578.0}
"""Mean waits on lab1x8, in seconds, as HeliosArtifact and the PAI simulator of Alibaba have them."""
RULES = ("static", "fifo", "slurm", "kueue", "lxgpu")
Found = tuple[list[Figure], Mapping[str, Series]]
"""What a part gives: rows, and what plots are made of."""


def measure(section: str, *, first: int = 0) -> Found:
    """One section: rows, each with the words that repeat it, and series. `first`: only so many jobs of each run."""
    traces, run = SECTIONS[section]
    lacking = [trace for trace in traces if not has(trace)]
    if lacking:
        sys.stderr.write(f"simulating.{section} is left out: {FOLDER} names no folder with {', '.join(lacking)}\n")
        return [], {}
    rows, series = run(first)
    return [replace(row, part=f"simulating.{section}") for row in rows], series


def oracles(first: int) -> Found:
    """Mean waits that two other simulators agree on."""
    rows = []
    for rule, known in ORACLES.items():
        found = told(Ask(rule, (1, 8), ONE, first=first))
        off = 100 * abs(found.mean_wait_s - known) / known
        beside = f"mean wait {found.mean_wait_s:,.0f} s; HeliosArtifact and PAI: {known:,.0f} s"
        rows.append(Figure(f"{rule} on lab1x8: off the oracle", round(off, 5), "%", 0.02, beside=beside))
    return rows, {}


def speed(first: int) -> Found:
    """Jobs played in a second of CPU, first come first served, beside AccaSim in the same run."""
    name = "fifo on lab12x8: jobs/s over AccaSim's"
    if not rival.installed():
        return [Figure(name, None, "x", 20, at_least=True, beside="rival not installed")], {}
    pairs = [(_rate(told(_twelve("fifo", first, runs=5))), _rate(told(_twelve(ACCASIM, first)))) for _ in range(5)]
    mine, other = (median(column) for column in zip(*pairs, strict=True))
    ratio = median(one / beside for one, beside in pairs)
    beside = f"{mine:,.0f} jobs/s; {rival.NAME}: {other:,.0f}; medians of five pairs"
    return [Figure(name, round(ratio, 1), "x", 20, at_least=True, beside=beside)], {}


def lab12x8(first: int) -> Found:
    """The rule of lxgpu beside others: who waits how long, and what it costs those who run."""
    runs = {rule: told(_twelve(rule, first)) for rule in RULES}
    ours, static = runs["lxgpu"], runs["static"]
    groups = {name: _over(ours, static, name) for name in static.wait_by_group}
    worst = max(groups, key=lambda name: groups[name])
    each = ", ".join(f"{name} {groups[name]:.2f}" for name in sorted(groups))
    rows = [
        Figure(
            "lxgpu on lab12x8: jobs/s",
            round(_rate(ours)),
            "jobs/s",
            10_000,
            at_least=True,
            beside=f"{ours.jobs:,} jobs, {ours.cpu_s:.1f} s of CPU",
        ),
        Figure(
            "lxgpu on lab12x8: mean wait over static's",
            round(ours.mean_wait_s / static.mean_wait_s, 3),
            "x",
            0.55,
            beside=f"{_hours(ours)}; static: {_hours(static)}",
        ),
        Figure("lxgpu on lab12x8: a group's wait over its static one, the worst", groups[worst], "x", 1.0, beside=each),
        Figure(
            "lxgpu on lab12x8: work lost", round(100 * ours.lost_share, 3), "%", 0.2, beside="of the work asked for"
        ),
        Figure("lxgpu on lab12x8: preemptions", ours.preemptions, "", 450),
    ]
    for name in ("slurm", "kueue"):
        rows += _beside(ours, name, runs[name])
    waits = {
        rule: [(found.mean_wait_s / 3600, *((wait or 0.0) / 3600 for wait in found.wait_by_group.values()))]
        for rule, found in runs.items()
    }
    return rows, {"waits": {"groups": [tuple(static.wait_by_group)], **waits}}


def _beside(ours: Told, name: str, other: Told) -> list[Figure]:
    """Fewer victims and less lost work at an equal or better wait, or not."""
    what = f"lxgpu on lab12x8 beside {name}:"
    return [
        Figure(
            f"{what} mean wait",
            round(ours.mean_wait_s / other.mean_wait_s, 3),
            "x",
            1.0,
            beside=f"{_hours(ours)}; {name}: {_hours(other)}",
        ),
        Figure(
            f"{what} victims",
            round(ours.preemptions / max(1, other.preemptions), 3),
            "x",
            1.0,
            beside=f"{ours.preemptions}; {name}: {other.preemptions}",
        ),
        Figure(
            f"{what} work lost",
            round(ours.lost_share / other.lost_share, 3) if other.lost_share else None,
            "x",
            1.0,
            beside=f"{100 * ours.lost_share:.3f} %; {name}: {100 * other.lost_share:.3f} %",
        ),
    ]


def _twelve(rule: str, first: int, *, runs: int = 1) -> Ask:
    return Ask(rule, (12, 8), TWELVE, first=first, runs=runs)


def _over(ours: Told, static: Told, group: str) -> float:
    mine, alone = ours.wait_by_group[group], static.wait_by_group[group]
    return round(mine / alone, 3) if mine is not None and alone else 0.0


def _rate(found: Told) -> float:
    return found.jobs / found.cpu_s


def _hours(found: Told) -> str:
    never = f" ({found.never_started} of {found.jobs:,} never started)" if found.never_started else ""
    return f"{found.mean_wait_s / 3600:.1f} h{never}"


SECTIONS: Mapping[str, tuple[tuple[str, ...], Callable[[int], Found]]] = {
    "oracles": ((ONE,), oracles),
    "speed": ((TWELVE,), speed),
    "lab12x8": ((TWELVE,), lab12x8),
    "deadlines": ((simlabs.CHRONUS,), simlabs.deadlines),
    "idle": ((), simlabs.idle),
    "lending": ((), simlabs.lending),
    "forecast": ((), simlabs.forecast),
    "philly": ((simgrowth.PHILLY,), simgrowth.philly),
    "growth": ((), simgrowth.growth),
}
"""Each part of the part, the traces that it needs, and what measures it."""
