"""The host's cards as LXD told them last, believed only while nothing that a card could move by has moved.

LXD asks a program of NVIDIA's at every question, which takes longer than all the rest of a decision.
"""

from __future__ import annotations

from lxgpu.model.gpu import Gpu, Readings

Heard = frozenset[tuple[str, str]]


class CardMemory:
    """What LXD said, the kernel's stamp from before it was asked, and whom NVML listed then (UUID and PCI address)."""

    def __init__(self) -> None:
        self._last: tuple[str, Heard, tuple[Gpu, ...]] | None = None

    @property
    def empty(self) -> bool:
        """Whether nothing is remembered."""
        return self._last is None

    def recall(self, stamp: str, readings: Readings) -> tuple[Gpu, ...] | None:
        """The cards, if the kernel has gained and lost nothing since and NVML lists the same ones, all of them well."""
        heard = _heard(readings)
        if self._last is None or heard is None or self._last[:2] != (stamp, heard):
            return None
        return self._last[2]

    def keep(self, stamp: str, readings: Readings, gpus: tuple[Gpu, ...]) -> None:
        """Remember what LXD said; `stamp` was taken before it was asked. Nothing is kept while NVML is out of order."""
        heard = _heard(readings)
        self._last = None if heard is None else (stamp, heard, gpus)


def _heard(readings: Readings) -> Heard | None:
    """Who answered; None when anything is out of order."""
    if readings.error or any(item.fault or not item.pci for item in readings.items):
        return None
    return frozenset((item.uuid, item.pci) for item in readings.items)
