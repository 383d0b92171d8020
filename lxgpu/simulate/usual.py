"""The policy that lxgpu follows in a simulation to which nobody gave one: the shares of the groups, and two classes."""

from __future__ import annotations

from collections.abc import Mapping

from lxgpu.model.quota import Group, Policy, Terms, Total
from lxgpu.model.rules import DAY, HOUR, MINUTE, Allowance, BookingRules, PriorityClass, Rules
from lxgpu.simulate.jobs import Lab, Workload

USUAL = "normal"
"""The class of people at work."""
BATCH = "scavenge"
"""The class of jobs that say none: what runs in it yields, so that guarantees can be kept."""
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
