"""The columns of the tables of containers and cards."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, cast

from lxgpu.cli.render import Column

if TYPE_CHECKING:
    from lxgpu.services.cardviews import GpuView
    from lxgpu.services.views import InstanceView

SHORTEST = 12
"""Characters of a card's UUID in tables, `GPU-` included; more where two cards begin alike."""


def _size(value: float) -> str:
    from lxgpu.units import short_size  # noqa: PLC0415 -- for tables only

    return short_size(value)


def _left(at: datetime) -> str:
    from lxgpu.cli.times import left  # noqa: PLC0415

    return left(at)


def _day(at: datetime) -> str:
    return f"{at:%Y-%m-%d}"


def _instance(item: object) -> InstanceView:
    return cast("InstanceView", item)


def _models(item: object) -> str | None:
    """`A100-SXM4-80GB`, `2 A100…`; unknown ones are left out."""
    models = [held.model for held in _instance(item).gpus if held.model]
    return ", ".join(short_model(model) for model in dict.fromkeys(models)) or None


def _lease(item: object) -> datetime | None:
    return min((held.lease_until for held in _instance(item).gpus if held.lease_until), default=None)


def _login(item: object) -> str | None:
    ssh = _instance(item).ssh
    return f"{ssh.user}@{ssh.host}:{ssh.port}" if ssh.port else None


def short_model(model: str) -> str:
    """A model without its maker."""
    return model.removeprefix("NVIDIA ").removeprefix("GeForce ")


INSTANCE_COLUMNS = (
    Column("NAME", "name"),
    Column("STATE", "state"),
    Column("GPUS", lambda item: len(_instance(item).gpus)),
    Column("MODEL", _models),
    Column("LEASE", _lease, text=_left),
    Column("CPU", "limits.cpu"),
    Column("MEMORY", "limits.memory_bytes", text=_size),
    Column("LOGIN", _login),
    Column("OWNER", "owner", wide=True),
    Column("HOST", "host", wide=True),
    Column("CLASS", "class_", wide=True),
    Column("DISK", "limits.disk_bytes", text=_size, wide=True),
    Column("USED", "disk_used_bytes", text=_size, wide=True),
    Column("PROCESSES", "limits.processes", wide=True),
    Column("CREATED", "created_at", text=_day, wide=True),
    Column("EXPIRES", "expires", text=_day, wide=True),
)
"""Containers, one a line. LEASE is what is left of the lease that ends first."""


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
        Column("MEMORY", "memory_used_bytes", text=_size),
        Column("HEALTH", "health"),
        *noted,
        Column("IDX", "index", wide=True),
        Column("PCI", "pci", wide=True),
        Column("TOTAL", "memory_bytes", text=_size, wide=True),
        Column("MODE", "mode", wide=True),
        Column("VERDICT", "verdict", wide=True),
        *whole,
    )


def short_uuids(uuids: list[str]) -> dict[str, str]:
    """Each UUID and its shortest beginning that no other one has."""
    length = SHORTEST
    while len({uuid[:length] for uuid in uuids}) < len(set(uuids)):
        length += 1
    return {uuid: uuid[:length].rstrip("-") if length < len(uuid) else uuid for uuid in uuids}
