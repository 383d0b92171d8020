"""Moving a program's GPU memory to main memory and back, by NVIDIA's cuda-checkpoint on the host.

Not seen on hardware: this follows the tool's README and NVIDIA's driver notes (driver 550 and later, one process, no
NCCL). What it refuses is simply asked to end instead. The tool runs in the background: whether it worked is seen by
whether the process still holds the card.
"""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

from lxgpu.drivers.cgroups import UNIFIED, Cgroups
from lxgpu.drivers.deadline import Patience, TooLateError
from lxgpu.drivers.processes import read_stat
from lxgpu.ports import Process

_ENDS_S = 120.0
_LOOK_S = 2.0
_LIBRARY = "libnccl"


class CudaCheckpoint:
    """`ports.Parker`. `program` is the tool's name or path, `available` the host's free main memory in bytes."""

    def __init__(
        self,
        program: str = "cuda-checkpoint",
        *,
        cgroups: Cgroups | None = None,
        available: Callable[[], int] | None = None,
    ) -> None:
        self._program = program
        self._cgroups = cgroups or Cgroups()
        self._available = available or _available
        self._patience = Patience()

    def park(self, process: Process, *, need_bytes: int) -> str:
        """Begin to move its GPU memory away; empty, or why that cannot be."""
        try:
            why = self._patience.run(process.pid, lambda: self._refusal(process, need_bytes), timeout_s=_LOOK_S)
        except TooLateError:
            return "it does not let itself be looked into"
        except OSError as error:
            return f"it cannot be looked into: {error.strerror or error}"
        return why or self._toggle(process)

    def unpark(self, process: Process) -> str:
        """Begin to move its GPU memory back; empty, or why that cannot be."""
        return self._toggle(process)

    def _refusal(self, process: Process, need_bytes: int) -> str:
        if _LIBRARY in Path(f"/proc/{process.pid}/maps").read_text(errors="replace"):
            return "it uses NCCL"
        if need_bytes > min(self._available(), self._room(process.pid)):
            return "there is not enough main memory for what it has on the card"
        return ""

    def _room(self, pid: int) -> int:
        """What its container may still take of its memory limit."""
        for controller, limit, use in (
            ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
            (UNIFIED, "memory.max", "memory.current"),
        ):
            top = self._cgroups.top(pid, controller)
            if top is not None and (top / limit).exists():
                text = (top / limit).read_text().strip()
                return 1 << 62 if text == "max" else int(text) - int((top / use).read_text())
        return 1 << 62

    def _toggle(self, process: Process) -> str:
        seen = read_stat(process.pid)
        if seen is None or seen.start_time != process.start_time or seen.ended:
            return "it has ended"
        program = shutil.which(self._program)
        if program is None:
            return f"the host has no {self._program}"
        argv = [program, "--toggle", "--pid", str(process.pid)]
        threading.Thread(target=_run, args=(argv,), daemon=True, name="lxgpu-park").start()
        return ""


def _run(argv: list[str]) -> None:
    """The tool, to its end or the end of its time; its success is judged by what it did."""
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as tool:
        try:
            tool.wait(_ENDS_S)
        except subprocess.TimeoutExpired:
            tool.kill()


def _available() -> int:
    lines = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    return int(lines["MemAvailable"].split()[0]) * 1024
