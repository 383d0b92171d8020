"""The columns of the table of cards."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, cast

from lxgpu.cli.render import Column
from lxgpu.figures import short_size
from lxgpu.model.cardnames import lent_as, short_model, short_uuids
from lxgpu.model.gpu import is_part
from lxgpu.services.cardviews import FREE, SlotView

if TYPE_CHECKING:
    from lxgpu.services.cardviews import GpuView


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


def in_lines(views: Iterable[GpuView]) -> Iterator[GpuView]:
    """Cards for a table: below a divided card, with what is said of all of it, a line for each part."""
    for view in views:
        parts = [slot for slot in view.slots if is_part(slot.slot)]
        if not parts:
            yield view
            continue
        free = sum(slot.state == FREE for slot in parts)
        others = (slot for slot in view.slots if not is_part(slot.slot))
        yield replace(view, slots=(SlotView(view.uuid, None, f"{free} of {len(parts)} parts free"), *others))
        of_all = replace(view, health=None, verdict=None, utilization_percent=None, memory_used_bytes=None)
        for slot in parts:
            use, memory = slot.utilization_percent, slot.memory_used_bytes
            yield replace(of_all, memory_bytes=None, memory_used_bytes=memory, utilization_percent=use, slots=(slot,))


def _lent(item: object) -> str:
    """What a line is about: a card, or a part of one."""
    view = _gpu(item)
    return view.slots[0].slot if view.slots else view.uuid


def gpu_columns(
    views: tuple[GpuView, ...], notes: Mapping[str, str], show: Callable[[datetime], str], *, form: str
) -> tuple[Column, ...]:
    """Cards, one a line; tables for people write UUIDs as short as tells them apart, every other form whole."""
    people = form in {"table", "wide"}
    every = [*(view.uuid for view in views), *(slot.slot for view in views for slot in view.slots)]
    names: dict[str, str] = short_uuids(every) if people else {}

    def model(item: object) -> str | None:
        view = _gpu(item)
        return lent_as(view.model, _lent(view)) if people and view.model else view.model

    def note(item: object) -> str | None:
        view = _gpu(item)
        one_part = len(view.slots) == 1 and is_part(view.slots[0].slot)
        told = [*([] if one_part else [view.uuid]), *(slot.slot for slot in view.slots)]
        return "; ".join(dict.fromkeys(text for name in told if (text := notes.get(name)))) or None

    noted = (Column("NOTE", note),) if form == "csv" or any(notes.values()) else ()
    whole = (Column("UUID", "uuid", wide=True),) if form == "wide" else ()
    hosts = (Column("HOST", "host"),) if len({view.host for view in views}) > 1 else ()
    return (
        Column("GPU", _lent if people else "uuid", text=lambda uuid: names.get(uuid) or str(uuid)),
        *hosts,
        Column("MODEL", model if people else "model", text=short_model),
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
        Column("VERDICT", "verdict", wide=True),
        *whole,
    )
