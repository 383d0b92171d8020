"""What one person may have, at length: terms, classes, and the totals of their groups."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime

from lxgpu.figures import n_gpus
from lxgpu.instants import show_instant
from lxgpu.model.quota import Entitlement, Policy
from lxgpu.units import format_duration, format_size

Sheet = Sequence[tuple[str, Sequence[str]]]
"""Labels and their lines; see `Output.sheet`."""


def person_sheet(policy: Policy, row: Entitlement, unix_groups: Collection[str], now: datetime) -> Sheet:
    """Labelled lines about one person; `unix_groups` are those of the host that they are in."""
    until = f"; until {show_instant(row.until, now=now, zone=policy.zone)}" if row.until else ""
    over = " (over: no card is lent any more)" if row.ended(now) else ""
    hours = row.gpu_hours
    memory, disk = format_size(row.memory_bytes), format_size(row.disk_bytes)
    each = f"{row.per_gpu_cpu} cores, {format_size(row.per_gpu_memory_bytes)} for each GPU"
    return (
        ("", [f"{row.person}: {_gpus(row.guaranteed)} guaranteed, {row.limit} at most{until}{over}"]),
        ("lease", [format_duration(row.lease_s)]),
        ("GPU-hours", [f"{hours.amount} in {format_duration(hours.window_s)}"] if hours else []),
        ("class", [row.class_name]),
        ("may ask in", list(_classes(policy, row.person, unix_groups, now)) or ["no class"]),
        ("groups", [_group(policy, name, now) for name in row.groups] or ["none"]),
        ("container", [f"{row.cpu} cores, {memory}, {disk} disk, {row.processes} processes", f"and {each}"]),
        ("idle cards", ["are lent on"] if row.lend_idle else []),
        ("mail", [row.mail] if row.mail else []),
        ("admin", ["yes"] if policy.is_admin(row.person, unix_groups) else []),
    )


def _classes(policy: Policy, person: str, unix_groups: Collection[str], now: datetime) -> Iterator[str]:
    """The classes in which they may ask, the highest first."""
    for name, one in sorted(policy.classes.items(), key=lambda item: (-item[1].priority, item[0])):
        if policy.may_use(name, person, unix_groups, now):
            most = f", {_gpus(one.max_gpus)} at most" if one.max_gpus is not None else ""
            borrows = ", may borrow idle cards" if one.borrow else ""
            yield f"{name} (priority {one.priority}{most}{borrows})"


def _gpus(count: int) -> str:
    return n_gpus(count)


def _group(policy: Policy, name: str, now: datetime) -> str:
    total = policy.group_total(name, now)
    most = f", {total.limit} at most" if total.limit is not None else ", no limit"
    return f"{name}: all together {total.guaranteed} guaranteed{most}"
