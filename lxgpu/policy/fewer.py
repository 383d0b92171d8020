"""Reservations that want fewer cards than are promised to them, since they were changed: the rest is let go; pure."""

from __future__ import annotations

from lxgpu.model.assignment import KEPT, Assignment, AssignmentState
from lxgpu.model.reservation import ReservationState
from lxgpu.policy.desk import Desk


def let_go(desk: Desk) -> None:
    """Promises beyond what is wanted, those first whose holders can still be spared, together as they were warned.

    The warning of who is spared is called off where warned ones are settled: nobody waits for their cards any more.
    """
    for row in desk.mine((ReservationState.PREPARING,)):
        planned = desk.planned(row.id)
        there = sum(item.state in KEPT for item in desk.live(row.id))
        surplus = min(len(planned), there + len(planned) - row.gpus)
        if surplus <= 0:
            continue
        for item in sorted(planned, key=lambda one: _place(desk, one))[:surplus]:
            desk.drop(item)
            desk.note("promise_lost", row.instance, rule="fewer wanted", detail={"gpu": item.slot.gpu})


def _place(desk: Desk, promise: Assignment) -> tuple[int, str, str]:
    """The order in which promises are let go: of cards that somebody still works on, on their way, free."""
    held = desk.holder(promise.slot)
    if held is None:
        return (2, "", str(promise.slot))
    return (0 if held.state is AssignmentState.WARNED else 1, held.instance, str(promise.slot))
