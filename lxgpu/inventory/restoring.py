"""Bringing a backup back: into the inventory that is there, or in the place of one that is gone or damaged."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from lxgpu.errors import LxgpuError
from lxgpu.inventory import faults, migrations
from lxgpu.inventory.connection import TIMEOUT_S, connect, ensure_wal
from lxgpu.inventory.copies import check_database, copy_database, sync
from lxgpu.inventory.place import folder_lock, forget_log, make_place
from lxgpu.inventory.reader import living
from lxgpu.inventory.rows import tables
from lxgpu.model.operation import Identity


def restore_inventory(path: Path, backup: Path, *, now: datetime, timeout_s: float = TIMEOUT_S) -> Path | None:
    """Makes the inventory at `path` what it was when `backup` was written, and returns where the old one is kept.

    The backup is checked and brought to today's schema first; when it is no good, nothing changes. A sound inventory
    gets the rows in one transaction, so that running commands see the old or the new and a version they have not seen.
    A missing or damaged one is replaced as a file. None is returned when there was none. The epoch is the caller's to
    raise: what LXD shows may be newer than the backup.

    Raises:
        LxgpuError: `bad_file`, `not_found`, `inventory_newer` (the backup), `inventory_storage`, `not_allowed`,
            `conflict`.
    """
    path, backup = path.resolve(), backup.resolve()
    with _staged(path, backup) as staged:
        if not path.exists():
            with folder_lock(path):
                _move_in(staged, path)
            return None
        try:
            return _refill(
                path, staged, kept=path.with_name(f"{path.name}.replaced-{_stamp(now)}"), timeout_s=timeout_s
            )
        except LxgpuError as error:
            if error.code != "inventory_damaged":
                raise
        kept = _damaged_name(path, now)
        with folder_lock(path):
            _move_aside(path, kept)
            _move_in(staged, path)
        return kept


def identity_of_backup(backup: Path) -> Identity | None:
    """Which inventory a backup is of, after the same checks as before a restore; nothing is touched.

    Raises:
        LxgpuError: `bad_file`, `not_found`, `inventory_newer`, `inventory_storage`.
    """
    with (
        TemporaryDirectory(prefix="lxgpu-") as folder,
        _staged(Path(folder) / "backup.db", backup.resolve()) as staged,
        closing(connect(staged, mode="ro", timeout_s=TIMEOUT_S)) as copy,
    ):
        inventory, epoch = copy.execute("SELECT inventory, epoch FROM meta").fetchone()
    return None if inventory is None else Identity(inventory=inventory, epoch=epoch)


def put_aside(path: Path, *, now: datetime) -> Path:
    """Moves a damaged inventory out of the way of one that is made again, and returns where it is kept."""
    path = path.resolve()
    kept = _damaged_name(path, now)
    with folder_lock(path):
        _move_aside(path, kept)
    return kept


def _damaged_name(path: Path, now: datetime) -> Path:
    return path.with_name(f"{path.name}.damaged-{_stamp(now)}")


def _stamp(now: datetime) -> str:
    return now.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")


@contextmanager
def _staged(path: Path, backup: Path) -> Iterator[Path]:
    """Gives a checked copy of the backup, of today's schema, in the folder of the inventory."""
    if not backup.is_file():
        raise LxgpuError(
            "not_found", f"there is no backup {backup}", fix="name a file that `lxgpu inventory backup` wrote"
        )
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    staged = path.with_name(f".{path.name}.{os.getpid()}.restore")
    try:
        with _blaming(backup), faults.translated(backup):
            # A backup may lie on a medium that cannot be written, where SQLite could make no file beside it.
            alone = not backup.with_name(f"{backup.name}-wal").exists()
            with closing(connect(backup, mode="ro", timeout_s=TIMEOUT_S, immutable=alone)) as source:
                migrations.pending(source, backup, migrations.known())
                copy_database(source, staged)
            with closing(connect(staged, mode="rw", timeout_s=TIMEOUT_S)) as copy:
                if migrations.applied(copy, backup) == 0:
                    raise faults.damaged(backup, "it is an empty file")
                migrations.migrate(copy, backup, migrations.known(), copy=False)
                for table in tables().values():
                    living(copy, table)
        yield staged
    finally:
        staged.unlink(missing_ok=True)


@contextmanager
def _blaming(backup: Path) -> Iterator[None]:
    """What is wrong with the backup is not told as damage of the inventory."""
    try:
        yield
    except LxgpuError as error:
        if error.code != "inventory_damaged":
            raise
        raise LxgpuError(
            "bad_file",
            f"{backup} is no sound backup of an inventory",
            why=error.why,
            fix="name a file that `lxgpu inventory backup` wrote; nothing was changed",
        ) from error


def _refill(path: Path, staged: Path, *, kept: Path, timeout_s: float) -> Path:
    place = make_place(path)
    steps = migrations.known()
    with faults.translated(path), closing(connect(path, mode="rw", timeout_s=timeout_s)) as connection:
        ensure_wal(connection, path)
        migrations.migrate(connection, path, steps)
        check_database(connection, path)
        connection.execute("ATTACH ? AS restored", (str(staged),))
        connection.execute("BEGIN IMMEDIATE")
        try:
            place.check()
            with closing(connect(path, mode="rw", timeout_s=timeout_s)) as reader:
                copy_database(reader, kept)
            _copy_rows(connection)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
    return kept


def _copy_rows(connection: sqlite3.Connection) -> None:
    query = "SELECT max(old.version, new.version) + 1 FROM main.meta AS old, restored.meta AS new"
    (version,) = connection.execute(query).fetchone()
    # Both are of one schema by now. The record of migrations tells the story of the file, and stays.
    query = "SELECT name FROM main.sqlite_schema WHERE type = 'table' AND name NOT IN ('migrations', 'sqlite_sequence')"
    for (name,) in connection.execute(query).fetchall():
        found = connection.execute("SELECT name FROM pragma_table_info(?)", (name,))
        columns = ", ".join(column for (column,) in found)
        connection.execute(f"DELETE FROM main.{name}")  # noqa: S608 -- names of our own tables
        copying = f"INSERT INTO main.{name} ({columns}) SELECT {columns} FROM restored.{name}"  # noqa: S608 -- as above
        connection.execute(copying)
    # A decision made on the old rows must never fit the new ones.
    connection.execute("UPDATE main.meta SET version = ?", (version,))


def _move_aside(path: Path, kept: Path) -> None:
    # The log goes first: left alone beside a new file, it would be taken for the new file's own.
    for suffix in ("-wal", "-shm", ""):
        part = path.with_name(path.name + suffix)
        if part.exists():
            part.rename(kept.with_name(kept.name + suffix))


def _move_in(staged: Path, path: Path) -> None:
    forget_log(path)
    try:
        # Unlike a rename, a link never replaces what somebody made meanwhile.
        path.hardlink_to(staged)
    except FileExistsError as error:
        raise LxgpuError(
            "conflict", "somebody made an inventory meanwhile", why=str(path), fix="look again, then repeat"
        ) from error
    sync(path.parent)
