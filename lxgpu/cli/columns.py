"""The columns of the table of cards."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, cast

from lxgpu.cli.render import Column
from lxgpu.figures import short_size
from lxgpu.model.cardnames import short_model, short_uuids
from lxgpu.model.gpu import is_part

if TYPE_CHECKING:
    from lxgpu.services.cardviews import GpuView, SlotView


def _gpu(item: object) -> GpuView:
    return cast("GpuView", item)


def _of_slots(field: str) -> Callable[[object], object]:
    """The values of a field over a card's slots, each once; None when there is none."""

    def values(item: object) -> object:
        found = [value for slot in _gpu(item).slots if (value := getattr(slot, field)) is not None]
        return list(dict.fromkeys(found)) or None

    return values


def _until(item: object) -> datetime | None:
    return min((slot.lease_until for slot in _gpu(item).slots if slot.lease_until), default=None)


def _use(item: object) -> str | None:
    view = _gpu(item)
    return view.verdict if view.utilization_percent is None else f"{view.utilization_percent}%"


def _parts(item: object) -> list[str] | None:
    """Of a divided card, who takes how much memory: `1/4 alice 3GiB`; None of a whole one."""
    parts = [slot for slot in _gpu(item).slots if is_part(slot.slot)]
    return [" ".join(_of_part(slot)) for slot in parts if slot.holder] if parts else None


def _of_part(slot: SlotView) -> list[str]:
    memory = "?" if slot.memory_used_bytes is None else short_size(slot.memory_used_bytes)
    return [slot.slot.partition("/")[2], slot.holder or "", memory]


def gpu_columns(
    views: tuple[GpuView, ...], notes: Mapping[str, str], show: Callable[[datetime], str], *, form: str
) -> tuple[Column, ...]:
    """Cards, one a line; tables for people write UUIDs as short as tells them apart, every other form whole."""
    names: dict[str, str] = short_uuids([view.uuid for view in views]) if form in {"table", "wide"} else {}
    noted = (
        (Column("NOTE", lambda item: notes.get(_gpu(item).uuid) or None),)
        if form == "csv" or any(notes.values())
        else ()
    )
    whole = (Column("UUID", "uuid", wide=True),) if form == "wide" else ()
    return (
        Column("GPU", "uuid", text=lambda uuid: names.get(uuid) or str(uuid)),
        Column("MODEL", "model", text=short_model),
        Column("STATE", _of_slots("state")),
        Column("HOLDER", _of_slots("holder")),
        Column("UNTIL", _until, text=show),
        Column("USE", _use),
        Column("MEMORY", "memory_used_bytes", text=short_size),
        Column("HEALTH", "health"),
        *noted,
        Column("IDX", "index", wide=True),
        Column("PCI", "pci", wide=True),
        Column("TOTAL", "memory_bytes", text=short_size, wide=True),
        Column("MODE", "mode", wide=True),
        Column("PARTS", _parts, wide=True),
        Column("VERDICT", "verdict", wide=True),
        *whole,
    )
