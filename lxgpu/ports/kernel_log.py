"""The seam to the kernel's log: the lines in which NVIDIA's driver tells of a fault of a card."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Xid:
    """One fault that the driver told of.

    `pci` is in the form of `Gpu.pci`, `number` NVIDIA's own, `text` what follows it. `line` names the line for good:
    the same one read again has the same.
    """

    at: datetime
    pci: str
    number: int
    text: str
    line: str


class KernelLog(Protocol):
    """Reads the kernel's log without ever waiting."""

    def fresh(self) -> tuple[Xid, ...]:
        """The faults told since those that `seen` was said of, oldest first. Error `unavailable`: it cannot be read."""

    def seen(self) -> None:
        """What `fresh` gave last was acted upon: it is not given again, after a restart either."""
