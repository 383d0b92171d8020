"""What comes to its end: bookings that are over or that nobody came to, starts given up, claims that die; pure."""

from __future__ import annotations

from datetime import datetime, timedelta

from lxgpu.model.assignment import KEPT, AssignmentState
from lxgpu.model.changed import changed
from lxgpu.model.instance import InstanceState
from lxgpu.model.reservation import Kind, Reservation, ReservationState
from lxgpu.policy import words
from lxgpu.policy.desk import Desk
from lxgpu.policy.lookup import at_work, past_by_instance
from lxgpu.policy.noshow import give_up, judge_use

TAKEN = frozenset({"preempted", "idle", "expired"})
"""How assignments end that went to somebody else."""
_LOSING = frozenset({InstanceState.SUSPENDED, InstanceState.DELETING, InstanceState.TRASHED})


def close_over(desk: Desk, *, paused: bool = False) -> None:
    """Everything whose time has come, in the order of ids. Paused, nobody is taken to have missed their booking."""
    looked_at = (*desk.unmet(), *desk.mine((ReservationState.ACTIVE,)), *desk.claims())
    for _, row in sorted({row.id: row for row in looked_at}.items()):
        reason = _forfeited(desk, row)
        if reason:
            end(desk, row, ReservationState.CANCELLED, reason)
        elif row.state is ReservationState.ACTIVE:
            _running(desk, row, paused=paused)
        elif row.kind is Kind.RETURN:
            _claim(desk, row)


def give_up_starts(desk: Desk) -> None:
    """Starts that could not be kept are given up after a while: the last thing of a decision, when all was tried."""
    for row in desk.mine((ReservationState.SCHEDULED, ReservationState.PREPARING)):
        if row.kind is not Kind.RETURN:
            _awaited(desk, row)


def end(desk: Desk, row: Reservation, state: ReservationState, outcome: str) -> None:
    """Close a reservation, with the promises made for it."""
    for promise in desk.planned(row.id):
        desk.drop(promise)
    desk.put(changed(row, state=state, closed_at=desk.now, outcome=outcome))
    facts = {"reservation": row.id, "gpus": row.gpus, "outcome": outcome, "kind": row.kind.value}
    desk.note(state.value, row.instance, rule=row.kind.value, detail=facts)


def _forfeited(desk: Desk, row: Reservation) -> str:
    """Why a container has lost what it asked for; empty when it has not."""
    instance = desk.instance(row.instance)
    if instance is None or instance.state in _LOSING:
        return "its container is gone" if instance is None else f"its container is {instance.state.value}"
    if row.kind is Kind.RETURN and not instance.running:
        return "its container was stopped"
    return ""


def _running(desk: Desk, row: Reservation, *, paused: bool) -> None:
    held = [item for item in desk.live(row.id) if item.state is not AssignmentState.QUARANTINED]
    if row.until is not None and row.until <= desk.now:
        end(desk, row, ReservationState.FINISHED, "its time is over")
    elif not held:
        end(desk, row, ReservationState.FINISHED, _emptied(desk, row))
    elif not paused and judge_use(desk, row):
        give_up(desk, row)
    elif len(held) < row.gpus:
        desk.put(changed(desk.reservations[row.id], gpus=len(held)))
        desk.note("shrunk", row.instance, detail={"reservation": row.id, "gpus": len(held), "were": row.gpus})
    if row.until is not None:
        desk.look_again(row.until)


def _emptied(desk: Desk, row: Reservation) -> str:
    """Why a running booking has no cards any more; the newest end tells."""
    mine = past_by_instance(desk.given.past).get(row.instance, ())
    ends = (item.outcome for item in mine if item.reservation == row.id)
    return "its cards were taken" if next(ends, "") in TAKEN else "given back"


def _claim(desk: Desk, row: Reservation) -> None:
    if row.dies is not None and row.dies <= desk.now:
        end(desk, row, ReservationState.CANCELLED, "the claim's time is over")
        facts = {"number": row.gpus, "model": row.pool, "why": "no fitting cards came free in time"}
        desk.tell("claim_died", row.instance, about=row.id, facts=facts)
    desk.look_again(row.dies)


def _awaited(desk: Desk, row: Reservation) -> None:
    """What has been got until then goes on as a lease; what is free and on its way is waited for."""
    limit = last_start(desk, row)
    if limit is None or limit > desk.now:
        desk.look_again(limit)
        return
    promises = desk.planned(row.id)
    coming = [item for item in desk.live(row.id) if item.state in KEPT]
    if len(promises) + len(coming) >= row.gpus and not any(desk.holder(item.slot) for item in promises):
        return
    end(desk, row, ReservationState.FAILED, "its cards could not be had in time")
    why, then = "its cards could not be had in time", f"To ask again: gpu reserve {row.gpus} --for 4h"
    desk.tell("booking_failed", row.instance, about=row.id, facts={**words.booking(row), "why": why, "next": then})


def _waited_from(desk: Desk, start: datetime) -> datetime:
    """From when on it counts how long a start was waited for: anew when the clock was set, or a pause ended, since."""
    moved = desk.given.clock_set
    return max(at for at in (start, moved.at if moved else None, desk.given.resumed_at) if at is not None)


def last_start(desk: Desk, row: Reservation) -> datetime | None:
    """When a start that could not be kept is given up; from then on nobody is warned for it."""
    if row.start is None:
        return None
    return _waited_from(desk, row.start) + timedelta(seconds=desk.given.policy.rules.bookings.give_up_after_s)


def busy(desk: Desk, instance: str) -> bool:
    """Whether an operation is under way on an instance, so that no other can begin."""
    begun = {item.instance for item in desk.takings} | {item.instance for item in desk.givings}
    return instance in begun or instance in at_work(desk.given.records.operations)
