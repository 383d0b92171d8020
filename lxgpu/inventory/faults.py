"""What SQLite reports, in words a person can act on."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lxgpu.errors import LxgpuError

# The low byte of SQLite's extended result codes.
_BUSY, _LOCKED, _PERM, _READONLY, _IOERR, _CORRUPT, _FULL, _CANTOPEN, _NOTADB = 5, 6, 3, 8, 10, 11, 13, 14, 26
_DAMAGED = (_CORRUPT, _NOTADB)
_STORAGE = {
    _READONLY: "it is read-only: the file system, the file, or this user may not write",
    _IOERR: "reading or writing failed, which is a full or a faulty disk",
    _FULL: "the disk is full",
    _CANTOPEN: "it cannot be opened: the folder or the file is missing, or this user may not open it",
    _PERM: "this user may not open it",
}


def family(error: sqlite3.Error) -> int:
    """SQLite's primary result code, 0 when the error is not SQLite's own."""
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF


def name_of(error: sqlite3.Error) -> str:
    """SQLite's name of the error, such as `SQLITE_BUSY_TIMEOUT`."""
    return str(getattr(error, "sqlite_errorname", type(error).__name__))


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Turns errors of SQLite about the inventory at `path` into `LxgpuError`."""
    try:
        yield
    except sqlite3.Error as error:
        raise translate(error, path) from error


def translate(error: sqlite3.Error, path: Path) -> LxgpuError:
    """The `LxgpuError` that says what such an error means for the inventory at `path`."""
    code = family(error)
    words = f"{error} ({name_of(error)})"
    if code in (_BUSY, _LOCKED):
        return LxgpuError(
            "conflict",
            "another lxgpu is writing to the inventory and did not end in time",
            why=f"{path}: {words}",
            fix="repeat the command; `fuser` on the file names a process that hangs",
        )
    if code in _DAMAGED:
        return damaged(path, words)
    if code in _STORAGE:
        return LxgpuError(
            "inventory_storage",
            "the inventory cannot be read or written",
            why=(f"{path}: {_STORAGE[code]}", words),
            fix=f"make room or mend the storage (df -h {path.parent}), then repeat; nothing was changed",
        )
    return LxgpuError("internal", "the inventory answered with an unexpected error", why=f"{path}: {words}")


def damaged(path: Path, words: str) -> LxgpuError:
    """The error for a file that is no sound inventory."""
    return LxgpuError(
        "inventory_damaged",
        "the inventory is damaged",
        why=f"{path}: {words}",
        fix="lxgpu inventory restore BACKUP, or lxgpu inventory rebuild, which reads everything back from LXD",
    )


def lost(path: Path) -> LxgpuError:
    """The error for a file that was removed or replaced while it was in use."""
    gone = not path.exists()
    return LxgpuError(
        "inventory_lost",
        f"the inventory was {'removed' if gone else 'replaced'} while it was in use",
        why=f"{path} {'is gone' if gone else 'is another file now'}; nothing was written to the old one",
        fix="lxgpu inventory rebuild" if gone else "repeat the command; it will use the new inventory",
    )


def newer(path: Path, *, found: int, known: int) -> LxgpuError:
    """The error for a file that a newer lxgpu has made or migrated."""
    return LxgpuError(
        "inventory_newer",
        "the inventory belongs to a newer lxgpu",
        why=f"{path} has schema {found}, this lxgpu knows {known}",
        fix=f"install the newer lxgpu, or restore a backup from before: ls {path}.before-*",
    )


def unusable(path: Path, why: str | None) -> LxgpuError:
    """The error for a place where no inventory can be."""
    return LxgpuError(
        "inventory_storage",
        "the inventory cannot be opened",
        why=f"{path}: {why or 'unknown reason'}",
        fix="choose a local disk with room for it, and repeat",
    )
