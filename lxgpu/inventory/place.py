"""Where the file lies: on a local disk, readable by root only, and still the one that was opened."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lxgpu.errors import LxgpuError
from lxgpu.inventory import faults

_DENIED = PermissionError(errno.EACCES, os.strerror(errno.EACCES))
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
        if not path.exists():
            _make_empty(path)
    except PermissionError as error:
        raise _no_right(path, error) from error
    except OSError as error:
        raise faults.unusable(path, error.strerror) from error
    place = find_place(path)
    if not os.access(path, os.W_OK) and not os.statvfs(path).f_flag & os.ST_RDONLY:
        raise _no_right(path, _DENIED)
    return place


def _make_empty(path: Path) -> None:
    with folder_lock(path):
        if path.exists():
            return
        forget_log(path)
        # SQLite gives the files beside it (-wal, -shm) the mode of this one.
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))


@contextmanager
def folder_lock(path: Path) -> Iterator[None]:
    """Keeps others from making or replacing the file at `path` meanwhile."""
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def forget_log(path: Path) -> None:
    """Removes what an earlier file of that name has left beside it; there must be no file at `path`, under the lock.

    A process that still has the earlier file open would share its memory (-shm) with those who open the new one.
    """
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


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
        raise faults.unusable(path, error.strerror) from error
    if place is None:
        raise LxgpuError(
            "not_found",
            f"there is no inventory at {path}",
            fix="lxgpu inventory rebuild, if there was one; else create the first container",
        )
    if not path.is_file():
        raise faults.unusable(path, "there is something else than a file of that name")
    if not os.access(path, os.R_OK):
        raise _no_right(path, _DENIED)
    return place


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
