"""Which slots of an instance end together: a process that works on several cards ends on all of them; pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from lxgpu.model.assignment import Assignment
from lxgpu.model.gpu import GpuProcess
from lxgpu.model.snapshot import Observation
from lxgpu.policy.tables import once_for_each


def joined(
    seen: Observation, rows: Iterable[Assignment], *, idle: Callable[[Assignment], bool]
) -> tuple[tuple[Assignment, ...], ...]:
    """One instance's assignments in groups that a common process joins, by slot; what is idle alone stands alone.

    An idle slot that a process shares with a working one belongs to the work. Processes of others (a display server
    is on every card) join nothing, and neither does a card whose processes NVML does not tell.
    """
    ordered = _by_slot(rows)
    if len(ordered) == 1:
        return (ordered,)
    groups: list[tuple[list[Assignment], set[int]]] = []
    for row in ordered:
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
            apart.append(_by_slot(members))
    return tuple(sorted(apart, key=lambda group: _place(group[0])))


def _by_slot(rows: Iterable[Assignment]) -> tuple[Assignment, ...]:
    rows = tuple(rows)
    return rows if len(rows) == 1 else tuple(sorted(rows, key=_place))


def _place(row: Assignment) -> tuple[str, str]:
    return (row.slot.gpu, row.slot.part)


def _pids(seen: Observation, row: Assignment) -> Iterable[int]:
    found = _processes(seen).get(row.slot.gpu, ())
    return (process.pid for process in found if process.instance == row.instance)


@once_for_each
def _processes(seen: Observation) -> Mapping[str, tuple[GpuProcess, ...]]:
    """The processes on each card of which NVML tells them; of one that it names twice those that it tells first."""
    items = seen.readings.items if seen.readings else ()
    return {reading.uuid: reading.processes or () for reading in reversed(items)}
