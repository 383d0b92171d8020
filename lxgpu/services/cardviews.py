"""What `gpus` and others show of cards: the fields of the JSON schema `lxgpu.gpus/v1`, no more.

Unknown is None everywhere, never zero. Times are UTC.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

FREE = "free"
FOREIGN = "foreign"
BUSY, IDLE, UNKNOWN = "busy", "idle", "unknown"


@dataclass(frozen=True, slots=True)
class SlotView:
    """What one slot is used for. A card attached behind lxgpu's back has an entry of its own, state `foreign`.

    `state` is free, the state of the holder's assignment (attaching, active, warned, releasing, quarantined), or why
    nobody holds it: promised, closed, quarantined, sick, missing; None: LXD does not answer. `memory_used_bytes` of a
    part of a card is what its holder's processes take, `utilization_percent` 0 while none of them computes, else the
    card's: NVML does not tell them apart.
    """

    slot: str
    holder: str | None
    state: str | None
    lease_until: datetime | None = None
    reservation: str | None = None
    memory_used_bytes: int | None = None
    utilization_percent: int | None = None


@dataclass(frozen=True, slots=True)
class ProcessView:
    """A process on a card: pid on the host, its container (None: the host itself), account and memory."""

    pid: int
    instance: str | None
    user: str | None
    memory_bytes: int | None


@dataclass(frozen=True, slots=True)
class GpuView:
    """One card. `health` is ok, missing, closed, quarantined or sick; None when nothing tells.

    `verdict` is busy, foreign (only the host's own processes use it), idle or unknown; None when NVML was not asked.
    """

    uuid: str
    index: int | None
    pci: str | None
    model: str | None
    host: str | None
    memory_bytes: int | None
    mode: str | None
    health: str | None
    slots: tuple[SlotView, ...]
    utilization_percent: int | None = None
    memory_used_bytes: int | None = None
    processes: tuple[ProcessView, ...] | None = None
    verdict: str | None = None
    sampled_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class UseView:
    """How busy a card was: means of its utilization over steps of `step_s` seconds from `start` on, in percent.

    The last step is the one that lasts still, as far as it was seen. None: in too much of it nobody looked, or NVML did
    not say.
    """

    start: datetime
    step_s: int
    percents: tuple[float | None, ...] = ()


def order(view: GpuView) -> tuple[str, str, str]:
    """Cards stand by host and PCI address; those whose address nobody knows come last."""
    return (view.host or "", view.pci or "~", view.uuid)
