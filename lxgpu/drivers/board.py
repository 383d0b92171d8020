"""The files of a container that lxgpu writes on the host: notices and the login banner.

The folder belongs to the host's root and is only mounted inside, so a full disk, a frozen container or a hung one is
never in the way. No link is followed all the same: root of a privileged container could leave one there.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lxgpu.errors import LxgpuError

_MOST = 256 * 1024


class FolderBoard:
    """`ports.Board`; `folder` gives a container's folder on this host, which it makes where it is missing."""

    def __init__(self, folder: Callable[[str], str]) -> None:
        self._folder = folder

    def read(self, instance: str, file: str) -> str:
        """What stands there; empty when there is no such file."""
        with self._open(instance) as directory:
            return _read(directory, file)

    def write(self, instance: str, file: str, text: str) -> bool:
        """Put a text in the file's place in one go; False when it stood there already. Its time is now either way."""
        with self._open(instance) as directory:
            if _read(directory, file) == text:
                with suppress(OSError):  # there is none, and none is wanted; or nothing can be written
                    os.utime(file, dir_fd=directory, follow_symlinks=False)
                return False
            _replace(directory, file, text.encode())
            return True

    def move(self, instance: str, new: str) -> None:
        """The folder goes to another name, in the place of what was there; nothing to do when it has gone already."""
        with _told(instance):
            target = Path(self._folder(new))
            source = target.with_name(instance)
            if source.is_dir() and not source.is_symlink():
                _take_away(target)
                source.rename(target)

    def remove(self, instance: str) -> None:
        """The folder goes, with all that lies in it."""
        with _told(instance):
            _take_away(Path(self._folder(instance)))

    @contextmanager
    def _open(self, instance: str) -> Iterator[int]:
        with _told(instance):
            directory = os.open(self._folder(instance), os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                yield directory
            finally:
                os.close(directory)


def _take_away(folder: Path) -> None:
    with suppress(FileNotFoundError):
        shutil.rmtree(folder)  # follows no link


@contextmanager
def _told(instance: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise LxgpuError(
            "unavailable",
            f"the folder of {instance} on this host cannot be used",
            why=error.strerror or str(error),
            fix="df and ls -ld of the folder guests below the setting state_dir",
        ) from error


def _read(directory: int, file: str) -> str:
    try:
        handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    except OSError as error:
        if error.errno in {errno.ENOENT, errno.ELOOP}:  # none, or a link, which the next write replaces
            return ""
        raise
    with os.fdopen(handle, "rb") as found:
        if not stat.S_ISREG(os.fstat(found.fileno()).st_mode):
            return ""
        return found.read(_MOST).decode(errors="replace")


def _replace(directory: int, file: str, content: bytes) -> None:
    fresh = f".{file}.{os.urandom(4).hex()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(fresh, flags, 0o644, dir_fd=directory)
    try:
        with os.fdopen(handle, "wb") as target:
            os.fchmod(handle, 0o644)  # whatever the umask: people read it inside
            target.write(content)
        os.replace(fresh, file, src_dir_fd=directory, dst_dir_fd=directory)
    except OSError:
        with suppress(OSError):
            os.unlink(fresh, dir_fd=directory)
        raise
