"""Cards divided into MIG slices through NVML, in a child process with a deadline.

The nodes by which a slice is reached are told by the kernel driver: the number of each capability below
driver/nvidia-caps, the device's major number in devices (NVIDIA's MIG user guide, "Device Nodes and Capabilities").
No card with MIG was at hand: this has run on the lab's library only.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lxgpu.errors import LxgpuError
from lxgpu.model.gpu import DeviceNode
from lxgpu.model.slices import Slice, SliceKind

_CHILD = "lxgpu.drivers.mig_child"
_IN_USE = 19
_TOO_LATE_S = 60.0
"""A card that enters MIG mode is reset, which takes some seconds."""


class NoSlicer:
    """`ports.Slicer` for a host whose NVML is not this process's: it divides nothing, and says so."""

    def offered(self, card: str) -> tuple[SliceKind, ...]:
        """Nothing that it could make."""
        del card
        return ()

    def make(self, card: str, wanted: Sequence[tuple[str, int]]) -> tuple[Slice, ...]:
        """Refused with `unavailable`."""
        raise _elsewhere(card, f"into {len(wanted)} slices")

    def unmake(self, card: str) -> None:
        """Refused with `unavailable`."""
        raise _elsewhere(card, "otherwise")


class NvmlSlicer:
    """`ports.Slicer` for this very host; `proc` is where the kernel's lists are."""

    def __init__(self, proc: Path = Path("/proc"), *, timeout_s: float = _TOO_LATE_S) -> None:
        self._proc = proc
        self._timeout_s = timeout_s
        self._offered: dict[str, tuple[SliceKind, ...]] = {}

    def offered(self, card: str) -> tuple[SliceKind, ...]:
        """The profiles of a card; asked for once."""
        if card not in self._offered:
            found = self._ask({"card": card, "do": "offer"})
            self._offered[card] = tuple(
                SliceKind(name, slices, size, tuple(starts), memory)
                for name, slices, size, starts, memory in sorted(found["profiles"], key=lambda one: one[1:3])
            )
        return self._offered[card]

    def make(self, card: str, wanted: Sequence[tuple[str, int]]) -> tuple[Slice, ...]:
        """Have the slices, and say how each is reached."""
        nodes = self._capabilities()
        found = self._ask({"card": card, "do": "make", "wanted": list(wanted)})
        made = []
        for (profile, start), (uuid, instance, compute, memory) in zip(wanted, found["slices"], strict=True):
            name = f"gpu{found['minor']}/gi{instance}"
            try:
                own = (nodes[f"{name}/access"], nodes[f"{name}/ci{compute}/access"])
            except KeyError as error:
                raise _no_capabilities(f"{self._minors} does not name {error.args[0]}") from error
            made.append(Slice(profile, uuid, start, instance, compute, own, memory))
        return tuple(made)

    def unmake(self, card: str) -> None:
        """Make the card whole again."""
        self._ask({"card": card, "do": "end"})

    @property
    def _minors(self) -> Path:
        return self._proc / "driver/nvidia-caps/mig-minors"

    def _capabilities(self) -> Mapping[str, DeviceNode]:
        """The node of each capability by the driver's name for it: `gpu0/gi1/ci0/access`."""
        try:
            devices = (self._proc / "devices").read_text().splitlines()
            lines = self._minors.read_text().splitlines()
        except OSError as error:
            raise _no_capabilities(f"{error.filename}: {error.strerror}") from error
        major = next((int(line.split()[0]) for line in devices if line.split()[1:] == ["nvidia-caps"]), None)
        if major is None:
            raise _no_capabilities(f"{self._proc / 'devices'} does not name nvidia-caps")
        pairs = (line.split() for line in lines)
        return {name: DeviceNode(f"nvidia-caps/nvidia-cap{minor}", major, int(minor)) for name, minor in pairs}

    def _ask(self, order: Mapping[str, Any]) -> dict[str, Any]:
        argv = [sys.executable, "-P", "-W", "ignore", "-m", _CHILD]
        text, card = json.dumps(order) + "\n", order["card"]
        try:
            ran = subprocess.run(argv, input=text, capture_output=True, text=True, timeout=self._timeout_s, check=False)
            answer: dict[str, Any] = json.loads(ran.stdout)
        except subprocess.TimeoutExpired as error:
            raise _refused(card, f"it did not answer within {self._timeout_s:g} s") from error
        except ValueError as error:
            raise _refused(card, f"the call into NVML ended with status {ran.returncode}") from error
        if "error" not in answer:
            return answer
        why = f"NVML could not {answer['what']}: {answer['text']}"
        if answer["error"] == _IN_USE:
            raise LxgpuError(
                "conflict",
                f"{card} is in use, so its MIG slices cannot be changed",
                why=why,
                fix="end what uses it (nvidia-smi lists it; monitoring may, too), then: lxgpu gpu mode " + card,
            )
        raise _refused(card, why)


def _refused(card: str, why: str) -> LxgpuError:
    fix = f"lxgpu doctor looks at NVML; then lxgpu gpu mode {card}"
    return LxgpuError("unavailable", f"{card} could not be divided into MIG slices", why=why, fix=fix)


def _no_capabilities(why: str) -> LxgpuError:
    return LxgpuError(
        "unavailable",
        "the nodes of MIG slices are not known",
        why=why,
        fix="load the driver with its capabilities: modprobe nvidia; the setting proc names the folder",
    )


def _elsewhere(card: str, how: str) -> LxgpuError:
    why = "its host has an NVML of its own, and slices are made through that of the host that lxgpu runs on"
    return LxgpuError(
        "unavailable",
        f"{card} cannot be divided {how}",
        why=why,
        fix="mode: exclusive or timeshare for it in the policy",
    )
