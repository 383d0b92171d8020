"""What people have used of late, so that those who used little come first when many wait. Pure.

A GPU-second that was used one half-life ago counts half. Unknown beginnings count nothing: what is not known is not
held against anybody.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

from lxgpu.model.assignment import Assignment, AssignmentState
from lxgpu.model.instance import Instance
from lxgpu.model.snapshot import Snapshot
from lxgpu.policy.admission import entitlement
from lxgpu.policy.lookup import owners_by_instance
from lxgpu.policy.tables import once


def owners(snapshot: Snapshot) -> Mapping[str, str]:
    """Who owns which instance, by name; those that are gone belonged to the person of their own name."""
    return _owners(snapshot.records.instances)


@once
def _owners(rows: tuple[Instance, ...]) -> Mapping[str, str]:
    return _Owners(owners_by_instance(rows))


class _Owners(dict[str, str]):
    def __missing__(self, instance: str) -> str:
        return instance


def used_s(snapshot: Snapshot, person: str, since: datetime) -> float:
    """GPU-seconds that a person had from an instant until now."""
    owner = owners(snapshot)
    spans = (span for row, *span in _had(snapshot) if owner[row.instance] == person)
    return sum(max(0.0, (end - max(start, since)).total_seconds()) for start, end in spans)


def decayed_use(snapshot: Snapshot) -> dict[str, float]:
    """GPU-seconds by person, halved for each half-life that went by since they were used."""
    half_life = snapshot.policy.rules.bookings.half_life_s
    owner, use = owners(snapshot), defaultdict[str, float](float)
    for row, start, end in _had(snapshot):
        begun, ended = ((snapshot.now - at).total_seconds() / half_life for at in (start, end))
        use[owner[row.instance]] += (0.5**ended - 0.5**begun) * half_life / math.log(2)
    return dict(use)


def share(snapshot: Snapshot) -> dict[str, float]:
    """Decayed GPU-seconds over weight, by person; somebody who is not in it has used nothing."""
    return {person: use / weight(snapshot, person) for person, use in decayed_use(snapshot).items()}


def weight(snapshot: Snapshot, person: str) -> float:
    """What a person's use is divided by; no weight at all comes last."""
    return max(entitlement(snapshot, person).weight, 1e-9)


def _had(snapshot: Snapshot) -> Iterator[tuple[Assignment, datetime, datetime]]:
    """Each card that somebody had, from when until when, at most until now; a slot in quarantine is nobody's."""
    now = snapshot.now
    for row in (*snapshot.past, *snapshot.records.assignments):
        if row.since is None or row.state is AssignmentState.QUARANTINED or not (row.live or row.closed_at):
            continue
        end = min(row.closed_at or now, now)
        if end - row.since > timedelta():
            yield row, row.since, end
