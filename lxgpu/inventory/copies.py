"""Whole copies of the database file: for backups, before a migration, and back again."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from lxgpu.errors import LxgpuError
from lxgpu.inventory import faults


def copy_database(source: sqlite3.Connection, target: Path) -> None:
    """Copies what `source` sees to the file `target`, whole or not at all, readable by root only.

    `source` must not be in a write transaction; another connection may be, and what it has not committed is left out.
    An older file of that name is replaced. The copy is one file without a write-ahead log, checked and on the disk
    when this returns.

    Raises:
        LxgpuError: `inventory_damaged`, `inventory_storage`, `not_allowed`.
    """
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        os.close(os.open(part, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600))
        with faults.translated(target):
            _fill(source, part, target)
        sync(part)
        part.replace(target)
        sync(target.parent)
    except OSError as error:
        raise _no_copy(target, error) from error
    finally:
        part.unlink(missing_ok=True)


def check_database(connection: sqlite3.Connection, path: Path) -> None:
    """Checks every page, index and reference.

    Raises:
        LxgpuError: `inventory_damaged`, with SQLite's findings.
    """
    found = [str(text) for (text,) in connection.execute("PRAGMA integrity_check(5)")]
    if found != ["ok"]:
        raise faults.damaged(path, "; ".join(found))
    orphans = connection.execute("PRAGMA foreign_key_check").fetchall()
    if orphans:
        raise faults.damaged(path, f"{len(orphans)} rows refer to a person who is not there")


def _fill(source: sqlite3.Connection, part: Path, target: Path) -> None:
    copy = sqlite3.connect(part, isolation_level=None)
    try:
        source.backup(copy, progress=_not_forever)
        copy.execute("PRAGMA journal_mode = DELETE")
        check_database(copy, target)
    finally:
        copy.close()


def _not_forever(status: int, _left: int, _pages: int) -> None:
    """Ends a copying that is locked out; the source has waited as long as its time-out says, Python would for ever."""
    if status in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        raise LxgpuError("conflict", "the inventory is locked while it should be copied", fix="repeat the command")


def sync(path: Path) -> None:
    """Waits until a file, or the names in a folder, are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _no_copy(target: Path, error: OSError) -> LxgpuError:
    code = "not_allowed" if isinstance(error, PermissionError) else "inventory_storage"
    return LxgpuError(
        code,
        f"no copy of the inventory could be written to {target}",
        why=error.strerror or str(error),
        fix="choose a folder with room that root may write to",
    )
