"""Leases that bookings count on while their other cards are got ready: each goes to one of them, and to nobody else."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime

from lxgpu.model.assignment import Assignment, AssignmentState
from lxgpu.model.gpu import Slot
from lxgpu.model.reservation import Reservation
from lxgpu.model.snapshot import Observation, Snapshot
from lxgpu.policy.lookup import by_instance, by_reservation, preparing_by_instance, reservations_by_id


def share_out(
    leases: Iterable[Assignment], bookings: Iterable[Reservation], *, had: Callable[[str], int], seen: Observation
) -> dict[str, list[Assignment]]:
    """Which leases of one instance each of its bookings takes over, by the bookings' ids: the oldest first.

    Args:
        leases: what it holds and works on without a booking.
        bookings: those that are got ready, and so are bound to a model.
        had: how many cards a booking has or is promised already.
        seen: tells the cards' models.
    """
    left = sorted(leases, key=lease_age)
    found = {}
    for booking in sorted(bookings, key=lambda row: (row.created_at, row.id)):
        lacks = max(0, booking.gpus - had(booking.id))
        fitting = [row for row in left if (gpu := seen.gpu(row.slot.gpu)) and gpu.model == booking.pool]
        found[booking.id] = fitting[:lacks]
        left = [row for row in left if row not in found[booking.id]]
    return found


def lease_age(row: Assignment) -> tuple[datetime, Slot]:
    """The order in which leases are taken over."""
    return (row.since or row.created_at, row.slot)


def spoken_for(snapshot: Snapshot, instance: str) -> frozenset[str]:
    """The ids of an instance's leases that its own bookings are about to take over."""
    mine = preparing_by_instance(snapshot.records.reservations).get(instance, ())
    bookings = [row for row in mine if row.host in {"", snapshot.seen.host}]  # cards elsewhere are no use to it
    if not bookings:
        return frozenset()
    rows = snapshot.records.assignments
    known, held = reservations_by_id(snapshot.records.reservations), by_instance(rows).get(instance, ())
    leases = [row for row in held if row.state is AssignmentState.ACTIVE and row.reservation not in known]
    found = share_out(
        leases, bookings, had=lambda booking: len(by_reservation(rows).get(booking, ())), seen=snapshot.seen
    )
    return frozenset(row.id for shared in found.values() for row in shared)
