"""What is over: assignments that were closed, newest first, and what people used of late in them. Pure.

A table to which one more end is added hands on what is known of it, so that an end costs no look at all the others.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from lxgpu.model.assignment import Assignment
from lxgpu.policy.lookup import failed_by_reservation, past_by_instance
from lxgpu.policy.tables import Groups, Key, once

Past = tuple[Assignment, ...]
Times = tuple[datetime, datetime]
_Used = tuple[datetime, float]
"""Decayed GPU-seconds as of an instant."""
_Key = tuple[str, float]
"""An instance and a half-life in seconds."""
_NOTHING: Mapping[_Key, _Used | None] = {}


def with_end(past: Past, row: Assignment) -> Past:
    """The table with one more assignment that is over, later than all the others."""
    after = (row, *past)
    for groups in (past_by_instance, failed_by_reservation):
        groups.remember(after, _with_row(groups, past, row))
    past_use.remember(after, past_use(past).with_end(row, past_by_instance(after)))
    return after


def _with_row(groups: Groups[Assignment, Key], past: Past, row: Assignment) -> Mapping[Key, Sequence[Assignment]]:
    found, key = groups(past), groups.key(row)
    if key is None:
        return found
    return {key: (row, *found.get(key, ())), **{one: rows for one, rows in found.items() if one != key}}


class PastUse:
    """What each instance used that is over, decayed: added up once, as of its own newest end."""

    def __init__(self, rows: Mapping[str, Sequence[Assignment]], known: Mapping[_Key, _Used | None] = _NOTHING) -> None:
        """`rows` are all by instance, the newest first; `known` is what was added up of them already."""
        self._rows, self._known = rows, dict(known)

    def with_end(self, row: Assignment, rows: Mapping[str, Sequence[Assignment]]) -> PastUse:
        """The use of a table with one more row, of which `rows` are all by instance."""
        mine = {key: _added(used, row, key[1]) for key, used in self._known.items() if key[0] == row.instance}
        return PastUse(rows, {**self._known, **mine})

    def decayed(self, name: str, half_life_s: float, now: datetime) -> float:
        """Decayed GPU-seconds of an instance, as of now."""
        key = (name, half_life_s)
        if key not in self._known:
            used: _Used | None = None
            for row in reversed(self._rows.get(name, ())):
                used = _added(used, row, half_life_s)
            self._known[key] = used
        known = self._known[key]
        if known is None:
            return 0.0
        newest, used_s = known
        # A clock that is behind has ends ahead of it: what is to come was not used yet.
        return used_s * half_power(now - newest, half_life_s) if newest <= now else self._until(name, half_life_s, now)

    def _until(self, name: str, half_life_s: float, now: datetime) -> float:
        times = (time for row in self._rows.get(name, ()) if (time := time_of(row)) is not None and time[0] < now)
        left = ((now - min(end, now), now - start) for start, end in times)
        halves = (
            half_power(since_end, half_life_s) - half_power(since_start, half_life_s) for since_end, since_start in left
        )
        return sum(halves) * half_life_s / math.log(2)


def _added(used: _Used | None, row: Assignment, half_life_s: float) -> _Used | None:
    """The use with that of one more assignment, as of the later end of both."""
    time = time_of(row)
    if time is None:
        return used
    start, end = time
    newest = end if used is None else max(end, used[0])
    more = (half_power(newest - end, half_life_s) - half_power(newest - start, half_life_s)) * half_life_s / math.log(2)
    return newest, more if used is None else used[1] * half_power(newest - used[0], half_life_s) + more


def half_power(since: timedelta, half_life_s: float) -> float:
    """What is left after a time of what is halved in each half-life."""
    return float(0.5 ** (since.total_seconds() / half_life_s))


def time_of(row: Assignment) -> Times | None:
    """From when until when a card was had; what is not known is not held against anybody."""
    if row.since is None or row.closed_at is None or row.closed_at <= row.since:
        return None
    return row.since, row.closed_at


@once
def past_use(past: Past) -> PastUse:
    """The use that is over, of a table of closed assignments."""
    return PastUse(past_by_instance(past))
