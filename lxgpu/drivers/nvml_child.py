"""The child that talks to NVML: for each line on standard input one pass over all cards, one JSON line each.

A call into NVML on a lost card can hang or crash, so it happens in a process that can be done without.
Started as a file; imports pynvml and nothing of lxgpu, since its start is most of its cost. A line of
input names the indices to leave out; NVML is open only during the pass. Lines of a pass, in this order:
  {"driver": …, "count": N} or {"error": …, "library": …}
  {"at": I} before card I is touched, then {"card": {…}} with its values; null is "not known"
  {"end": true}
"""

from __future__ import annotations

import json
import sys
from functools import partial

TYPE_CHECKING = False  # typing and pathlib would cost a seventh of this process
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class Cards:
    """The cards of this host through the library `nvml`, which is the module pynvml."""

    def __init__(self, nvml: Any) -> None:  # noqa: ANN401 - an untyped module
        self.nvml = nvml
        # What a card or a driver may simply not offer: not known, which is no fault.
        self.silent = {
            nvml.NVML_ERROR_NOT_SUPPORTED,
            nvml.NVML_ERROR_FUNCTION_NOT_FOUND,
            nvml.NVML_ERROR_NO_PERMISSION,
        }

    def card(self, index: int) -> dict[str, Any]:
        """All values of one card; `fault` when the card itself does not answer."""
        nvml = self.nvml
        found: dict[str, Any] = {"index": index}
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            found["uuid"] = text(nvml.nvmlDeviceGetUUID(handle))
            found["pci"] = text(self.attempt(lambda: nvml.nvmlDeviceGetPciInfo(handle).busId))
            found["utilization"] = self.attempt(lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu)
            found["memory"] = self.attempt(lambda: self.memory(handle))
            found["temperature"] = self.attempt(
                lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)
            )
            found["milliwatts"] = self.attempt(lambda: nvml.nvmlDeviceGetPowerUsage(handle))
            found["processes"] = self.processes(handle)
            found["slices"] = self.slices(handle)
        except nvml.NVMLError as error:
            found["fault"] = "lost" if error.value == nvml.NVML_ERROR_GPU_IS_LOST else "unknown"
        return found

    def attempt(self, call: Callable[[], Any]) -> Any:  # noqa: ANN401 - NVML's answers have no common type
        """The answer of NVML, or None where this card or driver has none to give."""
        try:
            return call()
        except self.nvml.NVMLError as error:
            if error.value in self.silent:
                return None
            raise

    def slices(self, handle: Any) -> list[dict[str, Any]] | None:  # noqa: ANN401 - a pointer of pynvml's
        """The MIG slices of a card; None: it is not in MIG mode."""
        nvml = self.nvml
        mode = self.attempt(lambda: nvml.nvmlDeviceGetMigMode(handle))
        if mode is None or mode[0] != nvml.NVML_DEVICE_MIG_ENABLE:
            return None
        found = []
        for index in range(nvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
            try:
                one = nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)
            except nvml.NVMLError as error:
                if error.value != nvml.NVML_ERROR_NOT_FOUND:
                    raise
                continue
            memory, listed = self.attempt(partial(self.memory, one)), self.processes(one)
            found.append({"uuid": text(nvml.nvmlDeviceGetUUID(one)), "memory": memory, "processes": listed})
        return found

    def memory(self, handle: Any) -> list[int]:  # noqa: ANN401 - a pointer of pynvml's
        """Bytes used and in all. The newer call does not count what the driver keeps for itself as used."""
        found = self.attempt(lambda: self.nvml.nvmlDeviceGetMemoryInfo(handle, version=self.nvml.nvmlMemory_v2))
        found = found or self.nvml.nvmlDeviceGetMemoryInfo(handle)
        return [int(found.used), int(found.total)]

    def processes(self, handle: Any) -> list[list[Any]] | None:  # noqa: ANN401 - a pointer of pynvml's
        """[pid, bytes or None, kind] of each; None when the compute list cannot be had."""
        compute = self.listed(handle, "Compute")
        if compute is None:
            return None
        graphics, served = self.listed(handle, "Graphics") or [], self.listed(handle, "MPSCompute") or []
        found = {one.pid: [one.pid, one.usedGpuMemory, "graphics"] for one in graphics}
        found |= {one.pid: [one.pid, one.usedGpuMemory, "compute"] for one in [*compute, *served]}
        return list(found.values())

    def listed(self, handle: Any, kind: str) -> list[Any] | None:  # noqa: ANN401 - a pointer of pynvml's
        """A process list by the newest call that this driver has (those before 510 lack the third version)."""
        name = f"nvmlDeviceGet{kind}RunningProcesses"
        calls = (getattr(self.nvml, name + version, None) for version in ("_v3", "_v2"))
        answers = (self.attempt(partial(call, handle)) for call in calls if call is not None)
        return next((list(answer) for answer in answers if answer is not None), None)

    def library_version(self) -> str | None:
        """The version of libnvidia-ml, also when it cannot be initialised: from its file's name, or from itself."""
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:  # noqa: PTH123 - see above
            names = {line.rpartition("libnvidia-ml.so.")[2].strip() for line in maps if "libnvidia-ml.so." in line}
        named = next((name for name in names if "." in name), None)  # libnvidia-ml.so.1 says nothing
        try:
            return named or text(self.attempt(self.nvml.nvmlSystemGetNVMLVersion))
        except self.nvml.NVMLError:
            return None


def main() -> None:
    """A pass for each line of input."""
    nvml = library()
    for line in sys.stdin:
        one_pass(nvml, {int(word) for word in line.split()})


def library() -> Any:  # noqa: ANN401 - an untyped module
    """NVML as pynvml has it."""
    import pynvml  # type: ignore[import-untyped] # noqa: PLC0415

    return pynvml


def one_pass(pynvml: Any, left_out: set[int]) -> None:  # noqa: ANN401 - an untyped module
    """Read all cards but those left out."""
    cards = Cards(pynvml)
    try:
        pynvml.nvmlInit()
        count = int(pynvml.nvmlDeviceGetCount())
    except pynvml.NVMLError as error:
        say({"error": str(error), "library": cards.library_version()})
        return
    driver = text(cards.attempt(pynvml.nvmlSystemGetDriverVersion))
    say({"driver": driver, "count": count})
    for index in range(count):
        if index not in left_out:
            say({"at": index})
            say({"card": cards.card(index)})
    cards.attempt(pynvml.nvmlShutdown)
    say({"end": True})


def text(value: Any) -> str | None:  # noqa: ANN401 - pynvml gives bytes or str, by its version
    """NVML's text as str."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def say(line: dict[str, Any]) -> None:
    """One line to the parent, at once."""
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
