"""Cards, the slots they offer, and what NVML said about them."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import datetime

WHOLE = "whole"
MISSING = "missing"
"""The fault of a MIG slice that NVML does not show."""
COMPUTE_SLICES = 7
"""Into so many slices the computing of a card is divided at most (an A30 has four)."""
PROFILE = r"[1-7]g\.[0-9]{1,3}gb(?:\+me(?:\.all)?|\+gfx)?"
"""How a MIG profile is written; `+me` has the card's media engines, `+gfx` draws."""
_PROFILE = re.compile(rf"(?:^|[ \-])({PROFILE})$")


def card_of(gpu: str) -> str:
    """The UUID of the card behind the name of what is lent."""
    return gpu.partition("/")[0]


def is_part(gpu: str) -> bool:
    """Whether what is lent under a name is a part of a card."""
    return "/" in gpu


def profile_of(text: str) -> str:
    """The MIG profile at the end of a slot's or a model's name, such as `3g.20gb`; empty: it is no slice."""
    found = _PROFILE.search(text)
    return found[1] if found else ""


def share_of(text: str) -> float:
    """How much of a card that is whose name, or whose model's name, ends with a part such as `1/4`; else 1.

    A MIG slice is so many sevenths as its profile has compute slices.
    """
    profile = profile_of(text)
    if profile:
        return int(profile[0]) / COMPUTE_SLICES
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

    A MIG slice has `of`, the card that it is of, and `slice`, its own UUID, empty while it is not made. Its `nodes` are
    the card's own one, which all its slices share, and the two of its capabilities, which no other has.
    """

    uuid: str
    pci: str
    model: str
    host: str
    nodes: tuple[DeviceNode, ...] = ()
    memory_bytes: int | None = None
    index: int | None = None
    numa_node: int | None = None
    of: Gpu | None = None
    slice: str = ""

    @property
    def card(self) -> str:
        """The UUID of the card that it is, or is a part of."""
        return card_of(self.uuid)

    @property
    def around(self) -> tuple[DeviceNode, ...]:
        """Its nodes, and those of the card that it is a slice of."""
        return self.nodes if self.of is None else (*self.nodes, *self.of.nodes)

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
    def profile(self) -> str:
        """The profile of a MIG slice; empty: it is none."""
        return profile_of(self.gpu)

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
    `pci` is its address, empty when NVML did not say. `slices` are the samples of its MIG slices by their own UUIDs;
    None: it is not in MIG mode, or NVML does not say.
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
    slices: tuple[Reading, ...] | None = None

    def of_slice(self, uuid: str, name: str) -> Reading:
        """The sample of one of its MIG slices, under the name that it is lent by; with a fault when there is none.

        NVML does not say how busy a slice is: one without a process that computes is idle, any other one unknown.
        """
        found = next((one for one in self.slices or () if one.uuid == uuid), None)
        if self.fault or found is None:
            return Reading(name, self.sampled_at, self.index, fault=self.fault or MISSING, processes=())
        idle = found.processes is not None and not any(one.kind == "compute" for one in found.processes)
        return replace(found, uuid=name, utilization_percent=0 if idle else None)


@dataclass(frozen=True, slots=True)
class Readings:
    """All cards' samples of one pass; `error` says why there are none when NVML itself is out of order."""

    items: tuple[Reading, ...] = ()
    driver: str | None = None
    error: str | None = None

    def of(self, uuid: str) -> Reading | None:
        """The sample of one card, or None when there is none."""
        return next((item for item in self.items if item.uuid == uuid), None)

    def lent(self, gpu: Gpu) -> Reading | None:
        """The sample of a MIG slice, or of the card that it is or is a part of."""
        card = self.of(gpu.card)
        return card if card is None or gpu.of is None else card.of_slice(gpu.slice, gpu.uuid)


def normal_pci(text: str) -> str:
    """Bring a PCI address to the form LXD uses.

    NVML writes `00000000:02:00.0`, lspci may leave out the domain, both may be upper case.
    """
    parts = text.strip().lower().split(":")
    domain = parts[0][-4:].rjust(4, "0") if len(parts) == 3 else "0000"  # noqa: PLR2004 - domain:bus:device
    rest = ":".join(parts[-2:])
    return f"{domain}:{rest}" if "." in rest else f"{domain}:{rest}.0"
