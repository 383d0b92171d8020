"""Where an open lease must end because its cards are booked: said when it is granted; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta

from lxgpu.model.gpu import Slot
from lxgpu.model.plan import Reason
from lxgpu.model.request import GpuRequest
from lxgpu.model.snapshot import Snapshot
from lxgpu.policy.admission import entitlement
from lxgpu.policy.outlook import until_for_lease

FOREVER = timedelta(days=36500)


def lease_until(
    snapshot: Snapshot, request: GpuRequest, slots: Iterable[Slot], *, lease_s: float | None = None
) -> datetime:
    """When a lease of these slots ends that is granted now: as asked (None: as the owner may), or when they are booked.

    `lease_s` is in seconds from now.
    """
    until = snapshot.now + timedelta(seconds=lease_s or entitlement(snapshot, request.owner).lease_s)
    return min(until, booked_from(snapshot, request.instance, slots) or until)


def booked_from(snapshot: Snapshot, instance: str, slots: Iterable[Slot]) -> datetime | None:
    """From when on others have booked the cards of these slots, if they were lent now; None: nobody has."""
    if not snapshot.records.reservations:
        return None
    models = Counter(gpu.model for slot in slots if (gpu := snapshot.seen.gpu(slot.gpu)) is not None)
    far = snapshot.now + FOREVER
    ends = (until_for_lease(snapshot, model, instance, far, gpus=count) for model, count in models.items())
    return min((end for end in ends if end < far), default=None)


def booked_reasons(snapshot: Snapshot, instance: str, slots: Iterable[Slot]) -> tuple[Reason, ...]:
    """Why cards that are free cannot be lent all the same. Code: `booked`."""
    end = booked_from(snapshot, instance, slots)
    if end is None or end > snapshot.now:
        return ()
    return (Reason("booked", "the cards are free, and others have booked them from now on"),)
