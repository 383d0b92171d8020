"""Cards that the queue gave and that lie idle: once others wait they are a lease like any other's, not a booking; pure.

A booking ahead is for a time that somebody chose, and nothing of it is taken. Who asked for cards as soon as possible
has them to work with: those at work stay as firm, those at rest yield to who waits by the rule `idle`, and are warned.
What an admin ordered without a warning stays as it is.
"""

from __future__ import annotations

from lxgpu.model.assignment import Assignment, AssignmentState
from lxgpu.model.changed import changed
from lxgpu.model.reservation import Kind, Reservation, ReservationState
from lxgpu.model.rules import IdleWhen
from lxgpu.model.usage import NOT_JUDGED
from lxgpu.policy.closing import end
from lxgpu.policy.desk import Desk
from lxgpu.policy.placement import fits


def let_rest(desk: Desk) -> None:
    """Running bookings from the queue shrink to their cards at work, where somebody waits for cards of that model."""
    if desk.given.policy.rules.idle.when is not IdleWhen.NEEDED or not desk.given.verdicts:
        return
    for row in desk.mine((ReservationState.ACTIVE,)):
        if row.kind is Kind.BOOKING and row.asap and not (row.soft or row.no_warning):
            idle = [item for item in desk.live(row.id) if _idle(desk, item)]
            if idle and _wanted(desk, row):
                _shrink(desk, row, idle)


def _shrink(desk: Desk, row: Reservation, idle: list[Assignment]) -> None:
    for item in idle:
        desk.put(changed(item, reservation=None, until=item.until or row.until))
    left = row.gpus - len(idle)
    if left > 0:
        desk.put(changed(row, gpus=left))
        desk.note("shrunk", row.instance, rule="idle", detail={"reservation": row.id, "gpus": left, "were": row.gpus})
    else:
        end(desk, row, ReservationState.FINISHED, "its cards lie idle and others wait: they are a lease until its end")


def _idle(desk: Desk, item: Assignment) -> bool:
    if item.state is not AssignmentState.ACTIVE:
        return False
    return desk.given.verdicts.get(item.slot, NOT_JUDGED).takeable(desk.now)


def _wanted(desk: Desk, row: Reservation) -> bool:
    lanes = desk.lanes().values()
    return any(waits.instance != row.instance and fits(row.pool, waits.model) for lane in lanes for waits in lane)
