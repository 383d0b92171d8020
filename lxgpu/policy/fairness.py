"""What people have used of late, so that those who used little come first when many wait. Pure.

A GPU-second that was used one half-life ago counts half. Unknown beginnings count nothing: what is not known is not
held against anybody.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import chain

from lxgpu.model.assignment import Assignment, AssignmentState
from lxgpu.model.quota import Policy
from lxgpu.model.rules import DAY
from lxgpu.model.snapshot import Snapshot
from lxgpu.policy.lookup import names_with_past, past_by_instance
from lxgpu.policy.tables import once
from lxgpu.policy.tally import tally

Times = tuple[datetime, datetime]

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
    return sum(max(0.0, (end - max(start, since)).total_seconds()) for start, end in times)


def decayed_use(snapshot: Snapshot, person: str) -> float:
    """GPU-seconds that a person had, halved for each half-life that went by since they were used."""
    half_life, now = snapshot.policy.rules.bookings.half_life_s, snapshot.now

    def left(at: datetime) -> float:
        return float(0.5 ** ((now - at).total_seconds() / half_life))

    past = past_use(snapshot.past)
    names = names_with_past(snapshot.past, snapshot.records.instances, person)
    before = sum(past.at_newest(name, half_life) for name in names)
    has = sum(1.0 - left(start) for start, _ in _has(snapshot, person))
    return before * (left(past.newest) if before else 0.0) + has * half_life / math.log(2)


class PastUse:
    """What each instance used that is over; decay is the same for all of it, so that it is added up once."""

    def __init__(self, past: tuple[Assignment, ...]) -> None:
        self.rows = past_by_instance(past)
        self.newest = max((row.closed_at for row in past if row.closed_at), default=datetime.min.replace(tzinfo=UTC))
        self._known: dict[tuple[str, float], float] = {}

    def at_newest(self, name: str, half_life_s: float) -> float:
        """Decayed GPU-seconds of an instance, as of the newest end in the table."""
        key = (name, half_life_s)
        if key not in self._known:
            spans = (span for row in self.rows.get(name, ()) if (span := _time(row)) is not None)
            decayed = sum(self._left(end, half_life_s) - self._left(start, half_life_s) for start, end in spans)
            self._known[key] = decayed * half_life_s / math.log(2)
        return self._known[key]

    def _left(self, at: datetime, half_life_s: float) -> float:
        return float(0.5 ** ((self.newest - at).total_seconds() / half_life_s))


past_use = once(PastUse)
"""The use that is over, of a table of closed assignments."""


def _had_before(snapshot: Snapshot, person: str) -> Iterator[Times]:
    """From when until when a person had each card that is given back, at most until now."""
    rows = past_by_instance(snapshot.past)
    for name in names_with_past(snapshot.past, snapshot.records.instances, person):
        for row in rows[name]:
            time = _time(row)
            if time is not None and (end := min(time[1], snapshot.now)) > time[0]:
                yield time[0], end


def _has(snapshot: Snapshot, person: str) -> Iterator[Times]:
    """Since when a person has each card that is theirs now; a slot in quarantine is nobody's."""
    for row in tally(snapshot.records).live.get(person, ()):
        if row.since is not None and row.state is not AssignmentState.QUARANTINED and row.since < snapshot.now:
            yield row.since, snapshot.now


def _time(row: Assignment) -> Times | None:
    if row.since is None or row.closed_at is None or row.closed_at <= row.since:
        return None
    return row.since, row.closed_at
