"""What comes to its end: bookings that are over or that nobody came to, starts given up, claims that die; pure."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from lxgpu.model.assignment import AssignmentState
from lxgpu.model.instance import InstanceState
from lxgpu.model.reservation import Kind, Reservation, ReservationState
from lxgpu.policy import words
from lxgpu.policy.desk import Desk, Taking
from lxgpu.policy.lookup import at_work

_LOSING = frozenset({InstanceState.SUSPENDED, InstanceState.DELETING, InstanceState.TRASHED})


def close_over(desk: Desk) -> None:
    """Everything whose time has come, in the order of ids."""
    for row in desk.mine():
        reason = _forfeited(desk, row)
        if reason:
            end(desk, row, ReservationState.CANCELLED, reason)
        elif row.state is ReservationState.ACTIVE:
            _running(desk, row)
        elif row.kind is Kind.RETURN:
            _claim(desk, row)
        else:
            _awaited(desk, row)


def end(desk: Desk, row: Reservation, state: ReservationState, outcome: str) -> None:
    """Close a reservation, with the promises made for it."""
    for promise in desk.planned(row.id):
        desk.drop(promise)
    desk.put(replace(row, state=state, closed_at=desk.now, outcome=outcome))
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


def _running(desk: Desk, row: Reservation) -> None:
    held = [item for item in desk.live(row.id) if item.state is not AssignmentState.QUARANTINED]
    if row.until is not None and row.until <= desk.now:
        end(desk, row, ReservationState.FINISHED, "its time is over")
    elif not held:
        end(desk, row, ReservationState.FINISHED, "given back")
    elif row.used_at is None and row.id in desk.given.shows:
        desk.put(replace(row, used_at=desk.now))
    elif row.used_at is None:
        _missed(desk, row)
    elif len(held) < row.gpus:
        desk.put(replace(row, gpus=len(held)))
        desk.note("shrunk", row.instance, detail={"reservation": row.id, "gpus": len(held), "were": row.gpus})
    if row.until is not None:
        desk.look_again(row.until)


def _missed(desk: Desk, row: Reservation) -> None:
    """A booking that nobody came to: its cards go back."""
    limit = timedelta(seconds=desk.given.policy.rules.bookings.no_show_s)
    if row.start is None or row.start + limit > desk.now:
        desk.look_again(None if row.start is None else row.start + limit)
        return
    held = [item for item in desk.live(row.id) if item.state is AssignmentState.ACTIVE]
    if not held or busy(desk, row.instance):
        return
    end(desk, row, ReservationState.MISSED, "nobody came")
    no_show = desk.given.policy.rules.bookings.no_show_s
    desk.tell("booking_missed", row.instance, about=row.id, facts={**words.booking(row), "no_show": no_show})
    for item in held:
        desk.put(replace(item, state=AssignmentState.RELEASING, outcome="no_show"))
    slots = tuple(item.slot for item in held)
    desk.takings.append(Taking(row.instance, slots, "no_show", "no_show", row.class_name, row.id))


def _claim(desk: Desk, row: Reservation) -> None:
    if row.dies is not None and row.dies <= desk.now:
        end(desk, row, ReservationState.CANCELLED, "the claim's time is over")
        facts = {"number": row.gpus, "model": row.pool, "why": "no fitting cards came free in time"}
        desk.tell("claim_died", row.instance, about=row.id, facts=facts)
    desk.look_again(row.dies)


def _awaited(desk: Desk, row: Reservation) -> None:
    """A start that could not be kept is given up after a while; what has been got until then goes on as a lease."""
    if row.start is None or row.state is ReservationState.WAITING:
        return
    limit = row.start + timedelta(seconds=desk.given.policy.rules.bookings.give_up_after_s)
    if limit > desk.now:
        desk.look_again(limit)
        return
    end(desk, row, ReservationState.FAILED, "its cards could not be had in time")
    why, then = "its cards could not be had in time", "book again; lxgpu reservations --calendar shows what is free"
    desk.tell("booking_failed", row.instance, about=row.id, facts={**words.booking(row), "why": why, "next": then})


def busy(desk: Desk, instance: str) -> bool:
    """Whether an operation is under way on an instance, so that no other can begin."""
    begun = {item.instance for item in desk.takings} | {item.instance for item in desk.givings}
    return instance in begun or instance in at_work(desk.given.records.operations)
