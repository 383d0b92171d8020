"""What people have used of late, so that those who used little come first when many wait. Pure.

A GPU-second that was used one half-life ago counts half. Sums are exact, so that they do not depend on an order.
Unknown beginnings count nothing: what is not known is not held against anybody.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from itertools import chain

from lxgpu.model.assignment import AssignmentState
from lxgpu.model.quota import Policy
from lxgpu.model.rules import DAY
from lxgpu.model.snapshot import Snapshot
from lxgpu.policy.lookup import instances_everywhere, names_with_past, past_by_instance
from lxgpu.policy.past import Times, half_power, past_use, time_of
from lxgpu.policy.tally import live_of

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
    times = chain(_had_before(snapshot, person), _has(snapshot, person))
    return math.fsum(max(0.0, (end - max(start, since)).total_seconds()) for start, end in times)


def decayed_use(snapshot: Snapshot, person: str) -> float:
    """GPU-seconds that a person had, halved for each half-life that went by since they were used."""
    half_life, now = snapshot.policy.rules.bookings.half_life_s, snapshot.now
    past = past_use(snapshot.past)
    names = names_with_past(snapshot.past, instances_everywhere(snapshot.records), person)
    before = math.fsum(past.decayed(name, half_life, now) for name in names)
    since = Counter(start for start, _ in _has(snapshot, person))  # cards that were attached together
    has = math.fsum(cards * (1.0 - half_power(now - start, half_life)) for start, cards in since.items())
    return before + has * half_life / math.log(2)


def _had_before(snapshot: Snapshot, person: str) -> Iterator[Times]:
    """From when until when a person had each card that is given back, at most until now."""
    rows = past_by_instance(snapshot.past)
    for name in names_with_past(snapshot.past, instances_everywhere(snapshot.records), person):
        for row in rows[name]:
            time = time_of(row)
            if time is not None and (end := min(time[1], snapshot.now)) > time[0]:
                yield time[0], end


def _has(snapshot: Snapshot, person: str) -> Iterator[Times]:
    """Since when a person has each card that is theirs now; a slot in quarantine is nobody's."""
    for row in live_of(snapshot.records, person):
        if row.since is not None and row.state is not AssignmentState.QUARANTINED and row.since < snapshot.now:
            yield row.since, snapshot.now
