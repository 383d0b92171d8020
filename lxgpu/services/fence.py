"""The fence: proof that nobody holds a card, before anybody else gets it.

Three witnesses must agree: no open file or mapping of its nodes in any container, no process on NVML's list, and its
memory at base. A witness who cannot answer makes the verdict "unknown", and unknown is never free.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from lxgpu.errors import LxgpuError
from lxgpu.model.assignment import SlotRecord
from lxgpu.model.gpu import Gpu, Readings, Slot
from lxgpu.policy.reach import within_reach
from lxgpu.ports import Process
from lxgpu.services.site import Site

BASE_MEMORY = 768 * 1024**2
"""Bytes that a driver may keep on a card that nobody uses; MIG, ECC and persistence take their part."""


class FenceState(StrEnum):
    """What the fence says of a card."""

    PROVEN = "proven"
    HELD = "held"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class FenceVerdict:
    """The verdict with the processes that hold the card, and the reason in words."""

    state: FenceState
    processes: tuple[Process, ...] = ()
    why: str = ""


def judge(site: Site, gpu: Gpu, readings: Readings, *, suspects: Iterable[int]) -> FenceVerdict:
    """Look at one card with NVML's sample of this moment.

    `suspects` are the inits of the instances that may have it: those must not even hide anything.
    """
    looks = [site.probe.holders(None, gpu.nodes, uuid=gpu.uuid, readings=readings)]
    for init in suspects:
        try:
            looks.append(site.probe.holders(init, gpu.nodes, uuid=gpu.uuid, readings=readings))
        except LxgpuError as error:
            if error.code != "unavailable":
                raise
            return FenceVerdict(FenceState.UNKNOWN, why=error.brief)  # it has just ended; whoever asks again knows
    processes = tuple(sorted({item for look in looks for item in look.processes}))
    if processes:
        names = ", ".join(f"{item.command or 'process'} ({item.pid})" for item in processes[:5])
        return FenceVerdict(FenceState.HELD, processes, f"held by {names}")
    unknown = next((look.unknown for look in looks if look.unknown), "")
    if unknown:
        return FenceVerdict(FenceState.UNKNOWN, why=unknown)
    return _nvml(gpu, readings)


def _nvml(gpu: Gpu, readings: Readings) -> FenceVerdict:
    if readings.error:
        return FenceVerdict(FenceState.UNKNOWN, why=f"NVML does not answer: {readings.error}")
    reading = readings.of(gpu.uuid)
    if reading is None or reading.fault:
        fault = "does not list it" if reading is None else f"says {reading.fault}"
        return FenceVerdict(FenceState.UNKNOWN, why=f"NVML {fault}")
    working = [item for item in reading.processes or () if item.kind == "compute"]
    if working:
        pids = ", ".join(str(item.pid) for item in working[:5])
        return FenceVerdict(FenceState.HELD, why=f"NVML lists process {pids}")
    if reading.memory_used_bytes is None:
        return FenceVerdict(FenceState.UNKNOWN, why="NVML does not tell the memory in use")
    drawn = sum(item.memory_bytes or 0 for item in reading.processes or () if item.kind == "graphics")
    if reading.memory_used_bytes - drawn > BASE_MEMORY:
        used = reading.memory_used_bytes // 1024**2
        return FenceVerdict(FenceState.HELD, why=f"{used} MiB of its memory are in use, by whom is not known")
    return FenceVerdict(FenceState.PROVEN)


def prove(site: Site, gpus: Iterable[Gpu], *, suspects: Iterable[str] = ()) -> dict[str, FenceVerdict]:
    """Judge several cards with one NVML sample and write down those that are proven free.

    `suspects` are the instances that had them last; whom they can hand a descriptor to is looked at as well.
    """
    cards = tuple(gpus)
    at = site.clock.now()  # a proof is as old as its look began: what is detached meanwhile makes it void
    inits = _inits(site, tuple(suspects))
    readings = site.probe.readings()
    verdicts = {gpu.uuid: judge(site, gpu, readings, suspects=inits) for gpu in cards}
    boot = site.probe.boot_id()
    with site.write() as tx:
        for gpu in cards:
            if verdicts[gpu.uuid].state is FenceState.PROVEN:
                slot = Slot(gpu.uuid)
                known = tx.records.slot(slot) or SlotRecord(slot=slot, host=site.host)
                tx.put(replace(known, proven_at=at, boot_id=boot))
    return verdicts


def _inits(site: Site, names: tuple[str, ...]) -> list[int]:
    """The inits of those of the instances, and of those within their reach, that run."""
    if not names:
        return []
    reached = within_reach(names, site.engine.instances(with_state=False))
    seen = [site.engine.instance(name) for name in sorted(reached)]
    return [one.init_pid for one in seen if one is not None and one.init_pid is not None]
