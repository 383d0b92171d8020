"""A container's socket in its folder: made under another name and moved into place, so that no link leads astray.

The folder is of this host, but what is mounted in a container is not believed: nothing in it is followed.
"""

from __future__ import annotations

import os
import secrets
import socket
import stat
from contextlib import suppress
from pathlib import Path

NAME = "api.sock"
_TEMPORARY = f".{NAME}."
BACKLOG = 16
"""So many callers wait while the container has its full number of connections; the next one is told to come again."""

Mark = tuple[int, int]
"""Device and inode: which socket it is."""


def open_door(folder: str) -> tuple[socket.socket, Mark]:
    """A listening socket `api.sock` in a folder, open to everybody who reaches the folder; an older one is replaced.

    It is bound through the folder's descriptor, so a path of any length will do. Raises `OSError`.
    """
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        for left in os.listdir(place):  # noqa: PTH208 -- of a descriptor
            if left.startswith(_TEMPORARY):
                os.unlink(left, dir_fd=place)
        return _bound(place, f"{_TEMPORARY}{secrets.token_hex(4)}")
    finally:
        os.close(place)


def _bound(place: int, name: str) -> tuple[socket.socket, Mark]:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        made.bind(f"/proc/self/fd/{place}/{name}")
        entry = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=place)
        try:
            found = os.fstat(entry)
            if not stat.S_ISSOCK(found.st_mode):
                raise OSError(f"{name} is no socket")
            Path(f"/proc/self/fd/{entry}").chmod(0o666)  # the way to it leads through the container's mount alone
        finally:
            os.close(entry)
        made.listen(BACKLOG)
        os.rename(name, NAME, src_dir_fd=place, dst_dir_fd=place)
    except BaseException:
        made.close()
        raise
    return made, (found.st_dev, found.st_ino)


def is_there(folder: str, mark: Mark) -> bool:
    """Whether the socket in the folder is still that one."""
    try:
        found = Path(folder, NAME).lstat()
    except OSError:
        return False
    return (found.st_dev, found.st_ino) == mark


def close_door(folder: str, made: socket.socket, mark: Mark) -> None:
    """Close a socket and take it away, unless there is another in its place by now."""
    made.close()
    if is_there(folder, mark):
        with suppress(OSError):
            Path(folder, NAME).unlink()
