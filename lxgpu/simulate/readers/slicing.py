"""A small lab's part of a large trace; for the benchmarks and tests, no command of lxgpu calls this."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import accumulate

from lxgpu.errors import LxgpuError
from lxgpu.simulate.dice import Dice
from lxgpu.simulate.jobs import Job, Workload


def sliced(
    workload: Workload, *, cards: int, load: float, jobs: int, seed: int = 0, largest: int | None = None
) -> Workload:
    """So many jobs of a trace, one after the other, that ask together for the share `load` of so many cards.

    Jobs of more GPUs than `largest` (all cards, where it is not given) are left out first: where a container is on one
    host a job that is larger than that never starts. Then the trace is thinned: each job that is left is kept with the
    same chance, the share of its demand that the lab can take (`load` times `cards`, over the demand that the trace has
    on average, in cards), drawn by the seed in the order of submission. Then of all stretches of `jobs` neighbours in
    what is left, the one whose load is nearest to `load` is taken, the first of several. The load of a stretch is its
    demand over the cards' time from its first to its last submission.
    Durations, sizes, and the times between a job's submission and its deadline stay as they are; nothing is squeezed.

    Raises:
        LxgpuError: `usage`: the trace has too few jobs for that.
    """
    most = cards if largest is None else min(cards, largest)
    fitting = [job for job in workload.jobs if job.gpus <= most]
    asked = sum(job.demand_gpu_s for job in fitting)
    chance = load * cards * (fitting[-1].submit_s - fitting[0].submit_s) / asked if asked else 1.0
    dice = Dice("slice", seed)
    kept = [job for job in fitting if dice.share() < chance]
    if jobs < 2 or len(kept) < jobs:  # noqa: PLR2004 -- one job alone takes no time
        raise LxgpuError(
            "usage",
            f"{workload.name} has no {jobs} jobs for a load of {load:g} on {cards} cards",
            why=f"thinned to that load it has {len(kept)}",
            fix="ask for fewer jobs, or for a higher load",
        )
    sums = [0.0, *accumulate(job.demand_gpu_s for job in kept)]

    def off(first: int) -> float:
        time = kept[first + jobs - 1].submit_s - kept[first].submit_s
        return abs((sums[first + jobs] - sums[first]) / (cards * time) - load) if time else float("inf")

    first = min(range(len(kept) - jobs + 1), key=off)
    begin = kept[first].submit_s
    part = tuple(_moved(job, -begin) for job in kept[first : first + jobs])
    small = "" if largest is None else f" of at most {most} GPUs"
    said = f"a slice of {jobs} jobs{small}, thinned to {chance:.3f}, with load {load:g} on {cards} cards, seed {seed}"
    start = workload.start + timedelta(seconds=begin)
    return Workload(f"{workload.name} (slice)", part, "; ".join(filter(None, (workload.source, said))), start)


def _moved(job: Job, by_s: float) -> Job:
    """A job at another time, with all its times."""
    due = None if job.deadline_s is None else job.deadline_s + by_s
    bursts = tuple(replace(burst, start_s=burst.start_s + by_s) for burst in job.bursts)
    return replace(job, submit_s=job.submit_s + by_s, deadline_s=due, bursts=bursts)
