"""Cards, the slots they offer, and what NVML said about them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

WHOLE = "whole"


@dataclass(frozen=True, slots=True, order=True)
class DeviceNode:
    """One device node of a card: its path below /dev and its device number."""

    path: str
    major: int
    minor: int


@dataclass(frozen=True, slots=True)
class Gpu:
    """A physical card. The UUID is its identity, the PCI address is what gets attached.

    `pci` has the form `0000:02:00.0` (four-digit domain, lower case). `index` is NVML's number,
    only ever shown. `nodes` are the nodes that give access to this card and to no other.
    """

    uuid: str
    pci: str
    model: str
    host: str
    nodes: tuple[DeviceNode, ...] = ()
    memory_bytes: int | None = None
    index: int | None = None
    numa_node: int | None = None


@dataclass(frozen=True, slots=True, order=True)
class Slot:
    """What one assignment can hold: a whole card, one of n time shares, or one MIG slice."""

    gpu: str
    part: str = WHOLE

    def __str__(self) -> str:
        return self.gpu if self.part == WHOLE else f"{self.gpu}/{self.part}"

    @classmethod
    def parse(cls, text: str) -> Slot:
        """Read what `str` wrote."""
        gpu, _, part = text.partition("/")
        return cls(gpu=gpu, part=part or WHOLE)


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A process that NVML sees on a card: host pid, memory in bytes (None: NVML does not say).

    `kind` is `compute` or `graphics`; `instance` is the container it runs in, None on the host itself. `command` is its
    command line, cut short; whoever runs it decides what it says.
    """

    pid: int
    memory_bytes: int | None
    kind: str
    instance: str | None = None
    user: str | None = None
    command: str | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """One NVML sample of one card. None everywhere means "not known", never zero.

    `fault` names what NVML answered when the card itself could not be read (`lost`, `unknown`, `timeout`).
    `pci` is its address, empty when NVML did not say.
    """

    uuid: str
    sampled_at: datetime
    index: int | None = None
    utilization_percent: int | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    temperature_c: int | None = None
    power_w: float | None = None
    processes: tuple[GpuProcess, ...] | None = None
    fault: str | None = None
    pci: str = ""


@dataclass(frozen=True, slots=True)
class Readings:
    """All cards' samples of one pass; `error` says why there are none when NVML itself is out of order."""

    items: tuple[Reading, ...] = ()
    driver: str | None = None
    error: str | None = None

    def of(self, uuid: str) -> Reading | None:
        """The sample of one card, or None when there is none."""
        return next((item for item in self.items if item.uuid == uuid), None)


def normal_pci(text: str) -> str:
    """Bring a PCI address to the form LXD uses.

    NVML writes `00000000:02:00.0`, lspci may leave out the domain, both may be upper case.
    """
    parts = text.strip().lower().split(":")
    domain = parts[0][-4:].rjust(4, "0") if len(parts) == 3 else "0000"  # noqa: PLR2004 - domain:bus:device
    rest = ":".join(parts[-2:])
    return f"{domain}:{rest}" if "." in rest else f"{domain}:{rest}.0"
