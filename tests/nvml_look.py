"""Ask NVML in a process of its own, as the real pynvml finds it, and return what it says of every card."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

_ASK = """
import json, pynvml
from pynvml import *
def call(function, *arguments):
    try:
        return function(*arguments)
    except NVMLError as error:
        return f"error {error.value}"
init = call(nvmlInit)
cards = []
for index in range(0 if init else nvmlDeviceGetCount()):
    card = call(nvmlDeviceGetHandleByIndex, index)
    if isinstance(card, str):
        cards.append({"handle": card})
        continue
    memory, memory2 = call(nvmlDeviceGetMemoryInfo, card), call(nvmlDeviceGetMemoryInfo, card, nvmlMemory_v2)
    processes, rates = call(nvmlDeviceGetComputeRunningProcesses, card), call(nvmlDeviceGetUtilizationRates, card)
    graphics, pci = call(nvmlDeviceGetGraphicsRunningProcesses, card), call(nvmlDeviceGetPciInfo, card)
    cards.append({
        "uuid": call(nvmlDeviceGetUUID, card),
        "name": call(nvmlDeviceGetName, card),
        "minor": call(nvmlDeviceGetMinorNumber, card),
        "pci": pci if isinstance(pci, str) else pci.busId,
        "total": memory if isinstance(memory, str) else memory.total,
        "used": memory if isinstance(memory, str) else memory.used,
        "total_v2": memory2 if isinstance(memory2, str) else memory2.total,
        "processes": processes if isinstance(processes, str) else {p.pid: p.usedGpuMemory for p in processes},
        "graphics": graphics if isinstance(graphics, str) else [p.pid for p in graphics],
        "util": rates if isinstance(rates, str) else rates.gpu,
        "temperature": call(nvmlDeviceGetTemperature, card, NVML_TEMPERATURE_GPU),
        "power": call(nvmlDeviceGetPowerUsage, card),
        "power_limit": call(nvmlDeviceGetEnforcedPowerLimit, card),
        "persistence": call(nvmlDeviceGetPersistenceMode, card),
        "mig": call(nvmlDeviceGetMigMode, card),
    })
    for way, key in ((nvmlDeviceGetHandleByUUID, "uuid"), (nvmlDeviceGetHandleByPciBusId, "pci")):
        if not str(cards[-1][key]).startswith("error"):
            cards[-1][f"by_{key}"] = call(nvmlDeviceGetIndex, call(way, cards[-1][key]))
print(json.dumps({"init": init, "cards": cards, "driver": init or call(nvmlSystemGetDriverVersion),
                  "cuda": init or call(nvmlSystemGetCudaDriverVersion_v2)}))
"""


def nvml(env: Mapping[str, str], *, limit: float = 20) -> dict[str, Any]:
    """What NVML says: `init` (None when it starts), `driver`, `cuda`, `cards`; an error is the text `error CODE`.

    Raises:
        subprocess.TimeoutExpired: it did not answer within `limit` seconds.
    """
    done = subprocess.run(
        [sys.executable, "-c", _ASK],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=limit,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said: dict[str, Any] = json.loads(done.stdout)
    for card in said["cards"]:
        if isinstance(card.get("processes"), dict):
            card["processes"] = {int(pid): used for pid, used in card["processes"].items()}
    return said
