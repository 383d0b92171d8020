"""The fence: proof that nobody holds a card, before anybody else gets it.

Three witnesses must agree: no open file or mapping of its nodes in any container, no process on NVML's list, and its
memory at base. A witness who cannot answer makes the verdict "unknown", and unknown is never free.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from lxgpu.errors import LxgpuError
from lxgpu.model.assignment import SlotRecord
from lxgpu.model.gpu import MISSING, WHOLE, Gpu, Reading, Readings, Slot
from lxgpu.model.instance import Sighting
from lxgpu.model.layout import looked_at
from lxgpu.policy.reach import within_reach
from lxgpu.ports import Holders, Process
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


@dataclass(frozen=True, slots=True)
class Look:
    """A look at cards for holders, when it began (a proof is as old as that), and what it says of each by UUID."""

    at: datetime
    verdicts: Mapping[str, FenceVerdict]


def look(
    site: Site,
    gpus: Iterable[Gpu],
    *,
    suspects: Iterable[str] = (),
    seen: Iterable[Sighting] = (),
    at_once: bool = False,
) -> Look:
    """Judge cards with one NVML sample and one pass over everybody's processes.

    `suspects` are the instances that had them last: those, and whom they can hand a descriptor to, must not even hide
    anything. `seen` are sightings of some of them from a moment ago. `at_once`: a look just found nobody in them.

    Of a divided card, who holds its other parts is left out: their work on it is theirs by right. What that proves is
    less than of a whole card: nothing about memory, and nothing about what such a neighbour was handed. Of a MIG slice
    NVML tells processes and memory by themselves.
    """
    known, names = {one.name: one for one in seen}, tuple(suspects)
    looks = [
        _look(site, cards, by_right, names, known, at_once=at_once)
        for by_right, cards in _by_neighbours(site, tuple(gpus)).items()
    ]
    verdicts = {uuid: verdict for one in looks for uuid, verdict in one.verdicts.items()}
    return Look(min((one.at for one in looks), default=site.clock.now()), verdicts)


def _look(
    site: Site,
    cards: Sequence[Gpu],
    by_right: frozenset[str],
    suspects: Sequence[str],
    known: Mapping[str, Sighting],
    *,
    at_once: bool,
) -> Look:
    """Cards that have the same neighbours, `by_right`: of one without any nobody is left out."""
    at, names = site.clock.now(), tuple(name for name in suspects if name not in by_right)
    looks: list[Mapping[str, Holders]] = []
    gone = ""
    with ThreadPoolExecutor(max_workers=1) as pool:
        listed = pool.submit(site.engine.instances, with_state=False) if names else None
        readings = _without(site.probe.readings(), by_right)
        apart = [one.init_pid for one in known.values() if one.name in names and one.init_pid is not None]
        apart += _inits(site, by_right)
        there = looked_at(cards)
        looks.append(site.probe.holders(None, there, but=apart, readings=readings))
        circles = _circles(site, names, listed.result(), known, but=by_right) if listed else []
    for circle in circles:
        try:
            looks.append(site.probe.holders(circle, there, at_once=at_once, readings=readings))
        except LxgpuError as error:
            if error.code != "unavailable":
                raise
            gone = error.brief  # it has just ended; whoever asks again knows
    shared = bool(by_right)
    return Look(
        at,
        {gpu.uuid: _verdict(gpu, [one[_where(gpu)] for one in looks], readings, gone, shared=shared) for gpu in cards},
    )


def _where(gpu: Gpu) -> str:
    """Under what name it was looked at: a time share under its card's."""
    return gpu.card if gpu.of is None else gpu.uuid


def _by_neighbours(site: Site, gpus: Sequence[Gpu]) -> Mapping[frozenset[str], Sequence[Gpu]]:
    """The cards by who holds other parts of them, which nobody does of a whole one."""
    asked, parts = {gpu.uuid for gpu in gpus}, defaultdict[str, set[str]](set)
    for row in site.inventory.read().assignments:
        if row.live and row.slot.part != WHOLE and row.slot.gpu not in asked:
            parts[row.slot.card].add(row.instance)
    found: defaultdict[frozenset[str], list[Gpu]] = defaultdict(list)
    for gpu in gpus:
        found[frozenset(parts.get(gpu.card, ()))].append(gpu)
    return found


def _without(readings: Readings, names: frozenset[str]) -> Readings:
    """A sample without the processes of some instances."""
    if not names:
        return readings
    items = (
        item
        if item.processes is None
        else replace(item, processes=tuple(one for one in item.processes if one.instance not in names))
        for item in readings.items
    )
    return replace(readings, items=tuple(items))


def _inits(site: Site, names: Iterable[str]) -> list[int]:
    seen = (site.engine.glimpse(name) for name in sorted(names))
    return [one.init_pid for one in seen if one is not None and one.init_pid is not None]


def _verdict(gpu: Gpu, looks: Iterable[Holders], readings: Readings, gone: str, *, shared: bool) -> FenceVerdict:
    found = tuple(looks)
    processes = tuple(sorted({item for one in found for item in one.processes}))
    if processes:
        names = ", ".join(f"{item.command or 'process'} ({item.pid})" for item in processes[:5])
        return FenceVerdict(FenceState.HELD, processes, f"held by {names}")
    unknown = gone or next((one.unknown for one in found if one.unknown), "")
    if unknown:
        return FenceVerdict(FenceState.UNKNOWN, why=unknown)
    return _nvml(gpu, readings, shared=gpu.of is None and (shared or gpu.divided))


def _nvml(gpu: Gpu, readings: Readings, *, shared: bool) -> FenceVerdict:
    if readings.error:
        return FenceVerdict(FenceState.UNKNOWN, why=f"NVML does not answer: {readings.error}")
    reading = readings.lent(gpu)
    if reading is not None and reading.fault == MISSING:
        card = readings.of(gpu.card)
        if not gpu.slice and card is not None and card.slices:
            return FenceVerdict(FenceState.UNKNOWN, why="which of its card's MIG slices it is has yet to be found out")
        return FenceVerdict(FenceState.PROVEN)  # a MIG slice that is not there is held by nobody
    if reading is None or reading.fault:
        fault = "does not list it" if reading is None else f"says {reading.fault}"
        return FenceVerdict(FenceState.UNKNOWN, why=f"NVML {fault}")
    working = [item for item in reading.processes or () if item.kind == "compute"]
    if working:
        pids = ", ".join(str(item.pid) for item in working[:5])
        return FenceVerdict(FenceState.HELD, why=f"NVML lists process {pids}")
    # Whose the memory in use of a shared card is cannot be told.
    return FenceVerdict(FenceState.PROVEN) if shared else _memory(reading)


def _memory(reading: Reading) -> FenceVerdict:
    if reading.memory_used_bytes is None:
        return FenceVerdict(FenceState.UNKNOWN, why="NVML does not tell the memory in use")
    drawn = sum(item.memory_bytes or 0 for item in reading.processes or () if item.kind == "graphics")
    if reading.memory_used_bytes - drawn > BASE_MEMORY:
        used = reading.memory_used_bytes // 1024**2
        return FenceVerdict(FenceState.HELD, why=f"{used} MiB of its memory are in use, by whom is not known")
    return FenceVerdict(FenceState.PROVEN)


def prove(site: Site, gpus: Iterable[Gpu], *, suspects: Iterable[str] = ()) -> Mapping[str, FenceVerdict]:
    """Look at cards (see `look`) and write down those that are proven free."""
    found = look(site, gpus, suspects=suspects)
    with site.write() as tx:
        for proof in proofs(site, found):
            known = tx.records.slot(proof.slot) or proof
            tx.put(replace(known, proven_at=proof.proven_at, boot_id=proof.boot_id))
    return found.verdicts


def proofs(site: Site, found: Look) -> list[SlotRecord]:
    """What a look has proven free, as bare rows; what was detached after it began is not proven by it."""
    boot = site.probe.boot_id()
    proven = sorted(uuid for uuid, verdict in found.verdicts.items() if verdict.state is FenceState.PROVEN)
    return [SlotRecord(slot=Slot(uuid), host=site.host, proven_at=found.at, boot_id=boot) for uuid in proven]


def _circles(
    site: Site,
    names: tuple[str, ...],
    sightings: Sequence[Sighting],
    known: Mapping[str, Sighting],
    *,
    but: frozenset[str],
) -> list[list[int]]:
    """The inits of those of the instances, and of those within their reach, that run; who can meet stands together."""
    circles: list[list[int]] = []
    met: set[str] = set()
    for name in names:
        if name not in met:
            circle = within_reach([name], sightings) - but
            met |= circle
            seen = [known.get(one) or site.engine.glimpse(one) for one in sorted(circle)]
            circles.append([one.init_pid for one in seen if one is not None and one.init_pid is not None])
    return [circle for circle in circles if circle]
