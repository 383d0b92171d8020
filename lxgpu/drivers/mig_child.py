"""The child that divides a card into MIG slices through NVML: one order on standard input, one answer, then it ends.

An order is a JSON line, and so is the answer; a call into NVML may hang, so it happens in a process of its own.
  {"card": UUID, "do": "offer"} → {"minor": N, "profiles": [[name, slices, size, starts, bytes]]}
  {"card": UUID, "do": "make", "wanted": [[profile, start]]} → {"minor": N, "slices": [[uuid, gi, ci, bytes]]}
  {"card": UUID, "do": "end"} → {"minor": N, "slices": []}
What fails is {"error": code of NVML's, "what": …, "text": …}. Slices that are there already as they are wanted stay;
all others of the card go. A card without MIG offers no profiles.
"""

from __future__ import annotations

import json
import sys
from ctypes import byref, c_uint
from typing import Any

from lxgpu.drivers.nvml_child import library

ROOM = 64
MOST_COMPUTE = 8


class Divided:
    """One card through the library `nvml`, which is the module pynvml."""

    def __init__(self, nvml: Any, uuid: str) -> None:  # noqa: ANN401 - an untyped module
        self.nvml = nvml
        self.doing = "find the card"
        self.card = nvml.nvmlDeviceGetHandleByUUID(uuid.encode())
        absent = {nvml.NVML_ERROR_NOT_SUPPORTED, nvml.NVML_ERROR_INVALID_ARGUMENT, nvml.NVML_ERROR_NOT_FOUND}
        self.absent = absent | {nvml.NVML_ERROR_FUNCTION_NOT_FOUND}

    def attempt(self, function: Any, *arguments: Any) -> Any:  # noqa: ANN401 - NVML's answers have no common type
        """The answer of NVML, or None where there is no such thing."""
        try:
            return function(*arguments)
        except self.nvml.NVMLError as error:
            if error.value in self.absent:
                return None
            raise

    def profiles(self) -> dict[str, Any]:
        """What the card offers, by name; nothing where it has no MIG."""
        nvml, self.doing = self.nvml, "ask what it offers"
        if self.attempt(nvml.nvmlDeviceGetMigMode, self.card) is None:
            return {}
        numbers = range(nvml.NVML_GPU_INSTANCE_PROFILE_COUNT)
        found = (self.attempt(nvml.nvmlDeviceGetGpuInstanceProfileInfo, self.card, number) for number in numbers)
        return {_text(one.name).removeprefix("MIG "): one for one in found if one is not None}

    def places(self, kind: Any) -> list[Any]:  # noqa: ANN401 - a structure of pynvml's
        """Where a slice of a profile may begin, and how much memory it takes there."""
        room, count = (self.nvml.c_nvmlGpuInstancePlacement_t * ROOM)(), c_uint(ROOM)
        self.nvml.nvmlDeviceGetGpuInstancePossiblePlacements(self.card, kind.id, room, byref(count))
        return [room[at] for at in range(count.value)]

    def instances(self, kinds: dict[str, Any]) -> dict[tuple[str, int], Any]:
        """The GPU instances that are there, by profile and place."""
        found, self.doing = {}, "list its slices"
        for name, kind in kinds.items():
            room, count = (self.nvml.c_nvmlGpuInstance_t * ROOM)(), c_uint(ROOM)
            self.nvml.nvmlDeviceGetGpuInstances(self.card, kind.id, room, byref(count))
            for at in range(count.value):
                info = self.nvml.nvmlGpuInstanceGetInfo(room[at])
                found[name, info.placement.start] = self.nvml.nvmlDeviceGetGpuInstanceById(self.card, info.id)
        return found

    def set_mode(self, wanted: int) -> None:
        """Put the card into MIG mode, or out of it."""
        self.doing = "change its MIG mode"
        mode = self.attempt(self.nvml.nvmlDeviceGetMigMode, self.card)
        if mode is None or mode[0] == mode[1] == wanted:
            return
        status = self.nvml.nvmlDeviceSetMigMode(self.card, wanted)
        if status != self.nvml.NVML_SUCCESS:
            raise self.nvml.NVMLError(status)

    def parts(self, instance: Any) -> list[Any]:  # noqa: ANN401 - a pointer of pynvml's
        """The compute instances of a GPU instance."""
        get = self.nvml.nvmlGpuInstanceGetComputeInstanceById
        found = (self.attempt(get, instance, number) for number in range(MOST_COMPUTE))
        return [one for one in found if one is not None]

    def end(self, instance: Any) -> None:  # noqa: ANN401 - a pointer of pynvml's
        """Take a slice away."""
        self.doing = "take a slice away"
        for part in self.parts(instance):
            self.nvml.nvmlComputeInstanceDestroy(part)
        self.nvml.nvmlGpuInstanceDestroy(instance)

    def begin(self, kind: Any, start: int) -> Any:  # noqa: ANN401 - a structure and a pointer of pynvml's
        """A GPU instance of a profile at its place."""
        self.doing = f"make a slice at {start}"
        place = next(one for one in self.places(kind) if one.start == start)
        return self.nvml.nvmlDeviceCreateGpuInstanceWithPlacement(self.card, kind.id, byref(place))

    def fill(self, instance: Any, slices: int) -> None:  # noqa: ANN401 - a pointer of pynvml's
        """Its one compute instance, as large as itself."""
        nvml, self.doing = self.nvml, "make a slice's compute instance"
        if self.parts(instance):
            return
        for number in range(nvml.NVML_COMPUTE_INSTANCE_PROFILE_COUNT):
            ask = nvml.nvmlGpuInstanceGetComputeInstanceProfileInfo
            kind = self.attempt(ask, instance, number, nvml.NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED, 1)
            if kind is not None and kind.sliceCount == slices:
                nvml.nvmlGpuInstanceCreateComputeInstance(instance, kind.id)
                return
        raise nvml.NVMLError(nvml.NVML_ERROR_NOT_SUPPORTED)

    def uuids(self) -> dict[int, tuple[str, int]]:
        """UUID and compute instance of each slice, by its GPU instance."""
        nvml, found, self.doing = self.nvml, {}, "list its slices"
        for index in range(nvml.nvmlDeviceGetMaxMigDeviceCount(self.card)):
            one = self.attempt(nvml.nvmlDeviceGetMigDeviceHandleByIndex, self.card, index)
            if one is not None:
                part = nvml.nvmlDeviceGetComputeInstanceId(one)
                found[nvml.nvmlDeviceGetGpuInstanceId(one)] = (_text(nvml.nvmlDeviceGetUUID(one)), part)
        return found

    def make(self, wanted: list[tuple[str, int]]) -> list[list[Any]]:
        """Have exactly these slices, in their order; whoever is in use is not taken away."""
        self.set_mode(self.nvml.NVML_DEVICE_MIG_ENABLE)
        kinds = self.profiles()
        there = self.instances(kinds)
        for key in sorted(set(there) - set(wanted)):
            self.end(there.pop(key))
        for name, start in wanted:
            if (name, start) not in there:
                there[name, start] = self.begin(kinds[name], start)
            self.fill(there[name, start], kinds[name].sliceCount)
        told, answer = self.uuids(), list[list[Any]]()
        for name, start in wanted:
            number = self.nvml.nvmlGpuInstanceGetInfo(there[name, start]).id
            answer.append([told[number][0], number, told[number][1], kinds[name].memorySizeMB << 20])
        return answer

    def unmake(self) -> None:
        """Take all slices away, and the mode."""
        for instance in self.instances(self.profiles()).values():
            self.end(instance)
        self.set_mode(self.nvml.NVML_DEVICE_MIG_DISABLE)

    def offer(self) -> list[list[Any]]:
        """What the card offers."""
        offered = []
        for name, kind in self.profiles().items():
            places = self.places(kind)
            if places:
                starts = [one.start for one in places]
                offered.append([name, kind.sliceCount, places[0].size, starts, kind.memorySizeMB << 20])
        return offered


def done(nvml: Any, order: dict[str, Any]) -> dict[str, Any]:  # noqa: ANN401 - an untyped module
    """Do what an order says; the answer to it."""
    card = None
    try:
        nvml.nvmlInit()
        card = Divided(nvml, order["card"])
        answer: dict[str, Any] = {"minor": nvml.nvmlDeviceGetMinorNumber(card.card)}
        if order["do"] == "offer":
            return answer | {"profiles": card.offer()}
        if order["do"] == "make":
            return answer | {"slices": card.make([(name, start) for name, start in order["wanted"]])}
        card.unmake()
        return answer | {"slices": []}
    except nvml.NVMLError as error:
        return {"error": error.value, "what": card.doing if card else "begin", "text": str(error)}


def _text(value: Any) -> str:  # noqa: ANN401 - pynvml gives bytes or str, by its version
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


if __name__ == "__main__":
    sys.stdout.write(json.dumps(done(library(), json.loads(sys.stdin.readline()))))
