"""When somebody sets the wall clock: people's grace and the deadlines of steps run on by the clock that never jumps."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from lxgpu.model.assignment import AssignmentState
from lxgpu.services.site import Site


def follow_clock(site: Site, moved_s: float) -> int:
    """Move what is due by as much as the wall clock was moved (seconds, negative: back); gives how many rows."""
    moved = timedelta(seconds=moved_s)
    with site.write() as tx:
        warned = [row for row in tx.records.assignments if row.state is AssignmentState.WARNED and row.due_at]
        waiting = [row for row in tx.records.operations if row.live and row.due_at]
        tx.put(*(replace(row, due_at=row.due_at + moved) for row in warned if row.due_at))
        tx.put(*(replace(row, due_at=row.due_at + moved) for row in waiting if row.due_at))
        site.watch.not_before = site.clock.now()  # what was seen before is of another time: idleness begins anew
        tx.event("clock_set", site.host, detail={"moved_s": round(moved_s, 1), "graces": len(warned)})
    return len(warned) + len(waiting)
