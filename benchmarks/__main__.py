"""All benchmarks, most in a lab of their own; to results.json, results.md and docs/benchmarks.md.

usage: python -m benchmarks [--jobs N] [PART …]     (takes minutes; root, but for the first five and simulating)
parts: deciding placement page asking reporting starting create cards move tick listing batch inside simulating
simulating has parts of its own: simulating.oracles .speed .lab12x8 .deadlines .idle .lending .forecast .philly .growth
--jobs N: only the first N jobs of each simulation, to try it; nothing is written then.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace

from benchmarks import (
    asking,
    cards,
    containers,
    deciding,
    drawing,
    inside,
    paging,
    placing,
    reporting,
    simulating,
    table,
    watching,
)
from benchmarks.measure import LXGPU, lab_environment, run
from benchmarks.table import Result, Row

IN_A_LAB = ("starting", "create", "cards", "move", "tick", "listing", "batch", "inside")
PARTS = ("deciding", "placement", "page", "asking", "reporting", *IN_A_LAB, "simulating")


def main(wanted: list[str], *, first: int) -> None:
    """Measure what is wanted. What is measured is kept part by part."""
    known = {*PARTS, *(f"simulating.{section}" for section in simulating.SECTIONS)}
    if strange := [part for part in wanted if part not in known]:
        raise SystemExit(f"there is no part {', '.join(strange)}\n\n{__doc__}")
    if "deciding" in wanted:
        _keep(_of("deciding", [*deciding.one_request(), *deciding.whole_pass()]), {}, first=first)
    if "placement" in wanted:
        _keep([replace(row, part="placement") for row in placing.placement()], {}, first=first)
    if "page" in wanted:
        _keep([replace(row, part="page") for row in paging.page()], {}, first=first)
    if "asking" in wanted:
        _keep([replace(row, part="asking") for row in asking.asking()], {}, first=first)
    if "reporting" in wanted:
        _keep([replace(row, part="reporting") for row in reporting.year()], {}, first=first)
    if set(wanted) & set(IN_A_LAB):
        _keep(in_a_lab(wanted), {}, first=first)
    for section in simulating.SECTIONS:
        if {"simulating", f"simulating.{section}"} & set(wanted):
            rows, series = simulating.measure(section, first=first)
            _keep(rows, series, first=first)


def in_a_lab(wanted: list[str]) -> list[Row]:
    """The parts that need containers; the lab is always taken down."""
    name = f"bench{os.getpid()}"
    env = lab_environment(name, gpus=8)
    measures = {
        "starting": lambda: [containers.starting()],
        "create": lambda: [containers.create(env, runs=7)],
        "cards": lambda: [cards.attach_release(env)],
        "move": lambda: [watching.move(env)],
        "tick": lambda: [watching.tick(env)],
        "listing": lambda: [containers.listing(env)],
        "batch": lambda: [containers.batch(env)],
        "inside": lambda: inside.loops(env),
    }
    try:
        return [row for part in IN_A_LAB if part in wanted for row in _of(part, measures[part]())]
    finally:
        run(*LXGPU, "lab", "down", "--name", name)


def _of(part: str, results: list[Result]) -> list[Row]:
    return [replace(result, part=part) for result in results]


def _keep(rows: Sequence[Row], series: Mapping[str, drawing.Series], *, first: int) -> None:
    """Shows rows; keeps them in the files too, if they are of whole runs."""
    if not rows:
        return
    sys.stdout.write(table.table(rows))
    sys.stdout.flush()
    if not first:
        table.write(table.merged(table.known(), rows))
        drawing.write(series)


def _asked(words: list[str]) -> tuple[list[str], int]:
    """The parts, and how many jobs."""
    if "--jobs" not in words:
        return words or list(PARTS), 0
    at = words.index("--jobs")
    count = words[at + 1] if at + 1 < len(words) else ""
    if not count.isdigit():
        raise SystemExit(__doc__)
    return [*words[:at], *words[at + 2 :]] or list(PARTS), int(count)


if __name__ == "__main__":
    parts, jobs = _asked(sys.argv[1:])
    main(parts, first=jobs)
