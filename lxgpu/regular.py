"""Files that people name: read only if they are files. A pipe that nobody writes to would be waited for without end."""

from __future__ import annotations

import errno
import os
import stat

TYPE_CHECKING = False  # importing `typing` would cost as much as Python's own start
if TYPE_CHECKING:
    from io import BufferedReader

NO_FILE = "it is no regular file (a pipe, a device or a socket)"


def open_regular(path: str | os.PathLike[str]) -> BufferedReader:
    """Open a regular file for reading.

    Raises:
        OSError: it cannot be opened, or is something else than a file; then `strerror` says so.
    """
    if not _is_regular(os.stat(path)):  # noqa: PTH116 -- a device may do something when it is opened
        raise _no_file(path)
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    if not _is_regular(os.fstat(handle)):
        os.close(handle)
        raise _no_file(path)
    return os.fdopen(handle, "rb")


def _is_regular(found: os.stat_result) -> bool:
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    return stat.S_ISREG(found.st_mode)


def _no_file(path: str | os.PathLike[str]) -> OSError:
    return OSError(errno.EINVAL, NO_FILE, os.fspath(path))
