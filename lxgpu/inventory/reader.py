"""Reading the inventory: each question is answered in one read transaction, at one version."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from threading import RLock
from typing import Any

from lxgpu.errors import LxgpuError
from lxgpu.inventory import faults, samples
from lxgpu.inventory.place import Place
from lxgpu.inventory.rows import Table, instant, instant_text, tables
from lxgpu.model.assignment import Assignment
from lxgpu.model.instance import Instance
from lxgpu.model.operation import Event, Identity, Operation
from lxgpu.model.reservation import Notice, Reservation
from lxgpu.model.snapshot import Records
from lxgpu.model.usage import Sample

Session = Callable[[], AbstractContextManager[sqlite3.Connection]]
"""Gives the connection for one read transaction."""


def select(table: Table) -> str:
    """The SELECT of a table's columns, in the order that `Table.decode` takes."""
    return f"SELECT {', '.join(table.columns)} FROM {table.name}"  # noqa: S608 -- names of our own


def decoded(table: Table, values: tuple[Any, ...]) -> Any:  # noqa: ANN401 -- a row of the table's kind
    """The row of one result.

    Raises:
        LxgpuError: `inventory_damaged`: a value that lxgpu never writes.
    """
    try:
        return table.decode(values)
    except (ValueError, KeyError, TypeError) as error:
        raise LxgpuError(
            "inventory_damaged",
            f"the inventory has a row in {table.name} that lxgpu cannot have written",
            why=f"{type(error).__name__}: {error}, in {values}",
            fix="lxgpu inventory restore BACKUP, or lxgpu inventory rebuild, which reads everything back from LXD",
        ) from error


def living(connection: sqlite3.Connection, table: Table) -> tuple[Any, ...]:
    """The living rows of a table, in the order of their keys."""
    where = f" WHERE {table.living}" if table.living else ""
    found = connection.execute(f"{select(table)}{where} ORDER BY {', '.join(table.key)}")
    return tuple([decoded(table, values) for values in found])


def meta(connection: sqlite3.Connection, place: Place, *, schema: int) -> tuple[int, Identity | None]:
    """The version and the identity, after a check that the schema is still the one this process knows.

    Raises:
        LxgpuError: `inventory_newer`, `inventory_damaged`.
    """
    found = connection.execute(
        "SELECT version, inventory, epoch, (SELECT max(number) FROM migrations) FROM meta"
    ).fetchone()
    if found is None:
        raise faults.damaged(place.path, "its table meta is empty")
    version, inventory, epoch, number = found
    if number != schema:
        raise faults.newer(place.path, found=number, known=schema)
    return version, None if inventory is None else Identity(inventory=inventory, epoch=epoch)


class Reader:
    """The reading half of the port `Inventory`; threads may share it.

    `keeps` says that `session` gives the same connection each time, so that it can tell whether anything was written
    since the last reading.
    """

    def __init__(self, session: Session, *, place: Place, schema: int, keeps: bool) -> None:
        self._session = session
        self._place = place
        self._schema = schema
        self._keeps = keeps
        self._lock = RLock()
        self._last: tuple[int, Records] | None = None

    def read(self) -> Records:
        """All living rows at one version; without a change since the last reading it costs microseconds."""
        with self.transaction() as connection:
            version, identity = meta(connection, self._place, schema=self._schema)
            # It moves when any other connection has committed, even one that is not lxgpu's.
            (moved,) = connection.execute("PRAGMA data_version").fetchone()
            if not self._keeps or self._last is None or self._last[0] != moved:
                rows = {table.name: living(connection, table) for table in tables().values()}
                self._last = (moved, Records(version=version, identity=identity, **rows))
            return self._last[1]

    def operation(self, identifier: str) -> Operation | None:
        """One operation, closed ones too."""
        with self.transaction() as connection:
            found = _rows(connection, tables()[Operation], "WHERE id = ?", identifier)
        return found[0] if found else None

    def events(self, *, subject: str | None, since: datetime | None, kinds: Collection[str], limit: int) -> list[Event]:
        """History, newest first; of some kinds only, where any are named."""
        conditions = {"subject = ?": subject, "at >= ?": since and instant_text(since)}
        asked = {condition: value for condition, value in conditions.items() if value is not None}
        marks = ", ".join("?" * len(kinds))
        conditions_met = [*asked, *([f"kind IN ({marks})"] if kinds else [])]
        where = f"WHERE {' AND '.join(conditions_met)} " if conditions_met else ""
        query = f"SELECT at, actor, kind, subject, rule, detail, id FROM events {where}ORDER BY id DESC LIMIT ?"  # noqa: S608 -- our own words
        with self.transaction() as connection:
            return _events(connection.execute(query, (*asked.values(), *kinds, limit)))

    def events_after(self, identifier: int, *, limit: int) -> list[Event]:
        """History that was written after the event of that id, oldest first."""
        query = "SELECT at, actor, kind, subject, rule, detail, id FROM events WHERE id > ? ORDER BY id LIMIT ?"
        with self.transaction() as connection:
            return _events(connection.execute(query, (identifier, limit)))

    def assignments_at(self, at: datetime) -> Records:
        """Who held what at an instant of the past: attached by then and not closed yet."""
        when = instant_text(at)
        held = "WHERE since <= ?1 AND (closed_at IS NULL OR closed_at > ?1) ORDER BY id"
        there = "WHERE created_at <= ?1 AND (deleted_at IS NULL OR deleted_at > ?1) ORDER BY name"
        with self.transaction() as connection:
            version, identity = meta(connection, self._place, schema=self._schema)
            return Records(
                version=version,
                identity=identity,
                assignments=_rows(connection, tables()[Assignment], held, when),
                instances=_rows(connection, tables()[Instance], there, when),
            )

    def closed_since(self, since: datetime) -> tuple[Assignment, ...]:
        """Assignments closed at or after an instant, newest first."""
        clause = "WHERE state = 'closed' AND closed_at >= ? ORDER BY closed_at DESC, id"
        with self.transaction() as connection:
            return _rows(connection, tables()[Assignment], clause, instant_text(since))

    def reservation(self, identifier: str) -> Reservation | None:
        """One reservation, closed ones too."""
        with self.transaction() as connection:
            found = _rows(connection, tables()[Reservation], "WHERE id = ?", identifier)
        return found[0] if found else None

    def reservations_since(self, since: datetime) -> tuple[Reservation, ...]:
        """Reservations made or closed at or after an instant, and all open ones, oldest first."""
        table = tables()[Reservation]
        clause = f"WHERE created_at >= ?1 OR closed_at >= ?1 OR {table.living} ORDER BY created_at, id"
        with self.transaction() as connection:
            return _rows(connection, table, clause, instant_text(since))

    def notices_about(self, about: str) -> tuple[Notice, ...]:
        """What people were or are to be told about an assignment or a reservation, oldest first."""
        with self.transaction() as connection:
            return _rows(connection, tables()[Notice], "WHERE about = ? ORDER BY created_at, id", about)

    def samples(self, *, since: datetime, uuid: str | None = None) -> tuple[Sample, ...]:
        """The samples kept of one card or of all from an instant on, oldest first."""
        with self.transaction() as connection:
            return samples.read(connection, since=since, uuid=uuid)

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Gives a connection that sees one version until the end of the block."""
        with self._lock, faults.translated(self._place.path), self._session() as connection:
            self._place.check()
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                connection.execute("ROLLBACK")


def _rows(connection: sqlite3.Connection, table: Table, clause: str, value: str) -> tuple[Any, ...]:
    found = connection.execute(f"{select(table)} {clause}", (value,))
    return tuple([decoded(table, values) for values in found])


def _events(found: sqlite3.Cursor) -> list[Event]:
    return [
        Event(instant(at), actor, kind, about, rule, json.loads(detail), number)
        for at, actor, kind, about, rule, detail, number in found
    ]
