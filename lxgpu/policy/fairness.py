"""What people have used of late, so that those who used little come first when many wait. Pure.

A GPU-second that was used one half-life ago counts half. Unknown beginnings count nothing: what is not known is not
held against anybody.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import datetime

from lxgpu.model.assignment import AssignmentState
from lxgpu.model.quota import Policy
from lxgpu.model.rules import DAY
from lxgpu.model.snapshot import Snapshot
from lxgpu.policy.lookup import by_instance, names_of, past_by_instance

HALF_LIVES = 5
"""After so many half-lives what somebody used counts for nothing any more."""


def looks_back_s(policy: Policy) -> int:
    """How far back anything asked of the past reaches: use that still counts, GPU-hours, and how often one was hit."""
    terms = (policy.defaults, *policy.users.values(), *(group.each for group in policy.groups.values()))
    hours = [level.gpu_hours.window_s for level in terms if level.gpu_hours is not None]
    hits = [one.max_preemptions.window_s for one in policy.classes.values() if one.max_preemptions is not None]
    return max(HALF_LIVES * policy.rules.bookings.half_life_s, DAY, *hours, *hits)


def used_s(snapshot: Snapshot, person: str, since: datetime) -> float:
    """GPU-seconds that a person had from an instant until now."""
    return sum(max(0.0, (end - max(start, since)).total_seconds()) for start, end in _had(snapshot, person))


def decayed_use(snapshot: Snapshot, person: str) -> float:
    """GPU-seconds that a person had, halved for each half-life that went by since they were used."""
    half_life, now = snapshot.policy.rules.bookings.half_life_s, snapshot.now

    def left(at: datetime) -> float:
        return float(0.5 ** ((now - at).total_seconds() / half_life))

    return sum((left(end) - left(start)) * half_life / math.log(2) for start, end in _had(snapshot, person))


def _had(snapshot: Snapshot, person: str) -> Iterator[tuple[datetime, datetime]]:
    """From when until when a person had each card, at most until now; a slot in quarantine is nobody's."""
    records, now = snapshot.records, snapshot.now
    tables = past_by_instance(snapshot.past), by_instance(records.assignments)
    names = names_of(records.instances, person)
    for row in (row for table in tables for name in names for row in table.get(name, ())):
        if row.since is None or row.state is AssignmentState.QUARANTINED or not (row.live or row.closed_at):
            continue
        end = min(row.closed_at or now, now)
        if end > row.since:
            yield row.since, end
