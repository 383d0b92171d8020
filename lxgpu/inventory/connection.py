"""Connections to the file, and the settings every one of them has."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from lxgpu.errors import LxgpuError
from lxgpu.inventory import faults
from lxgpu.inventory.place import Place, folder_lock

APPLICATION_ID = 0x6C786770
"""Written into the file's header ("lxgp"), so that another program's database is not taken for ours."""
TIMEOUT_S = 10.0
"""How long a writer waits for others. A transaction takes milliseconds, so this means that somebody hangs."""
OLDEST_SQLITE = (3, 37, 0)
"""STRICT tables came with it."""


def connect(path: Path, *, mode: str, timeout_s: float, immutable: bool = False) -> sqlite3.Connection:
    """Opens the file and applies the settings; `mode` is `rw` or `ro`.

    The connection is in autocommit mode, so that each transaction is begun in so many words, and may be used by any
    thread, one at a time. Errors are those of sqlite3.
    """
    query = f"mode={mode}" + ("&immutable=1" if immutable else "")
    made = sqlite3.connect(
        f"file:{quote(str(path.absolute()))}?{query}",
        uri=True,
        timeout=timeout_s,
        isolation_level=None,
        check_same_thread=False,
    )
    try:
        # FULL: an intent must have reached the disk before LXD is asked to act on it.
        made.execute("PRAGMA synchronous = FULL")
        made.execute("PRAGMA foreign_keys = ON")
        made.execute("PRAGMA temp_store = MEMORY")
        made.execute("PRAGMA journal_size_limit = 4194304")
    except BaseException:
        made.close()
        raise
    return made


@contextmanager
def read_session(place: Place, *, timeout_s: float) -> Iterator[sqlite3.Connection]:
    """Gives a connection for one reading by somebody who may not write, or cannot for want of room.

    SQLite wants to make files beside a database with a write-ahead log. Where nobody has it open, all is in the one
    file and can be read without them, as long as nobody writes meanwhile: that is checked afterwards.

    Raises:
        LxgpuError: `conflict`: somebody did write meanwhile. Other errors are those of sqlite3.
    """
    log = place.path.with_name(f"{place.path.name}-wal")
    settled = not _size(log)
    before = _stamp(place.path)
    connection = connect(place.path, mode="ro", timeout_s=timeout_s, immutable=settled)
    try:
        yield connection
    finally:
        connection.close()
    if settled and (_size(log) or _stamp(place.path) != before):
        raise LxgpuError(
            "conflict", "the inventory was written to while it was read", why=str(place.path), fix="repeat the command"
        )


def ensure_wal(connection: sqlite3.Connection, path: Path) -> None:
    """Makes the file one with a write-ahead log, so that readers and a writer do not wait for each other.

    Raises:
        LxgpuError: `inventory_storage`: the file system cannot have one.
    """
    query = "PRAGMA journal_mode"
    if connection.execute(query).fetchone() == ("wal",):
        return
    # Of two who change the mode at once one may fail without having waited: seen once in 2,400 openings of new files.
    with folder_lock(path):
        (mode,) = connection.execute(f"{query} = WAL").fetchone()
    if mode != "wal":
        raise faults.unusable(path, f"its file system allows no write-ahead log (SQLite says {mode})")


def check_sqlite() -> None:
    """Refuses an SQLite that is too old.

    Raises:
        LxgpuError: `inventory_storage`.
    """
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        raise LxgpuError(
            "inventory_storage",
            "the SQLite library is too old",
            why=f"it is {sqlite3.sqlite_version}, and {'.'.join(map(str, OLDEST_SQLITE))} is needed",
            fix="use a Python that has a newer one (Debian 12, Ubuntu 22.04 and later have it)",
        )


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _stamp(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_mtime_ns, found.st_size
