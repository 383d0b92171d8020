"""The inventory in SQLite: opening it, and writing all or nothing."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from threading import RLock
from types import TracebackType
from typing import Self

from lxgpu.errors import LxgpuError
from lxgpu.inventory import faults, migrations, samples
from lxgpu.inventory.connection import TIMEOUT_S, check_sqlite, connect, ensure_wal, read_session
from lxgpu.inventory.copies import check_database, copy_database
from lxgpu.inventory.place import Place, find_place, make_place
from lxgpu.inventory.reader import Reader, living, meta
from lxgpu.inventory.rows import tables
from lxgpu.inventory.transaction import SqliteTx
from lxgpu.model.assignment import Assignment
from lxgpu.model.operation import Event, Operation
from lxgpu.model.reservation import Notice, Reservation
from lxgpu.model.snapshot import Records
from lxgpu.model.usage import Sample
from lxgpu.ports import VersionMovedError

_written = False


def written() -> bool:
    """Whether this process has written into an inventory: then there may be something to do for the daemon."""
    return _written


def open_inventory(path: Path, *, timeout_s: float = TIMEOUT_S) -> SqliteInventory:
    """Opens the inventory at `path`, made or migrated if need be.

    A new one has no identity: who opens it has to ask LXD whether there should be an older one.

    Args:
        path: the file; its folder is made with mode 0700, the file with 0600.
        timeout_s: how long a writer waits for other processes.

    Raises:
        LxgpuError: `inventory_storage`, `inventory_damaged`, `inventory_newer`, `not_allowed`, `conflict` (busy).
    """
    check_sqlite()
    path = path.resolve()
    place = make_place(path)
    steps = migrations.known()
    with faults.translated(path):
        connection = connect(path, mode="rw", timeout_s=timeout_s)
        try:
            ensure_wal(connection, path)
            migrations.migrate(connection, path, steps)
            place.check()
        except BaseException:
            connection.close()
            raise
    return SqliteInventory(connection, place=place, schema=len(steps), timeout_s=timeout_s)


def open_readonly(path: Path, *, timeout_s: float = TIMEOUT_S) -> SqliteInventory:
    """Opens the inventory for reading only: nothing is made, migrated or locked, and no room on the disk is needed.

    It works for any user whom the file's mode lets read.

    Raises:
        LxgpuError: as `open_inventory`, and `not_found`.
    """
    check_sqlite()
    place = find_place(path.resolve())
    return SqliteInventory(None, place=place, schema=len(migrations.known()), timeout_s=timeout_s)


class SqliteInventory:
    """The port `Inventory` on one SQLite file; threads may share it. Made by `open_inventory` or `open_readonly`.

    Readers and the writer have a connection each, so a reading in the middle of a write gives what was committed
    before it. All methods raise `LxgpuError` as the opening does, and `inventory_lost`.
    """

    def __init__(self, connection: sqlite3.Connection | None, *, place: Place, schema: int, timeout_s: float) -> None:
        self._place = place
        self._schema = schema
        self._timeout_s = timeout_s
        self._kept = connection
        self._writer: sqlite3.Connection | None = None
        self._lock = RLock()
        self._in_write = False
        self._process = os.getpid()
        self._reader = Reader(self._session, place=place, schema=schema, keeps=connection is not None)

    @property
    def path(self) -> Path:
        """The file."""
        return self._place.path

    def read(self) -> Records:
        """All living rows at one version; without a change since the last reading it costs microseconds."""
        return self._reader.read()

    def operation(self, identifier: str) -> Operation | None:
        """One operation, closed ones too."""
        return self._reader.operation(identifier)

    def events(
        self,
        *,
        subject: str | None = None,
        since: datetime | None = None,
        kinds: Collection[str] = (),
        limit: int = 1000,
    ) -> list[Event]:
        """History, newest first; of some kinds only, where any are named."""
        return self._reader.events(subject=subject, since=since, kinds=kinds, limit=limit)

    def events_after(self, identifier: int, *, limit: int = 1000) -> list[Event]:
        """History that was written after the event of that id, oldest first."""
        return self._reader.events_after(identifier, limit=limit)

    def assignments_at(self, at: datetime) -> Records:
        """Who held what at an instant of the past: attached by then and not closed yet."""
        return self._reader.assignments_at(at)

    def closed_since(self, since: datetime) -> tuple[Assignment, ...]:
        """Assignments closed at or after an instant, newest first."""
        return self._reader.closed_since(since)

    def reservation(self, identifier: str) -> Reservation | None:
        """One reservation, closed ones too."""
        return self._reader.reservation(identifier)

    def reservations_since(self, since: datetime) -> tuple[Reservation, ...]:
        """Reservations made or closed at or after an instant, and all open ones, oldest first."""
        return self._reader.reservations_since(since)

    def notices_about(self, about: str) -> tuple[Notice, ...]:
        """What people were or are to be told about an assignment or a reservation, oldest first."""
        return self._reader.notices_about(about)

    def samples(self, *, since: datetime, uuid: str | None = None) -> tuple[Sample, ...]:
        """The samples kept of one card or of all from an instant on, oldest first."""
        return self._reader.samples(since=since, uuid=uuid)

    def add_samples(self, found: Iterable[Sample]) -> None:
        """Keeps a batch of readings; the inventory's version stays."""
        with self._writing(None) as connection:
            samples.add(connection, found)
            connection.execute("COMMIT")

    def thin_samples(self, now: datetime) -> int:
        """Merges old samples into few (`samples.STAGES`); returns how many rows went."""
        with self._writing(None) as connection:
            gone = samples.thin(connection, now)
            connection.execute("COMMIT")
        return gone

    @contextmanager
    def write(self, *, actor: str, now: datetime, expected: int | None = None) -> Iterator[SqliteTx]:
        """A write transaction; all or nothing.

        Raises:
            VersionMovedError: the version is no longer `expected`.
            LxgpuError: `conflict`: a rule was broken, or others wrote for longer than the time-out.
        """
        with self._writing(expected) as connection:
            tx = SqliteTx(connection, actor=actor, now=now, before=self._reader.read)
            try:
                yield tx
                self._place.check()
                tx.finish()
                _note_written()
            finally:
                tx.close()

    @contextmanager
    def _writing(self, expected: int | None) -> Iterator[sqlite3.Connection]:
        """Gives the writer's connection in a transaction, which is rolled back unless the block commits it."""
        with self._lock, faults.translated(self.path):
            if self._in_write:
                raise RuntimeError("a write inside a write of the same thread")
            connection = self._writing_connection()
            connection.execute("BEGIN IMMEDIATE")
            self._in_write = True
            try:
                self._check(connection, expected)
                yield connection
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            finally:
                self._in_write = False

    def backup(self, target: Path) -> None:
        """Writes a copy of the whole inventory, history included, as it is now; whole or not at all, and checked.

        An older copy of that name is replaced. Writers go on meanwhile.
        """
        beside = {self.path.with_name(self.path.name + suffix).resolve() for suffix in ("", "-wal", "-shm")}
        if target.resolve() in beside:
            raise LxgpuError("usage", f"{target} is the inventory itself", fix="name another file for the copy")
        with self._reader.transaction() as connection:
            copy_database(connection, target)

    def check(self) -> None:
        """Checks the whole file: pages, indexes, references, and that every living row can be read.

        Raises:
            LxgpuError: `inventory_damaged`.
        """
        with self._reader.transaction() as connection:
            check_database(connection, self.path)
            for table in tables().values():
                living(connection, table)

    def close(self) -> None:
        """Closes the file. The last one to close it folds the write-ahead log into it."""
        with self._lock:
            for connection in (self._writer, self._kept):
                if connection is not None:
                    connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _check(self, connection: sqlite3.Connection, expected: int | None) -> None:
        self._place.check()
        version, _ = meta(connection, self._place, schema=self._schema)
        if expected is not None and version != expected:
            raise VersionMovedError(f"the inventory is at version {version}, the decision was made on {expected}")

    def _writing_connection(self) -> sqlite3.Connection:
        if self._kept is None:
            raise LxgpuError(
                "not_allowed",
                "the inventory was opened for reading only",
                why=f"{self.path}: this command changes nothing by itself",
                fix="run the command with sudo",
            )
        self._own_process()
        if self._writer is None:
            self._place.check()
            self._writer = connect(self.path, mode="rw", timeout_s=self._timeout_s)
        return self._writer

    @contextmanager
    def _session(self) -> Iterator[sqlite3.Connection]:
        self._own_process()
        if self._kept is not None:
            yield self._kept
        else:
            with read_session(self._place, timeout_s=self._timeout_s) as connection:
                yield connection

    def _own_process(self) -> None:
        if self._process != os.getpid():
            raise RuntimeError("an open inventory cannot be carried over a fork; open it again")


def _note_written() -> None:
    global _written  # noqa: PLW0603 -- a fact about the process, whichever inventory it had open
    _written = True
