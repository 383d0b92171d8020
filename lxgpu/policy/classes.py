"""The priority class of a name, known to the policy or not; pure."""

from __future__ import annotations

from lxgpu.model.quota import Policy
from lxgpu.model.rules import PriorityClass


def class_of(policy: Policy, class_name: str) -> PriorityClass:
    """The class of that name; one that the policy no longer has counts as the lowest, with the usual times."""
    return policy.classes.get(class_name) or PriorityClass(class_name, priority=0)
