"""Sensible reservations, of which a test names what matters; the other rows are those of `inventory_rows`."""

from __future__ import annotations

from typing import Any

from inventory_rows import T0, at

from lxgpu.model.operation import Event
from lxgpu.model.reservation import Kind, Reservation, ReservationState


def booking(id_: str = "r1", instance: str = "bob", **fields: Any) -> Reservation:
    """Two cards for bob from minute 60 until minute 300, booked and not bound yet."""
    usual = {"owner": instance, "kind": Kind.BOOKING, "gpus": 2, "state": ReservationState.SCHEDULED}
    usual |= {"created_at": T0, "duration_s": 14400, "start": at(60), "until": at(300), "pool": "NVIDIA A100"}
    return Reservation(**{"id": id_, "instance": instance, **usual, **fields})


def request(id_: str = "q1", instance: str = "carol", **fields: Any) -> Reservation:
    """One card for carol, for four hours, when it is her turn."""
    usual = {"owner": instance, "kind": Kind.REQUEST, "gpus": 1, "state": ReservationState.WAITING}
    usual |= {"created_at": T0, "duration_s": 14400}
    return Reservation(**{"id": id_, "instance": instance, **usual, **fields})


def claim(id_: str = "c1", instance: str = "alice", cause: str = "r1", **fields: Any) -> Reservation:
    """Alice's claim to the card GPU-1 that bob's booking took."""
    usual = {"owner": instance, "kind": Kind.RETURN, "gpus": 1, "state": ReservationState.WAITING, "cause": cause}
    usual |= {"created_at": at(60), "duration_s": 7200, "prefers": "GPU-1", "pool": "NVIDIA A100", "dies": at(6000)}
    return Reservation(**{"id": id_, "instance": instance, **usual, **fields})


def displaced(subject: str = "alice", rule: str = "priority", **detail: object) -> Event:
    """Alice lost GPU-1 to bob's r1, and has the claim c1."""
    facts = {"gpus": ["GPU-1"], "reservation": "r1", "for": "bob", "claim": "c1", **detail}
    return Event(at(60), "lxgpu", "displaced", subject, rule, facts)


def warned(subject: str = "alice", rule: str = "priority", **detail: object) -> Event:
    """Alice was warned that bob's r1 takes GPU-1."""
    numbers = {"priority": 10, "against": 50, "held_s": 3600, "min_runtime_s": 1800}
    facts = {"gpus": ["GPU-1"], "reservation": "r1", "for": "bob", "why": "bob goes before", "numbers": numbers}
    return Event(at(50), "lxgpu", "warned", subject, rule, {**facts, **detail})
