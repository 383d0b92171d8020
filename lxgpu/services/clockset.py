"""When somebody sets the wall clock: people's grace and the deadlines of steps run on by the clock that never jumps."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from lxgpu.model.assignment import AssignmentState
from lxgpu.model.snapshot import ClockSet
from lxgpu.services.site import Site

EVENT = "clock_set"
_LOOKED_AT = 50
"""So many of the host's newest events are looked at: the answer costs the same however long history is."""


def follow_clock(site: Site, moved_s: float) -> int:
    """Move what is due by as much as the wall clock was moved (seconds, negative: back); gives how many rows."""
    moved = timedelta(seconds=moved_s)
    with site.write() as tx:
        warned = [row for row in tx.records.assignments if row.state is AssignmentState.WARNED and row.due_at]
        waiting = [row for row in tx.records.operations if row.live and row.due_at]
        tx.put(*(replace(row, due_at=row.due_at + moved) for row in warned if row.due_at))
        tx.put(*(replace(row, due_at=row.due_at + moved) for row in waiting if row.due_at))
        site.watch.not_before = site.clock.now()  # what was seen before is of another time: idleness begins anew
        tx.event(EVENT, site.host, detail={"moved_s": round(moved_s, 1), "graces": len(warned)})
    return len(warned) + len(waiting)


def last_set(site: Site, now: datetime) -> ClockSet | None:
    """When the clock was set last, if that is less than a window of idleness ago."""
    window = timedelta(seconds=site.policy().rules.idle.window_s)
    found = site.inventory.events(subject=site.host, limit=_LOOKED_AT)
    event = next((one for one in found if one.kind == EVENT), None)
    if event is None or not event.at <= now < event.at + window:
        return None
    return ClockSet(event.at - timedelta(seconds=float(str(event.detail["moved_s"]))), event.at)
