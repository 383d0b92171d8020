"""Cards, the slots they offer, and what NVML said about them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

WHOLE = "whole"


def card_of(gpu: str) -> str:
    """The UUID of the card behind the name of what is lent."""
    return gpu.partition("/")[0]


def is_part(gpu: str) -> bool:
    """Whether what is lent under a name is a part of a card."""
    return "/" in gpu


def share_of(text: str) -> float:
    """How much of a card that is whose name, or whose model's name, ends with a part such as `1/4`; else 1."""
    _, cut, parts = text.rpartition("/")
    return 1 / int(parts) if cut and parts.isdecimal() and int(parts) else 1.0


@dataclass(frozen=True, slots=True, order=True)
class DeviceNode:
    """One device node of a card: its path below /dev and its device number."""

    path: str
    major: int
    minor: int


@dataclass(frozen=True, slots=True)
class Gpu:
    """What is lent as one: a whole card, or a part of a divided one (see `model.layout`).

    `uuid` names it as `Slot.gpu` does; of a whole card that is the card's UUID, its identity. The parts of a card have
    its address and nodes, and a share of its memory. The PCI address is what gets attached; `pci` has the form
    `0000:02:00.0` (four-digit domain, lower case). `index` is NVML's number, only ever shown. `nodes` are the nodes
    that give access to this card and to no other.
    """

    uuid: str
    pci: str
    model: str
    host: str
    nodes: tuple[DeviceNode, ...] = ()
    memory_bytes: int | None = None
    index: int | None = None
    numa_node: int | None = None

    @property
    def card(self) -> str:
        """The UUID of the card that it is, or is a part of."""
        return card_of(self.uuid)

    @property
    def divided(self) -> bool:
        """Whether it is a part of a card."""
        return is_part(self.uuid)


@dataclass(frozen=True, slots=True, order=True)
class Slot:
    """What one assignment can hold: a whole card, one of n time shares, or one MIG slice.

    `gpu` names what is held: the card's UUID, followed by `/` and the part where the card is divided.
    """

    gpu: str

    def __str__(self) -> str:
        return self.gpu

    @property
    def card(self) -> str:
        """The UUID of the card that it is, or is a part of."""
        return card_of(self.gpu)

    @property
    def part(self) -> str:
        """Which part of its card: `whole`, or `2/4` for the second of four time shares."""
        return self.gpu.partition("/")[2] or WHOLE

    @property
    def share(self) -> float:
        """How much of a card it is."""
        return share_of(self.gpu)

    @classmethod
    def of(cls, card: str, part: str = WHOLE) -> Slot:
        """The slot that is a card, or that part of it."""
        return cls(card if part == WHOLE else f"{card}/{part}")


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
