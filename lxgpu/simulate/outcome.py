"""What came out of one run: the figures of a rule on a workload, and what cannot be known left unknown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, inf

from lxgpu.simulate.floor import Floor
from lxgpu.simulate.jobs import Job

_ROUNDED = 1e-9
"""A product such as 0.95 x 60 may come out so much too large, or a little less."""
NO_GROUP = "(no group)"
"""What jobs count under whose input names no group."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """An item of `lxgpu.simulations/v1`. Times are seconds, work is GPU-seconds; None is unknown, never 0.

    `policy` is the file that lxgpu ran by, as it was named. `jobs` counts those that were simulated; `left_out` those
    that are larger than the lab and were not. Waits are from the submission to the first start and count those jobs
    that started, `mean_jct_s` (from the submission to the end) those that ended; `never_started` says how many waits
    are missing, `never_started_why` how many of these for which reason (a code of `never`). `utilization` is the share
    of the lab's GPU-seconds, from the first submission to the last end, in which work was done that was not lost;
    `effective_use` is the same up to the last submission, while all who will ever wait are there or to come. Of
    holders' work `holder_slowdown` is how much longer it took, from when they wanted it, as a share.
    Deadlines, and what is said of holders and borrowers, is None where there are none.
    """

    rule: str
    policy: str | None
    jobs: int
    never_started: int
    never_started_why: dict[str, int]
    left_out: int
    utilization: float | None
    effective_use: float | None
    mean_wait_s: float | None
    median_wait_s: float | None
    p95_wait_s: float | None
    wait_by_group: dict[str, float | None]
    mean_jct_s: float | None
    preemptions: int
    lost_gpu_s: float
    deadline_misses: int | None
    false_reclaims: int | None
    idle_reclaimed_gpu_s: float | None
    borrowed_gpu_s: float | None
    holder_slowdown: float | None
    wall_s: float
    events: int

    @property
    def name(self) -> str:
        """What the run is called where several stand side by side."""
        return f"{self.rule} {self.policy}" if self.policy else self.rule


def group_of(job: Job) -> str:
    """The group that a job counts under."""
    return job.group or NO_GROUP


def outcome(
    floor: Floor, *, rule: str, policy: str | None, left_out: int, wall_s: float, never: Mapping[str, int]
) -> Outcome:
    """The figures of a floor on which everything has come to its end; `never` from `never.reasons`."""
    waits = waits_of(floor)
    by_group: dict[str, list[float]] = {group: [] for group in sorted({group_of(job) for job in floor.jobs})}
    for job, wait in zip(floor.jobs, waits, strict=True):
        if wait is not None:
            by_group[group_of(job)].append(wait)
    known = sorted(wait for wait in waits if wait is not None)
    ends = [end - job.submit_s for job, end in zip(floor.jobs, floor.finish, strict=True) if end is not None]
    holders = any(job.bursts for job in floor.jobs)
    return Outcome(
        rule=rule,
        policy=policy,
        jobs=len(floor.jobs),
        never_started=len(waits) - len(known),
        never_started_why=dict(never),
        left_out=left_out,
        utilization=_utilization(floor),
        effective_use=floor.effective,
        mean_wait_s=mean(known),
        median_wait_s=quantile(known, 0.5),
        p95_wait_s=rank(known, 0.95),
        wait_by_group={group: mean(some) for group, some in by_group.items()},
        mean_jct_s=mean(ends),
        preemptions=sum(floor.stops),
        lost_gpu_s=floor.lost_gpu_s,
        deadline_misses=_misses(floor),
        false_reclaims=floor.false_reclaims if holders else None,
        idle_reclaimed_gpu_s=floor.reclaimed_gpu_s if holders else None,
        borrowed_gpu_s=floor.borrowed_gpu_s,
        holder_slowdown=floor.held_up_gpu_s / floor.holders_gpu_s if floor.holders_gpu_s else None,
        wall_s=wall_s,
        events=floor.events,
    )


def waits_of(floor: Floor) -> list[float | None]:
    """Of each job how long it waited for its first start; None if it never did."""
    return [
        None if start is None else start - job.submit_s
        for job, start in zip(floor.jobs, floor.first_start, strict=True)
    ]


def mean(values: Sequence[float]) -> float | None:
    """The mean, or None of nothing."""
    return sum(values) / len(values) if values else None


def quantile(ordered: Sequence[float], share: float) -> float | None:
    """The value that so large a share of ordered values does not exceed, with a straight line between two of them."""
    if not ordered:
        return None
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def rank(ordered: Sequence[float], share: float) -> float | None:
    """The least of ordered values that at least so large a share of them does not exceed (nearest rank)."""
    return ordered[max(ceil(share * len(ordered) - _ROUNDED), 1) - 1] if ordered else None


def span_of(floor: Floor) -> tuple[float, float]:
    """From the first submission to the last thing that happened to a job, be it only the submission of one.

    A rule's own wake-ups do not count: the same work would look worse under a rule that looks again and again.
    """
    submitted = [job.submit_s for job in floor.jobs]
    return min(submitted, default=0.0), max(floor.last_s, *submitted, 0.0)


def _utilization(floor: Floor) -> float | None:
    begin, end = span_of(floor)
    room = (end - begin) * floor.lab.cards
    return (floor.delivered_gpu_s - floor.lost_gpu_s) / room if room > 0 else None


def _misses(floor: Floor) -> int | None:
    dated: Iterable[tuple[float, float | None]] = (
        (job.deadline_s, end) for job, end in zip(floor.jobs, floor.finish, strict=True) if job.deadline_s is not None
    )
    late = [(inf if end is None else end) > deadline for deadline, end in dated]
    return sum(late) if late else None
