"""What is found in a table is found once: for the same table, and for one that differs from it in a few rows.

A table is a tuple of rows that never changes. One that is worked on hands its indices on to the next tuple, so that a
decision costs what it changes, and not what there is.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from functools import partial, update_wrapper
from operator import is_
from threading import Lock
from typing import Any, Generic, Protocol, TypeVar


class Named(Protocol):
    """A row: something with an id."""

    @property
    def id(self) -> str:
        """What it is known by."""


Item = TypeVar("Item")
Row = TypeVar("Row", bound=Named)
Table = TypeVar("Table")
Found = TypeVar("Found")
Key = TypeVar("Key", bound=Hashable)

_KEPT = 8
"""So many tables of a kind are remembered, those that were asked about last: of one decision, and of the one before."""
_MOST = 4096
"""So many keys are remembered at the most: hosts."""


class Once(Generic[Table, Found]):
    """A function of a table that is worked out once for each table; by identity, since comparing costs as much.

    Threads may share it, as the daemon's turns and its answers do; two that ask at once may both work it out.
    """

    def __init__(self, find: Callable[[Table], Found], kept: int = _KEPT) -> None:
        self._find, self._most = find, kept
        self._known: OrderedDict[int, tuple[Table, Found]] = OrderedDict()
        self._last: tuple[Table, Found] | None = None
        self._lock = Lock()
        update_wrapper(self, find)

    def __call__(self, rows: Table) -> Found:
        """What the function finds in the table."""
        last = self._last
        if last is not None and last[0] is rows:
            return last[1]
        with self._lock:
            kept = self._known.get(id(rows))
            if kept is not None and kept[0] is rows:
                self._known.move_to_end(id(rows))
                self._last = kept
                return kept[1]
        return self.remember(rows, self._find(rows))

    def known(self, rows: Table) -> Found | None:
        """What was found in a table, if it is known."""
        kept = self._known.get(id(rows))
        return kept[1] if kept is not None and kept[0] is rows else None

    def remember(self, rows: Table, found: Found) -> Found:
        """What is found in a table, from somebody who knows."""
        with self._lock:
            self._last = self._known[id(rows)] = (rows, found)  # the table is kept with it: its id stays its own
            self._known.move_to_end(id(rows))
            while len(self._known) > self._most:
                self._known.popitem(last=False)
        return found


once = Once
"""As a decorator."""
once_for_each = partial(Once, kept=16)
"""The same of what hosts showed, of which several look in turn."""


class Latest(Generic[Item, Found]):
    """A function that is worked out again only when anything that it rests on is another one; the latest by key.

    What it rests on is compared by identity: rows never change, and tables hand on the groups that stay the same.
    """

    def __init__(
        self,
        find: Callable[[Item], Found],
        *,
        key: Callable[[Item], Hashable],
        rests_on: Callable[[Item], tuple[object, ...]],
    ) -> None:
        self._find, self._key, self._rests_on = find, key, rests_on
        self._known: dict[Hashable, tuple[Item, tuple[object, ...], Found]] = {}
        update_wrapper(self, find)

    def __call__(self, item: Item) -> Found:
        """What the function finds."""
        key = self._key(item)
        known = self._known.get(key)
        if known is not None and known[0] is item:
            return known[2]
        rests_on = self._rests_on(item)
        same = known is not None and len(known[1]) == len(rests_on) and all(map(is_, known[1], rests_on))
        found = known[2] if known is not None and same else self._find(item)
        if len(self._known) >= _MOST:
            self._known.clear()
        self._known[key] = item, rests_on, found
        return found


class Groups(Once[tuple[Item, ...], Mapping[Key, Sequence[Item]]]):
    """The rows of a table by a key; those whose key is None are left out."""

    def __init__(self, key: Callable[[Item], Key | None]) -> None:
        super().__init__(self._grouped)
        self.key = key

    def _grouped(self, rows: tuple[Item, ...]) -> Mapping[Key, Sequence[Item]]:
        found: defaultdict[Key, list[Item]] = defaultdict(list)
        for row in rows:
            key = self.key(row)
            if key is not None:
                found[key].append(row)
        return dict(found)


class _Overlay(Generic[Row]):
    """The groups of a table that is worked on: those of the first tuple, and a copy of each that has changed since."""

    def __init__(self, groups: Groups[Row, Any], rows: tuple[Row, ...]) -> None:
        self._key, self._now = groups.key, groups(rows)
        self._copy: dict[Any, Sequence[Row]] = {}
        """The same as `_now` as long as anything has changed."""
        self._own: dict[Hashable, dict[str, Row]] = {}

    def of(self, key: Hashable) -> Collection[Row]:
        own = self._own.get(key)
        return self._now.get(key, ()) if own is None else own.values()

    def change(self, before: Row | None, after: Row | None) -> None:
        old = None if before is None else self._key(before)
        new = None if after is None else self._key(after)
        if before is not None and old is not None and old != new:
            rows = self._changing(old)
            del rows[before.id]
            if not rows:
                del self._own[old], self._copy[old]
        if after is not None and new is not None:
            self._changing(new)[after.id] = after

    def found(self) -> Mapping[Any, Sequence[Row]]:
        """The groups as they are by now."""
        if not self._own:
            return self._now
        return {**self._now, **{key: tuple(rows.values()) for key, rows in self._own.items()}}

    def _changing(self, key: Hashable) -> dict[str, Row]:
        if key not in self._own:
            if not self._own:
                self._now = self._copy = dict(self._now)
            self._own[key] = {row.id: row for row in self._now.get(key, ())}
            self._copy[key] = ()  # keeps its place among the others
        return self._own[key]


class Working(Generic[Row]):
    """A table while rows are put into it and dropped. `rows` has them all by id, in order.

    `shown` is the tuple as it is by now, of the rows that are `living`, with everything that is known of it.
    """

    def __init__(
        self,
        rows: tuple[Row, ...],
        by_id: Once[tuple[Row, ...], Mapping[str, Row]],
        groups: Collection[Groups[Row, Any]],
        living: Callable[[Row], bool] = lambda _row: True,
    ) -> None:
        self._shown: tuple[Row, ...] | None = rows
        self._by_id, self._living = by_id, living
        self._over: set[str] = set()
        self._first, self._groups = rows, groups
        self._overlays: dict[Groups[Row, Any], _Overlay[Row]] = {}
        self.rows = dict(by_id(rows))

    def of(self, groups: Groups[Row, Key], key: Key) -> Collection[Row]:
        """The rows of one group."""
        return self._overlay(groups).of(key)

    def found(self, groups: Groups[Row, Key]) -> Mapping[Key, Sequence[Row]]:
        """All groups."""
        return self._overlay(groups).found()

    def put(self, row: Row) -> None:
        """A row as it is to be."""
        self._change(self.rows.get(row.id), row)
        self.rows[row.id] = row
        if self._living(row):
            self._over.discard(row.id)
        else:
            self._over.add(row.id)

    def drop(self, identifier: str) -> None:
        """A row that is to be no more."""
        self._change(self.rows.pop(identifier, None), None)
        self._over.discard(identifier)

    def shown(self) -> tuple[Row, ...]:
        """The table as it is by now."""
        if self._shown is None:
            living = dict(self.rows)
            for identifier in self._over:
                del living[identifier]
            self._shown = tuple(living.values())
            self._by_id.remember(self._shown, living)
            for groups, overlay in self._overlays.items():
                groups.remember(self._shown, overlay.found())
        return self._shown

    def _overlay(self, groups: Groups[Row, Any]) -> _Overlay[Row]:
        if groups not in self._overlays:  # no row has changed yet, or there would be all of them
            self._overlays[groups] = _Overlay(groups, self._first)
        return self._overlays[groups]

    def _change(self, before: Row | None, after: Row | None) -> None:
        self._shown = None
        for groups in self._groups:
            self._overlay(groups).change(before, after)
