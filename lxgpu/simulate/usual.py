"""What is usual where nobody says: for how long and in which class people ask, and under what policy."""

from __future__ import annotations

from collections.abc import Mapping

from lxgpu.model.quota import Group, Policy, Terms, Total
from lxgpu.model.rules import DAY, HOUR, MINUTE, Allowance, BookingRules, PriorityClass, Rules
from lxgpu.simulate.jobs import Job, Lab, Workload

USUAL = "normal"
"""The class of people at work."""
BATCH = "scavenge"
"""The class of batch jobs that name none, or that may wait: what runs in it yields, so that guarantees can be kept."""
CLASSES = {
    USUAL: PriorityClass(
        USUAL,
        priority=50,
        min_runtime_s=HOUR,
        preemption_threshold=80,
        max_preemptions=Allowance(2, DAY),
    ),
    BATCH: PriorityClass(BATCH, priority=10, min_runtime_s=30 * MINUTE, grace_s=MINUTE, term_wait_s=MINUTE),
}
"""As in the example of docs/policy.md."""


ASKED_MORE, ASKED_MORE_S = 1.5, 3600
"""Owners of batch jobs do not know how long it takes: they ask for half as much again, and an hour."""
DUE_MORE, DUE_MORE_S = 1.1, 600
"""Those who promised a deadline know it better: a tenth more, and ten minutes."""
PATIENT = 1.5
"""Who is due after so many times what they ask for begins in the class of batch jobs, and books ahead."""


def asked_s(job: Job, left_s: float) -> float:
    """For how long the owner of a batch job asks that runs for `left_s` more; seconds."""
    if job.deadline_s is not None:
        return left_s * DUE_MORE + DUE_MORE_S
    return job.asked_s or left_s * ASKED_MORE + ASKED_MORE_S


def class_of(job: Job, *, left_s: float, now_s: float) -> str:
    """The class that a job's owner asks in at `now_s`, when it must run for `left_s` more.

    That is the one it says; else the usual one for holders, and for those whose deadline leaves no time to run where
    one yields and to run again.
    """
    presses = job.deadline_s is not None and job.deadline_s - now_s < PATIENT * asked_s(job, left_s)
    return job.class_name or (USUAL if job.bursts or presses else BATCH)


def class_ahead(job: Job) -> str:
    """The class in which the latest start that keeps a deadline is booked."""
    return job.class_name or USUAL


def classes_of(job: Job) -> frozenset[str]:
    """All classes that a job may run in."""
    first = class_of(job, left_s=job.duration_s, now_s=job.submit_s)
    return frozenset({first} if job.deadline_s is None or job.bursts else {first, class_ahead(job)})


def usual_policy(workload: Workload, lab: Lab, guaranteed: Mapping[str, int]) -> Policy:
    """Each group is guaranteed its share, has as much weight for what is beyond, and anybody may have every card.

    Args:
        workload: whose owners are the members of their groups.
        lab: tells how many cards there are.
        guaranteed: cards of each group.
    """
    members: dict[str, dict[str, None]] = {}
    for job in workload.jobs:
        members.setdefault(job.group, {})[job.owner] = None
    groups = {name: _group(name, tuple(people), guaranteed.get(name, 0)) for name, people in members.items() if name}
    longest = 3650 * DAY
    bookings = BookingRules(horizon_s=longest, longest_s=longest, max_gpus=lab.cards, open_gpu_hours=10**9)
    return Policy(
        classes=CLASSES,
        defaults=Terms(limit=lab.cards, class_name=USUAL),
        groups=groups,
        rules=Rules(bookings=bookings),
    )


def _group(name: str, people: tuple[str, ...], guaranteed: int) -> Group:
    return Group(name, people, Total(guaranteed=guaranteed), each=Terms(weight=max(1, guaranteed) / len(people)))
