"""Opening the file: where it may lie, who may read it, and the settings every connection has."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from lxgpu.errors import LxgpuError
from lxgpu.inventory import faults

APPLICATION_ID = 0x6C786770
"""Written into the file's header ("lxgp"), so that another program's database is not taken for ours."""
TIMEOUT_S = 10.0
"""How long a writer waits for others. A transaction takes milliseconds, so this means that somebody hangs."""
OLDEST_SQLITE = (3, 37, 0)
"""STRICT tables came with it."""

# WAL shares memory between processes, which needs one kernel; over these, locks do not reach the other machine either.
_NETWORK = frozenset(
    {
        *("nfs", "nfs4", "cifs", "smb3", "smbfs", "ncpfs", "afs", "coda", "ceph", "lustre", "gpfs", "beegfs"),
        *("ocfs2", "gfs2", "pvfs2", "fuse.sshfs", "fuse.s3fs", "fuse.ceph", "fuse.glusterfs", "fuse.mfs"),
    }
)


@dataclass(frozen=True, slots=True)
class Place:
    """A path and the file it named when it was opened."""

    path: Path
    device: int
    inode: int

    @classmethod
    def of(cls, path: Path) -> Place | None:
        """The file at `path` now, or None when there is none."""
        try:
            found = path.stat()
        except FileNotFoundError:
            return None
        return cls(path=path, device=found.st_dev, inode=found.st_ino)

    def check(self) -> None:
        """Checks that the path still names the same file.

        Raises:
            LxgpuError: `inventory_lost`. Without this a running writer would go on writing to an unlinked file.
        """
        if Place.of(self.path) != self:
            raise faults.lost(self.path)


def make_place(path: Path) -> Place:
    """Returns the file, made empty (0600, its folder 0700) when there is none.

    Raises:
        LxgpuError: `inventory_storage` (a network file system, no such place), `not_allowed`.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        refuse_network(path)
        # SQLite gives the files beside it (-wal, -shm) the mode of this one.
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        if not path.is_file():
            raise _no_place(path, "there is something else than a file of that name") from None
    except PermissionError as error:
        raise _no_right(path, error) from error
    except OSError as error:
        raise _no_place(path, error.strerror) from error
    return find_place(path)


def find_place(path: Path) -> Place:
    """Returns the file that must be there already.

    Raises:
        LxgpuError: `not_found`, `not_allowed`, `inventory_storage`.
    """
    try:
        place = Place.of(path)
    except PermissionError as error:
        raise _no_right(path, error) from error
    except OSError as error:
        raise _no_place(path, error.strerror) from error
    if place is None:
        raise LxgpuError(
            "not_found",
            f"there is no inventory at {path}",
            fix="lxgpu inventory rebuild, if there was one; else create the first container",
        )
    return place


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


def ensure_wal(connection: sqlite3.Connection, path: Path, *, timeout_s: float) -> None:
    """Makes the file one with a write-ahead log, so that readers and a writer do not wait for each other.

    Raises:
        LxgpuError: `inventory_storage`: the file system cannot have one.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
            if mode != "wal":
                (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
            break
        except sqlite3.OperationalError as error:
            # Changing the mode needs the file alone and, unlike all else, does not wait for others who open it.
            if faults.family(error) != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.005)
    if mode != "wal":
        raise _no_place(path, f"its file system allows no write-ahead log (SQLite says {mode})")


def refuse_network(path: Path) -> None:
    """Refuses a path on a network file system.

    Raises:
        LxgpuError: `inventory_storage`.
    """
    mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
    kind = file_system(path.parent.resolve(), mounts)
    if kind in _NETWORK:
        raise LxgpuError(
            "inventory_storage",
            "the inventory cannot lie on a network file system",
            why=f"{path} is on {kind}, where SQLite's locks do not hold between machines",
            fix="put it on a local disk: the default is /var/lib/lxgpu/inventory.db",
        )


def file_system(folder: Path, mounts: str) -> str:
    """The type of the file system of a resolved folder, by the text of /proc/self/mountinfo; empty if unknown."""
    best, kind = -1, ""
    for line in mounts.splitlines():
        left, dash, right = line.partition(" - ")
        if not dash:
            continue
        point = Path(_unescaped(left.split(" ")[4]))
        depth = len(point.parts)
        # Of two mounts on one folder the later one is seen.
        if depth >= best and folder.is_relative_to(point):
            best, kind = depth, right.split(" ")[0]
    return kind


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


def _unescaped(text: str) -> str:
    for code, char in ((r"\040", " "), (r"\011", "\t"), (r"\012", "\n"), (r"\134", "\\")):
        text = text.replace(code, char)
    return text


def _no_right(path: Path, error: OSError) -> LxgpuError:
    return LxgpuError(
        "not_allowed",
        "the inventory may be opened by root only",
        why=f"{path}: {error.strerror}",
        fix="run the command with sudo; `lxgpu ls` and `lxgpu gpus` work without",
    )


def _no_place(path: Path, why: str | None) -> LxgpuError:
    return LxgpuError(
        "inventory_storage",
        "the inventory cannot be opened",
        why=f"{path}: {why or 'unknown reason'}",
        fix="choose a local disk with room for it, and repeat",
    )
