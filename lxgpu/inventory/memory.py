"""The inventory in memory: same rules, same answers, same errors, for tests and the simulator."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from itertools import islice
from threading import RLock
from typing import Any

from lxgpu.errors import LxgpuError
from lxgpu.inventory.heap import Heap, in_order
from lxgpu.inventory.rows import RowKey, instant_text, json_text, tables
from lxgpu.inventory.rules import child_words, no_person
from lxgpu.inventory.samples import thinned
from lxgpu.model.assignment import Assignment
from lxgpu.model.instance import Instance, Key, Person
from lxgpu.model.operation import Event, Identity, Operation
from lxgpu.model.reservation import Notice, Reservation
from lxgpu.model.snapshot import Records, Row
from lxgpu.model.usage import Sample
from lxgpu.ports import VersionMovedError


class MemoryInventory:
    """The port `Inventory` without a file; threads may share it. A write costs what it changes, not what there is."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._heap = Heap()
        self._version = 0
        self._identity: Identity | None = None
        self._events: list[Event] = []
        self._samples: dict[tuple[str, datetime], Sample] = {}
        self._tx: MemoryTx | None = None

    def read(self) -> Records:
        """All living rows at one version; in the middle of a write, those before it."""
        with self._lock:
            if self._tx is not None:
                return self._tx.records
            rows = {table.name: self._heap.ordered(kind) for kind, table in tables().items()}
            return Records(self._version, self._identity, **rows)

    @contextmanager
    def write(self, *, actor: str, now: datetime, expected: int | None = None) -> Iterator[MemoryTx]:
        """A write transaction; all or nothing.

        Raises:
            VersionMovedError: the version is no longer `expected`.
            LxgpuError: `conflict`: a rule was broken.
        """
        with self._lock:
            if self._tx is not None:
                raise RuntimeError("a write inside a write of the same thread")
            if expected is not None and expected != self._version:
                raise VersionMovedError(f"the inventory is at version {self._version}, not at {expected}")
            tx = self._tx = MemoryTx(self._heap, actor=actor, now=now, version=self._version, identity=self._identity)
            try:
                yield tx
                tx.check()
                self._identity = tx.identity
                self._version += tx.changed
                self._events += [replace(event, id=len(self._events) + 1 + at) for at, event in enumerate(tx.events)]
            except BaseException:
                tx.undo()
                raise
            finally:
                tx.close()
                self._tx = None

    def operation(self, identifier: str) -> Operation | None:
        """One operation, closed ones too."""
        with self._lock:
            row = self._heap.get(Operation, (identifier,))
            return row if isinstance(row, Operation) else None

    def events(
        self,
        *,
        subject: str | None = None,
        since: datetime | None = None,
        kinds: Collection[str] = (),
        limit: int = 1000,
    ) -> list[Event]:
        """History, newest first; of some kinds only, where any are named."""
        with self._lock:
            found = (
                event
                for event in reversed(self._events)
                if (subject is None or event.subject == subject)
                and (since is None or event.at >= since)
                and (not kinds or event.kind in kinds)
            )
            return list(islice(found, limit))

    def events_after(self, identifier: int, *, limit: int = 1000) -> list[Event]:
        """History that was written after the event of that id, oldest first."""
        with self._lock:
            return list(islice((event for event in self._events if (event.id or 0) > identifier), limit))

    def closed_since(self, since: datetime) -> tuple[Assignment, ...]:
        """Assignments closed at or after an instant, newest first."""
        with self._lock:
            found = [
                row
                for row in self._heap.all(Assignment)
                if isinstance(row, Assignment) and row.closed_at is not None and row.closed_at >= since
            ]
        return tuple(sorted(sorted(found, key=_id), key=_closed, reverse=True))

    def reservation(self, identifier: str) -> Reservation | None:
        """One reservation, closed ones too."""
        with self._lock:
            row = self._heap.get(Reservation, (identifier,))
            return row if isinstance(row, Reservation) else None

    def reservations_since(self, since: datetime) -> tuple[Reservation, ...]:
        """Reservations made or closed at or after an instant, and all open ones, oldest first."""
        with self._lock:
            found = [
                row
                for row in self._heap.all(Reservation)
                if isinstance(row, Reservation)
                and (row.open or row.created_at >= since or (row.closed_at is not None and row.closed_at >= since))
            ]
        return tuple(sorted(found, key=lambda row: (row.created_at, row.id)))

    def notices_about(self, about: str) -> tuple[Notice, ...]:
        """What people were or are to be told about an assignment or a reservation, oldest first."""
        with self._lock:
            found = [row for row in self._heap.all(Notice) if isinstance(row, Notice) and row.about == about]
        return tuple(sorted(found, key=lambda row: (row.created_at, row.id)))

    def add_samples(self, found: Iterable[Sample]) -> None:
        """Keeps a batch of readings; the inventory's version stays."""
        with self._lock:
            self._samples |= {(sample.uuid, sample.at): sample for sample in found}

    def samples(self, *, since: datetime, uuid: str | None = None) -> tuple[Sample, ...]:
        """The samples kept of one card or of all from an instant on, oldest first."""
        with self._lock:
            rows = [row for row in self._samples.values() if row.at >= since and uuid in {None, row.uuid}]
        return tuple(sorted(rows, key=lambda row: (row.at, row.uuid)))

    def thin_samples(self, now: datetime) -> int:
        """Merges old samples into few; returns how many rows went."""
        with self._lock:
            before = len(self._samples)
            self._samples = {(row.uuid, row.at): row for row in thinned(self._samples.values(), now)}
            return before - len(self._samples)

    def assignments_at(self, at: datetime) -> Records:
        """Who held what at an instant of the past: attached by then and not closed yet."""
        with self._lock:
            held = [
                row
                for row in self._heap.all(Assignment)
                if isinstance(row, Assignment)
                and row.since is not None
                and row.since <= at
                and (row.closed_at is None or row.closed_at > at)
            ]
            there = [
                row
                for row in self._heap.all(Instance)
                if isinstance(row, Instance)
                and row.created_at <= at
                and (row.deleted_at is None or row.deleted_at > at)
            ]
        return Records(
            version=self._version,
            identity=self._identity,
            assignments=tuple(sorted(held, key=lambda row: row.id)),
            instances=tuple(sorted(there, key=lambda row: row.name)),
        )


def _id(row: Assignment) -> str:
    return row.id


def _closed(row: Assignment) -> float:
    return row.closed_at.timestamp() if row.closed_at else 0.0


class MemoryTx:
    """The port `Tx` on a heap: it changes the heap at once and remembers how to undo that."""

    def __init__(self, heap: Heap, *, actor: str, now: datetime, version: int, identity: Identity | None) -> None:
        instant_text(now)
        self._heap = heap
        self._actor = actor
        self._now = now
        self._version = version
        self._first_identity = identity
        self._undo: list[tuple[type[Row], RowKey, Row | None]] = []
        self._records: Records | None = None
        self._open = True
        self.identity = identity
        self.events: list[Event] = []

    @property
    def records(self) -> Records:
        """The living rows as this transaction found them; gathered when first asked for."""
        if self._records is None:
            self._check_open()
            rows = {table.name: self._before(kind) for kind, table in tables().items()}
            self._records = Records(self._version, self._first_identity, **rows)
        return self._records

    @property
    def changed(self) -> bool:
        """Whether a row or the identity was changed."""
        return bool(self._undo) or self.identity != self._first_identity

    def put(self, *rows: Row) -> None:
        """Inserts rows or replaces those of the same key, in the order given.

        Raises:
            LxgpuError: `conflict`: a row breaks a unique rule among the rows as they are by then.
        """
        self._check_open()
        for row in rows:
            table = tables()[type(row)]
            key = table.key_of(row)
            values = table.encode(row)
            old = self._heap.get(table.kind, key)
            if old is not None and table.encode(old) == values:
                continue
            refused = self._heap.conflict(row)
            if refused is not None:
                raise refused
            # What SQLite would give back: nobody else's dict, and lists where tuples were.
            kept = table.decode(values) if table.kind is Operation else row
            self._undo.append((table.kind, key, self._heap.change(table.kind, key, kept)))

    def drop(self, row: Row) -> None:
        """Removes the row of the same key; nothing to do when there is none."""
        self._check_open()
        table = tables()[type(row)]
        key = table.key_of(row)
        if self._heap.get(table.kind, key) is not None:
            self._undo.append((table.kind, key, self._heap.change(table.kind, key, None)))

    def event(self, kind: str, subject: str, *, rule: str = "", detail: Mapping[str, object] | None = None) -> None:
        """Writes a line of history, with this transaction's actor and time."""
        self._check_open()
        kept = json.loads(json_text(detail or {}))
        self.events.append(Event(self._now, self._actor, kind, subject, rule, kept))

    def identify(self, identity: Identity) -> None:
        """Sets which inventory this is, and its epoch."""
        self._check_open()
        self.identity = identity

    def check(self) -> None:
        """Checks what must be true at the end.

        Raises:
            LxgpuError: `conflict`: a key or an instance would have no person.
        """
        touched = {kind for kind, _, _ in self._undo}
        if not touched & {Person, Key, Instance}:
            return
        orphan = self._orphan()
        if orphan is not None:
            raise orphan

    def undo(self) -> None:
        """Takes all changes back, newest first."""
        while self._undo:
            self._heap.change(*self._undo.pop())

    def close(self) -> None:
        """Ends the use of this object."""
        self._open = False

    def _check_open(self) -> None:
        if not self._open:
            raise RuntimeError("this transaction has ended")

    def _before(self, kind: type[Row]) -> tuple[Any, ...]:
        changes = [(key, old) for touched, key, old in reversed(self._undo) if touched is kind]
        if not changes:
            return self._heap.ordered(kind)
        rows = self._heap.living(kind)
        for key, old in changes:
            rows.pop(key, None)
            if old is not None and tables()[kind].is_living(old):
                rows[key] = old
        return in_order(rows)

    def _orphan(self) -> LxgpuError | None:
        keys = (("keys", row.person, row.fingerprint) for row in self._heap.all(Key) if isinstance(row, Key))
        mine = (("instances", row.owner, row.name) for row in self._heap.all(Instance) if isinstance(row, Instance))
        for each in (keys, mine):
            lost = [child for child in each if self._heap.get(Person, (child[1],)) is None]
            if lost:
                table, person, name = min(lost)
                return no_person(person, child_words(table, name))
        return None
