"""All benchmarks, in a lab of their own; ratios to results.json and results.md.

usage: python -m benchmarks [PART …]     (root; takes minutes)
parts: deciding starting create cards move tick listing batch inside
"""

from __future__ import annotations

import os
import sys

from benchmarks import cards, containers, deciding, inside, watching
from benchmarks.measure import HERE, LXGPU, Result, lab_environment, run, write_results

PARTS = ("deciding", "starting", "create", "cards", "move", "tick", "listing", "batch", "inside")


def main(wanted: list[str]) -> None:
    """Measure what is wanted."""
    results: list[Result] = []
    if "deciding" in wanted:
        results += [*deciding.one_request(), *deciding.whole_pass()]
    if set(wanted) - {"deciding"}:
        results += in_a_lab(wanted)
    write_results(results, HERE / "results.json")


def in_a_lab(wanted: list[str]) -> list[Result]:
    """The parts that need containers; the lab is always taken down."""
    name = f"bench{os.getpid()}"
    env = lab_environment(name, gpus=8)
    results: list[Result] = []
    try:
        if "starting" in wanted:
            results.append(containers.starting())
        if "create" in wanted:
            results.append(containers.create(env, runs=7))
        if "cards" in wanted:
            results.append(cards.attach_release(env))
        if "move" in wanted:
            results.append(watching.move(env))
        if "tick" in wanted:
            results.append(watching.tick(env))
        if "listing" in wanted:
            results.append(containers.listing(env))
        if "batch" in wanted:
            results.append(containers.batch(env))
        if "inside" in wanted:
            results.extend(inside.loops(env))
    finally:
        run(*LXGPU, "lab", "down", "--name", name)
    return results


if __name__ == "__main__":
    main(sys.argv[1:] or list(PARTS))
