"""How cards are divided: parts of a card as what is lent, and cards as they are known to LXD and NVML; pure.

A request for a quarter of a card or more has the model `* 0.25`, one for a MIG slice `* 3g.20gb`.

A layout is written `4`: four time shares, or `3g.20gb+2g.10gb`: MIG slices (`model.slices`). An empty one is a whole
card. The second of four shares of `GPU-3f2a` is lent as `GPU-3f2a/2/4`, and its model is `NVIDIA RTX 3090 1/4`: another
kind of card, which nobody gets who asks for a whole one. The first slice of `GPU-77aa` is lent as `GPU-77aa/1-3g.20gb`,
and its model is `NVIDIA A100-SXM4-40GB 3g.20gb`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from lxgpu.model.gpu import Gpu, GpuProcess, Reading, Readings, profile_of, share_of
from lxgpu.model.rules import CardRule, Mode
from lxgpu.model.slices import Slice, in_slices, profiles, slice_names

Made = Mapping[str, tuple[Slice, ...]]
"""The MIG slices that are made, by the UUID of their card, in the order of its layout."""
_NONE: Made = {}


def layout_of(rule: CardRule) -> str:
    """The layout that a rule of the policy asks for."""
    if rule.mode is Mode.MIG:
        return "+".join(rule.slices)
    return str(rule.slots) if rule.mode is Mode.TIMESHARE and rule.slots > 1 else ""


def names(uuid: str, layout: str) -> tuple[str, ...]:
    """What is lent of a card under a layout, by name, as `Slot.gpu` has it."""
    if in_slices(layout):
        return slice_names(uuid, layout)
    return tuple(f"{uuid}/{number}/{layout}" for number in range(1, int(layout) + 1)) if layout else (uuid,)


def divide(gpus: Iterable[Gpu], layouts: Mapping[str, str], made: Made = _NONE) -> tuple[Gpu, ...]:
    """What is lent of some cards, parts in the place of the divided ones; `layouts` by UUID, none is needed."""
    if not any(layouts.values()):
        return tuple(gpus)
    return tuple(part for gpu in gpus for part in _parts(gpu, layouts.get(gpu.uuid, ""), made.get(gpu.uuid, ())))


def part_of(gpu: Gpu, name: str) -> Gpu | None:
    """The time share of a whole card that is lent under a name; None: the card would have no such part.

    A MIG slice is not known by its name alone.
    """
    layout = name.rpartition("/")[2]
    found = _parts(gpu, layout) if name.startswith(f"{gpu.uuid}/") and layout.isdecimal() and int(layout) else ()
    return next((part for part in found if part.uuid == name), None)


def whole(gpus: Iterable[Gpu]) -> tuple[Gpu, ...]:
    """The cards behind what is lent, each once, as they would be lent whole."""
    cards = {gpu.card: gpu for gpu in gpus}
    return tuple(_joined(gpu) if gpu.divided else gpu for gpu in cards.values())


def looked_at(gpus: Iterable[Gpu]) -> tuple[Gpu, ...]:
    """Where to look for who uses what is lent: whole cards in the place of time shares, MIG slices as they are."""
    gpus = tuple(gpus)
    return (*whole(gpu for gpu in gpus if gpu.of is None), *(gpu for gpu in gpus if gpu.of is not None))


def divide_readings(
    readings: Readings, layouts: Mapping[str, str], holders: Mapping[str, str], made: Made = _NONE
) -> Readings:
    """NVML's sample with one entry for each part of a divided card.

    What computes on the card counts for the part that its instance holds (`holders`: instance by the part's name). How
    busy each is NVML does not say: a part without such a process is idle, any other one counts as busy as the card. A
    process of nobody known may be anybody's: then nobody is taken for idle. A MIG slice has a sample of its own.
    """
    if not any(layouts.values()):
        return readings
    items = [
        part
        for item in readings.items
        for part in _shared(item, layouts.get(item.uuid, ""), holders, made.get(item.uuid, ()))
    ]
    return replace(readings, items=tuple(items))


class Kind(NamedTuple):
    """A model, or a pattern of models: its name without the part of a card at its end, and that part.

    `share` is how much of a card it is, or with `least` how much at least.
    """

    name: str
    share: float = 1.0
    least: bool = False
    part: str = ""


@lru_cache(maxsize=512)
def kind(model: str) -> Kind:
    """What a model, or a pattern of models, means.

    `NVIDIA T4 1/4` is a quarter, `* 0.25` at least a quarter, `* 3g.20gb` such a MIG slice, `*` a whole card.
    """
    name, _, part = model.rpartition(" ")
    if name and (profile_of(part) or (part.startswith("1/") and share_of(part) < 1)):
        return Kind(name, share_of(part), part=part)
    if name and part.startswith("0.") and part[2:].isdecimal() and float(part) > 0:
        return Kind(name, float(part), least=True, part=part)
    return Kind(model)


def suits(model: str, pattern: str) -> bool:
    """Whether a pattern means as much of a card as the model is: a whole one, exactly such a part, or one so large."""
    there, asked = kind(model), kind(pattern)
    return bool(there.part) and asked.share <= there.share if asked.least else there.part == asked.part


def in_parts(pattern: str) -> bool:
    """Whether a model, or a pattern of models, means parts of cards."""
    return bool(kind(pattern).part)


def _parts(gpu: Gpu, layout: str, made: tuple[Slice, ...] = ()) -> Iterable[Gpu]:
    if not layout:
        return (gpu,)
    if in_slices(layout):
        there = made or (None,) * len(profiles(layout))
        return (_slice(gpu, name, one) for name, one in zip(names(gpu.uuid, layout), there, strict=True))
    memory = None if gpu.memory_bytes is None else gpu.memory_bytes // int(layout)
    return (
        replace(gpu, uuid=name, model=f"{gpu.model} 1/{layout}", memory_bytes=memory)
        for name in names(gpu.uuid, layout)
    )


def _slice(gpu: Gpu, name: str, made: Slice | None) -> Gpu:
    own = tuple(node for node in gpu.nodes if node.path.startswith("nvidia"))
    part = replace(gpu, uuid=name, model=f"{gpu.model} {profile_of(name)}", of=gpu, nodes=own, memory_bytes=None)
    if made is None:
        return part
    return replace(part, nodes=(*own, *made.nodes), memory_bytes=made.memory_bytes, slice=made.uuid)


def _joined(part: Gpu) -> Gpu:
    if part.of is not None:
        return part.of
    found = kind(part.model)
    memory = None if part.memory_bytes is None else round(part.memory_bytes / found.share)
    return replace(part, uuid=part.card, model=found.name, memory_bytes=memory)


def _shared(item: Reading, layout: str, holders: Mapping[str, str], made: tuple[Slice, ...]) -> Iterable[Reading]:
    if not layout:
        return (item,)
    if in_slices(layout):
        uuids = [one.uuid for one in made] or [""] * len(profiles(layout))
        return (item.of_slice(uuid, name) for uuid, name in zip(uuids, names(item.uuid, layout), strict=True))
    return (_share(item, name, holders.get(name, ""), int(layout)) for name in names(item.uuid, layout))


def _share(item: Reading, name: str, holder: str, number: int) -> Reading:
    total = None if item.memory_total_bytes is None else item.memory_total_bytes // number
    part = replace(item, uuid=name, memory_total_bytes=total)
    if item.processes is None:
        return replace(part, utilization_percent=None, memory_used_bytes=None)
    mine = tuple(one for one in item.processes if holder and one.instance == holder)
    return replace(part, processes=mine, utilization_percent=_busy(item, mine), memory_used_bytes=_memory(mine))


def _busy(item: Reading, mine: tuple[GpuProcess, ...]) -> int | None:
    if any(one.kind == "compute" for one in mine):
        return item.utilization_percent
    return None if any(one.kind == "compute" and one.instance is None for one in item.processes or ()) else 0


def _memory(mine: tuple[GpuProcess, ...]) -> int | None:
    amounts = [one.memory_bytes for one in mine]
    return None if None in amounts else sum(one for one in amounts if one is not None)
