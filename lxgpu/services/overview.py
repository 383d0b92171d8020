"""`status`: the whole host in one value, with what is wrong and what to do about it; pure but for one look."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from lxgpu.errors import LxgpuError
from lxgpu.model.operation import Operation
from lxgpu.model.snapshot import Records
from lxgpu.ports import Engine, Pool
from lxgpu.services.cards import Cards
from lxgpu.services.headline import GpuCount, count
from lxgpu.services.listing import lost, remedy, some
from lxgpu.services.looking import Look
from lxgpu.services.views import InstanceView


@dataclass(frozen=True, slots=True)
class PoolView:
    """The storage pool and how full it is; None where LXD does not say."""

    name: str
    driver: str | None = None
    size_bytes: int | None = None
    used_bytes: int | None = None
    used_percent: float | None = None


@dataclass(frozen=True, slots=True)
class OperationView:
    """A change under way: at which step, begun when and by whom."""

    kind: str
    instance: str
    step: str | None
    since: datetime
    actor: str
    undoing: bool = False


@dataclass(frozen=True, slots=True)
class ProblemView:
    """Something wrong, what it is about, and the next step."""

    subject: str
    text: str
    fix: str


@dataclass(frozen=True, slots=True)
class StatusView:
    """One host. `containers` counts them by state."""

    host: str
    at: datetime
    driver: str | None
    gpus: GpuCount
    pool: PoolView
    containers: dict[str, int] = field(default_factory=dict)
    operations: tuple[OperationView, ...] = ()
    problems: tuple[ProblemView, ...] = ()


def pool_view(engine: Engine, name: str) -> PoolView:
    """How full the pool is; nothing is known when LXD does not answer."""
    try:
        pool = engine.pool(name)
    except LxgpuError as error:
        if error.code not in {"unavailable", "outcome_unknown", "engine", "not_found"}:
            raise
        return PoolView(name=name)
    return PoolView(name, pool.driver or None, pool.size_bytes, pool.used_bytes, _percent(pool))


def status_view(
    look: Look, cards: Cards, instances: Iterable[InstanceView], pool: PoolView, *, host: str, warn_percent: float
) -> StatusView:
    """Put together what was seen."""
    views = tuple(instances)
    return StatusView(
        host=host,
        at=look.at,
        driver=look.readings.driver,
        gpus=count(cards.views, look.at),
        pool=pool,
        containers=dict(sorted(Counter(view.state or "unknown" for view in views).items())),
        operations=tuple(_operation(row) for row in look.records.operations if row.live),
        problems=(
            *_of_host(look, pool, warn_percent),
            *_of_cards(cards),
            *_of_instances(look.records, views, look),
        ),
    )


def _of_host(look: Look, pool: PoolView, warn_percent: float) -> list[ProblemView]:
    found = []
    if look.trouble is not None:
        found.append(ProblemView("LXD", "; ".join([look.trouble.brief, *look.trouble.why]), look.trouble.fix))
    if look.readings.error:
        found.append(ProblemView("NVML", f"it does not answer: {look.readings.error}", "lxgpu doctor"))
    if pool.used_percent is not None and pool.used_percent >= warn_percent:
        text = f"it is {pool.used_percent:.0f}% full"
        found.append(ProblemView(f"pool {pool.name}", text, "lxgpu ls -o wide shows who uses it"))
    return found


def _of_cards(cards: Cards) -> list[ProblemView]:
    return [
        ProblemView(view.uuid, note, f"lxgpu why {view.uuid}")
        for view in cards.views
        if (note := cards.notes.get(view.uuid, "")) and view.health != "closed"
    ]


def _of_instances(records: Records, views: Iterable[InstanceView], look: Look) -> list[ProblemView]:
    found = [
        ProblemView(view.name, "the inventory has it, LXD does not", f"lxgpu why {view.name}")
        for view in views
        if view.state == "missing"
    ]
    unknown = lost(records, look.seen.sightings) if look.seen else ()
    if unknown:
        text = f"LXD has containers of lxgpu that the inventory does not know: {some(unknown)}"
        found.append(ProblemView("inventory", text, remedy(records)))
    return found


def _operation(row: Operation) -> OperationView:
    return OperationView(
        kind=row.kind,
        instance=row.instance,
        step=row.step or None,
        since=row.created_at,
        actor=row.actor,
        undoing=row.state.value == "undoing",
    )


def _percent(pool: Pool) -> float | None:
    if not pool.size_bytes or pool.used_bytes is None:
        return None
    return round(100 * pool.used_bytes / pool.size_bytes, 1)
