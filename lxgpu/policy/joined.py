"""Which slots of an instance end together: a process that works on several cards ends on all of them; pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from lxgpu.model.assignment import Assignment
from lxgpu.model.snapshot import Observation


def joined(
    seen: Observation, rows: Iterable[Assignment], *, idle: Callable[[Assignment], bool]
) -> tuple[tuple[Assignment, ...], ...]:
    """One instance's assignments in groups that a common process joins, by slot; what is idle alone stands alone.

    An idle slot that a process shares with a working one belongs to the work. Processes of others (a display server
    is on every card) join nothing, and neither does a card whose processes NVML does not tell.
    """
    groups: list[tuple[list[Assignment], set[int]]] = []
    for row in sorted(rows, key=lambda item: item.slot):
        merged, pids = [row], set(_pids(seen, row))
        for group in [item for item in groups if item[1] & pids]:
            groups.remove(group)
            merged, pids = group[0] + merged, pids | group[1]
        groups.append((merged, pids))
    apart: list[tuple[Assignment, ...]] = []
    for members, _ in groups:
        if all(idle(row) for row in members):
            apart.extend((row,) for row in members)
        else:
            apart.append(tuple(sorted(members, key=lambda item: item.slot)))
    return tuple(sorted(apart, key=lambda group: group[0].slot))


def _pids(seen: Observation, row: Assignment) -> Iterable[int]:
    reading = seen.readings.of(row.slot.gpu) if seen.readings else None
    found = reading.processes if reading else None
    return (process.pid for process in found or () if process.instance == row.instance)
