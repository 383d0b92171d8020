"""The columns of the table of containers; light to load, since `ls` must cost hardly more than `lxc list`."""

from __future__ import annotations

from lxgpu.cli.plain import pick
from lxgpu.cli.render import Column
from lxgpu.figures import short_duration, short_size
from lxgpu.model.cardnames import lent_as, short_model

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime
    from typing import Any


def left(at: datetime, *, now: datetime | None = None) -> str:
    """What is left until a point in time: `2d4h`, `over`."""
    from datetime import UTC, datetime  # noqa: PLC0415 -- for tables only

    seconds = (at - (now or datetime.now(UTC))).total_seconds()
    return short_duration(seconds) if seconds > 0 else "over"


def _day(at: datetime) -> str:
    return f"{at:%Y-%m-%d}"


def _held(item: object, field: str) -> list[Any]:
    """A field of all cards that a container holds, as far as it is known."""
    cards: Any = pick(item, "gpus")
    return [value for card in cards if (value := pick(card, field)) is not None]


def _models(item: object) -> str | None:
    cards: Any = pick(item, "gpus")
    models: list[Any] = [(pick(card, "model"), pick(card, "slot")) for card in cards]
    return ", ".join(dict.fromkeys(short_model(lent_as(model, slot)) for model, slot in models if model)) or None


def _lease(item: object) -> datetime | None:
    return min(_held(item, "lease_until"), default=None)


def _login(item: object) -> str | None:
    user, host, port = (pick(item, f"ssh.{part}") for part in ("user", "host", "port"))
    return f"{user}@{host}:{port}" if port else None


INSTANCE_COLUMNS = (
    Column("NAME", "name"),
    Column("STATE", "state"),
    Column("GPUS", lambda item: len(_held(item, "state"))),
    Column("MODEL", _models),
    Column("LEASE", _lease, text=left),
    Column("CPU", "limits.cpu"),
    Column("MEMORY", "limits.memory_bytes", text=short_size),
    Column("LOGIN", _login),
    Column("OWNER", "owner", wide=True),
    Column("KIND", "kind", wide=True),
    Column("HOST", "host", wide=True),
    Column("CLASS", "class", wide=True),
    Column("DISK", "limits.disk_bytes", text=short_size, wide=True),
    Column("USED", "disk_used_bytes", text=short_size, wide=True),
    Column("PROCESSES", "limits.processes", wide=True),
    Column("CREATED", "created_at", text=_day, wide=True),
    Column("EXPIRES", "expires", text=_day, wide=True),
)
"""Containers, one a line. LEASE is what is left of the lease that ends first."""


def with_host(columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """The same with the host behind the name, for a list of several hosts' containers."""
    name, *others = (column for column in columns if column.header != "HOST")
    return name, Column("HOST", "host"), *others
