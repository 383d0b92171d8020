"""What to do about a fault of a card that NVIDIA's driver told of (an Xid); pure.

Numbers and actions follow NVIDIA's "Xid Catalog" (https://docs.nvidia.com/deploy/xid-errors). A number that it gives
no one clear action for, or that is not in the table, is told to the admins and nothing more.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

_PREFIX = "Xid "
_RECOVERY = 154
_REBOOT, _RESET = re.compile(r"\((?:Node|System) Reboot"), re.compile(r"\((?:GPU Reset|Drain and Reset|Bus Reset)")


class Remedy(StrEnum):
    """What helps: a reset or a reboot by an admin, the user's own program, a look, or nothing at all."""

    REBOOT = "reboot"
    RESET = "reset"
    PROGRAM = "program"
    LOOK = "look"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Fault:
    """What a number means and what helps."""

    number: int
    meaning: str
    remedy: Remedy

    @property
    def quarantines(self) -> bool:
        """Whether nobody may be given the card any more."""
        return self.remedy in {Remedy.REBOOT, Remedy.RESET}

    @property
    def reason(self) -> str:
        """Why the card is in quarantine, and what is proposed; begins with the number, by which `by_fault` knows it."""
        proposals = {
            Remedy.REBOOT: "reboot the host, then lxgpu gpu open",
            Remedy.RESET: "reset the card with nvidia-smi --gpu-reset, or reboot the host, then lxgpu gpu open",
        }
        proposal = proposals.get(self.remedy)
        return f"{_PREFIX}{self.number}: {self.meaning}" + (f"; {proposal}" if proposal else "")


_TABLE: dict[Remedy, dict[int, str]] = {
    Remedy.REBOOT: {79: "the card has fallen off the bus"},
    Remedy.RESET: {
        46: "the card stopped processing",
        48: "a double bit memory error",
        62: "its microcontroller halted",
        64: "a broken memory row could not be replaced",
        95: "an uncontained memory error",
        109: "it did not switch contexts in time",
        110: "a security fault",
        119: "its system processor did not answer in time",
        120: "an error of its system processor",
        136: "a link could not be trained",
        140: "an unrecovered memory error",
        143: "it could not be initialised",
        158: "a fatal time-out",
    },
    Remedy.PROGRAM: {
        8: "a program's work did not end in time",
        11: "a program sent an invalid command",
        13: "a program's kernel failed, mostly by an index out of bounds",
        25: "a program sent an illegal command",
        31: "a program used an invalid memory address",
        43: "a program made a fault and was stopped",
        69: "a program used the graphics engine wrongly",
        94: "a memory error hit one program, which must be started again",
    },
    Remedy.NOTHING: {
        45: "a program's work was cleaned up after it ended",
        63: "a broken memory row was replaced",
    },
}
_FAULTS = {
    number: Fault(number, meaning, remedy) for remedy, rows in _TABLE.items() for number, meaning in rows.items()
}
_GRAVITY = (Remedy.REBOOT, Remedy.RESET, Remedy.PROGRAM, Remedy.LOOK, Remedy.NOTHING)


def judge_xid(number: int, text: str = "") -> Fault:
    """What to do about a fault; `text` is what the driver wrote after the number."""
    if number == _RECOVERY:
        return _recovery(text)
    return _FAULTS.get(number) or Fault(
        number, text or "a fault that NVIDIA's list says nothing clear about", Remedy.LOOK
    )


def by_fault(quarantine: str) -> bool:
    """Whether a card is in quarantine for a fault of its own: then no proof that it is free ends that."""
    return quarantine.startswith(_PREFIX)


def worse(quarantine: str, fault: Fault) -> str:
    """The reason of a quarantine after one more fault: the graver fault first; what a fence said stays behind it."""
    if not quarantine:
        return fault.reason
    if not by_fault(quarantine):
        return f"{fault.reason} ({quarantine})"
    known = re.match(rf"{_PREFIX}(\d+):", quarantine)
    before = judge_xid(int(known[1]), quarantine) if known else None
    graver = before is None or _GRAVITY.index(fault.remedy) < _GRAVITY.index(before.remedy)
    return f"{fault.reason} (after {quarantine.partition(';')[0]})" if graver else quarantine


def _recovery(text: str) -> Fault:
    """The driver's own summary, "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"."""
    _, _, goal = text.rpartition(" to ")
    if _REBOOT.search(goal):
        return Fault(_RECOVERY, "the driver asks for a reboot (Node Reboot Required)", Remedy.REBOOT)
    if _RESET.search(goal):
        return Fault(_RECOVERY, "the driver asks for a reset (GPU Reset Required)", Remedy.RESET)
    return Fault(_RECOVERY, text or "the driver's advice changed", Remedy.LOOK)
