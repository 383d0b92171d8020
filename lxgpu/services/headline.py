"""The first line everywhere: "3 of 8 GPUs free; next at 18:00"; pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

from lxgpu.services.cardviews import FREE, GpuView

_MAY_RETURN = frozenset({"active", "warned", "releasing"})


@dataclass(frozen=True, slots=True)
class GpuCount:
    """How many cards there are, how many of them are free (None: not known), when the next lease ends.

    Missing cards are not counted in `total`. `over` cards are held past their lease, which they are until someone
    waits; `next_at` is the next end that is still to come.
    """

    total: int
    free: int | None
    over: int
    next_at: datetime | None


def count(views: Iterable[GpuView], now: datetime) -> GpuCount:
    """Count cards; a divided card counts as free when all of its slots are."""
    there = [view for view in views if view.health != "missing"]
    unknown = any(slot.state is None for view in there for slot in view.slots)
    leases = [
        slot.lease_until
        for view in there
        for slot in view.slots
        if slot.lease_until is not None and slot.state in _MAY_RETURN
    ]
    return GpuCount(
        total=len(there),
        free=None if unknown else sum(all(slot.state == FREE for slot in view.slots) for view in there),
        over=sum(until <= now for until in leases),
        next_at=min((until for until in leases if until > now), default=None),
    )


def headline(found: GpuCount, show: Callable[[datetime], str]) -> str:
    """The line; `show` writes an instant in the lab's zone."""
    if not found.total:
        return "no GPUs"
    noun = "GPU" if found.total == 1 else "GPUs"
    text = f"{'an unknown number' if found.free is None else found.free} of {found.total} {noun} free"
    if found.over:
        text += f"; {found.over} past {'its' if found.over == 1 else 'their'} lease, kept until someone waits"
    return text + (f"; next at {show(found.next_at)}" if found.next_at else "")
