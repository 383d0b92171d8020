"""Faults on demand: a card that is lost, unreadable or hangs, an Xid in the kernel's log, a driver gone wrong."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

from lxgpu.errors import LxgpuError
from lxgpu.lab import state
from lxgpu.lab.jobs import find_card

if TYPE_CHECKING:
    from lxgpu.lab.record import Lab
    from lxgpu.lab.spec import Card

CARD_FAULTS = ("lost", "unknown", "hang", "noutil", "noproc")
LIBRARY_FAULTS = ("mismatch", "nodriver")
REBOOT = "reboot"
ALL = "all"
FAIL = re.compile(r"fail:(?P<call>nvml\w+):(?P<code>\d{1,3})")
XID = re.compile(r"xid:(?P<number>\d{1,3})")

# What the vendor's driver writes after the number; others get a plain phrase.
XID_WORDS = {
    13: "Graphics SM Warp Exception on (GPC 0, TPC 1, SM 0): Out Of Range Address",
    31: "Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_0 faulted @ 0x7f3e_c4000000."
    " Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ",
    43: "Ch 00000010",
    45: "Ch 00000010",
    48: "An uncorrectable double bit error (DBE) has been detected on GPU in the framebuffer at physical address 0x0",
    63: "Row Remapper: New row marked for remapping, reset gpu to activate.",
    64: "Row Remapper: Error writing to the ROM",
    74: "NVLink: fatal error detected on link 0(0x10000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)",
    79: "GPU has fallen off the bus.",
    94: "Contained: SM (0x1). RST: No, D-RST: No",
    95: "Uncontained: LTC TAG (0x2,0x0). RST: Yes, D-RST: No",
    119: "Timeout after 6s of waiting for RPC response from GPU0 GSP! Expected function 76 (GSP_RM_CONTROL)",
}


def set_fault(lab: Lab, gpu: str, fault: str) -> None:
    """Bring a fault about, or clear it.

    Args:
        lab: the lab.
        gpu: a card as `jobs.find_card` takes it, or `all`.
        fault: `lost`, `unknown`, `hang`, `noutil` or `noproc` (what NVML says of the card from now on), `xid:N` (a
            line in the lab's kernel log), `fail:CALL:CODE` (one NVML call answers that code), `mismatch` or `nodriver`
            (NVML does not start; these need `all`), `reboot` (as after a restart of the machine: no MIG slices, a mode
            that waited holds; needs `all`), `clear`.

    Raises:
        LxgpuError: `usage` or `not_found`.
    """
    cards = lab.gpus if gpu == ALL else (find_card(lab, gpu),)
    if xid := XID.fullmatch(fault):
        _write_xid(lab, cards, int(xid["number"]))
        return
    with state.editing(lab) as nvml:
        if fault == "clear":
            _clear(nvml, cards, whole=gpu == ALL)
        elif fault in CARD_FAULTS:
            nvml.faults.update(dict.fromkeys((card.uuid for card in cards), fault))
        elif fault in LIBRARY_FAULTS and gpu == ALL:
            nvml.extra = [line for line in nvml.extra if not line.startswith("init ")] + [f"init {fault}"]
        elif fault == REBOOT and gpu == ALL:
            state.forget_slices(lab)
        elif failing := FAIL.fullmatch(fault):
            where = [""] if gpu == ALL else [f" {card.index}" for card in cards]
            nvml.extra += [f"fail {failing['call']} {failing['code']}{index}" for index in where]
        else:
            raise LxgpuError(
                "usage",
                f"the lab cannot bring about {fault!r} on {gpu}",
                why=[
                    f"on a card or `{ALL}`: {', '.join(CARD_FAULTS)}, xid:N, fail:CALL:CODE, clear",
                    f"on `{ALL}` only: {', '.join((*LIBRARY_FAULTS, REBOOT))}",
                ],
                fix="for instance: lxgpu lab fault 0 xid:79",
            )


def _clear(nvml: state.NvmlState, cards: tuple[Card, ...], *, whole: bool) -> None:
    if whole:
        nvml.faults.clear()
        nvml.extra.clear()
    for card in cards:
        nvml.faults.pop(card.uuid, None)
        nvml.extra = [line for line in nvml.extra if line.split()[3:] != [str(card.index)]]


def _write_xid(lab: Lab, cards: tuple[Card, ...], number: int) -> None:
    words = XID_WORDS.get(number, "an error of the card")
    with lab.paths.kernel_log.open("a", encoding="utf-8") as log:
        for card in cards:
            place = card.pci.rpartition(".")[0]
            log.write(
                f"[{time.monotonic():13.6f}] NVRM: Xid (PCI:{place}): {number},"
                f" pid='<unknown>', name=<unknown>, {words}\n"
            )
