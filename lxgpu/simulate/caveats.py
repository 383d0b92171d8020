"""What of a policy means something else in virtual time than it does in the lab."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from lxgpu.instants import format_utc
from lxgpu.model.quota import Policy, Terms
from lxgpu.simulate.jobs import Workload


def caveats(workload: Workload, policy: Policy) -> Iterator[str]:
    """Each in words: bounds that are not played, and dates of the policy that lie in the simulated time."""
    terms = dict(_terms(policy))
    if any(one.gpu_hours is not None for one in terms.values()):
        yield "gpu_hours is not simulated"
    if not workload.jobs:
        return
    begin = workload.start + timedelta(seconds=workload.jobs[0].submit_s)
    end = workload.start + timedelta(seconds=max(job.submit_s + job.duration_s for job in workload.jobs))
    span = f"the simulated time, {format_utc(begin)} to {format_utc(end)}"
    for name, one in terms.items():
        if one.until is not None and one.until <= end:
            yield f"{name}: until {format_utc(one.until)} {'cuts' if one.until > begin else 'is before'} {span}"
    for number, change in enumerate(policy.overrides):
        if begin < change.start <= end or begin < change.end <= end:
            yield f"overrides[{number}]: {format_utc(change.start)} to {format_utc(change.end)} cuts {span}"


def _terms(policy: Policy) -> Iterator[tuple[str, Terms]]:
    """All levels that may say something, by where they stand in the file."""
    yield "defaults", policy.defaults
    yield from ((f"groups.{name}.each", group.each) for name, group in policy.groups.items())
    yield from ((f"users.{name}", one) for name, one in policy.users.items())
    for number, change in enumerate(policy.overrides):
        place = f"overrides[{number}]"
        yield f"{place}.defaults", change.defaults
        yield from ((f"{place}.groups.{name}.each", one.each) for name, one in change.groups.items())
        yield from ((f"{place}.users.{name}", one) for name, one in change.users.items())
