"""Rows in dicts, with the rules kept up at each change: what the twin in memory stands on."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

from lxgpu.errors import LxgpuError
from lxgpu.inventory.rows import RowKey, tables
from lxgpu.inventory.rules import RULES, Rule, broken
from lxgpu.model.snapshot import Row

_RULES_OF: dict[type[Row], tuple[Rule, ...]] = {
    kind: tuple(rule for rule in RULES if rule.kind is kind) for kind in tables()
}


class Heap:
    """All rows by kind and key. `change` is the one way to change it, and undoes as it does."""

    def __init__(self) -> None:
        self._living: dict[type[Row], dict[RowKey, Row]] = {kind: {} for kind in tables()}
        self._closed: dict[type[Row], dict[RowKey, Row]] = {kind: {} for kind in tables()}
        self._groups: dict[tuple[str, Hashable], dict[RowKey, Row]] = {}
        self._ordered: dict[type[Row], tuple[Row, ...]] = {}

    def get(self, kind: type[Row], key: RowKey) -> Row | None:
        """The row, living or closed."""
        return self._living[kind].get(key) or self._closed[kind].get(key)

    def all(self, kind: type[Row]) -> Iterator[Row]:
        """The living and the closed rows of a kind, in no order."""
        yield from self._living[kind].values()
        yield from self._closed[kind].values()

    def ordered(self, kind: type[Row]) -> tuple[Any, ...]:
        """The living rows of a kind, in the order of their keys."""
        found = self._ordered.get(kind)
        if found is None:
            found = self._ordered[kind] = in_order(self._living[kind])
        return found

    def living(self, kind: type[Row]) -> dict[RowKey, Row]:
        """A copy of the living rows of a kind."""
        return dict(self._living[kind])

    def conflict(self, row: Row) -> LxgpuError | None:
        """The error for the first rule that the row would break, or None."""
        key = tables()[type(row)].key_of(row)
        for rule in _RULES_OF[type(row)]:
            group = rule.group(row)
            if group is None:
                continue
            others = self._groups.get((rule.name, group), {})
            in_the_way = [other for other in others if other != key and rule.clash(row, others[other])]
            if in_the_way:
                return broken(rule, row, others[min(in_the_way)])
        return None

    def change(self, kind: type[Row], key: RowKey, row: Row | None) -> Row | None:
        """Puts the row in the place of the one of that key (None: removes that) and returns the one that was there."""
        old = self._living[kind].pop(key, None) or self._closed[kind].pop(key, None)
        for rule in _RULES_OF[kind]:
            self._regroup(rule, key, old, row)
        if row is not None:
            rows = self._living if tables()[kind].is_living(row) else self._closed
            rows[kind][key] = row
        self._ordered.pop(kind, None)
        return old

    def _regroup(self, rule: Rule, key: RowKey, old: Row | None, row: Row | None) -> None:
        before = None if old is None else rule.group(old)
        after = None if row is None else rule.group(row)
        if before is not None:
            members = self._groups[rule.name, before]
            del members[key]
            if not members:
                del self._groups[rule.name, before]
        if after is not None and row is not None:
            self._groups.setdefault((rule.name, after), {})[key] = row


def in_order(rows: dict[RowKey, Row]) -> tuple[Row, ...]:
    """The rows in the order of their keys."""
    return tuple([rows[key] for key in sorted(rows)])
