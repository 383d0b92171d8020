"""A container's files seen from the host, without being led out of its root by links or mounts.

Sources: openat2(2), the kernel's Documentation/filesystems/path-lookup.rst.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from lxgpu.drivers.syscalls import (
    RESOLVE_BENEATH,
    RESOLVE_IN_ROOT,
    RESOLVE_NO_MAGICLINKS,
    RESOLVE_NO_SYMLINKS,
    RESOLVE_NO_XDEV,
    kind_and_device,
    openat2,
)
from lxgpu.model.gpu import DeviceNode

_DEEPEST = 5
_MOST_ENTRIES = 20_000
_OWN_FILES_ONLY = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS


@contextmanager
def below_root(init: int, path: str, flags: int) -> Iterator[int]:
    """Open a path of an instance (relative, `dev/pts`) with the instance's own idea of what `/` is.

    Raises:
        OSError: the path or the instance is not there, or a component is a link of /proc.
    """
    root = os.open(f"/proc/{init}/root", os.O_PATH | os.O_DIRECTORY)
    try:
        handle = openat2(root, path, flags, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS)
    finally:
        os.close(root)
    try:
        yield handle
    finally:
        os.close(handle)


def read_regular(init: int, path: str, *, most: int) -> bytes | None:
    """The first `most` bytes of a regular file of an instance; None if there is none, or something else.

    A FIFO or a device is not opened: its descriptor by O_PATH tells what it is, and only a file is opened by it.

    Raises:
        OSError: the instance is not there.
    """
    Path(f"/proc/{init}/root").stat()
    try:
        with below_root(init, path.lstrip("/"), os.O_PATH) as place:
            if not stat.S_ISREG(os.fstat(place).st_mode):
                return None
            handle = os.open(f"/proc/self/fd/{place}", os.O_RDONLY | os.O_NONBLOCK)
            with os.fdopen(handle, "rb") as file:
                return file.read(most)
    except (FileNotFoundError, NotADirectoryError):
        return None


def find_nodes(init: int, nodes: Iterable[DeviceNode]) -> frozenset[DeviceNode]:
    """Which of the nodes there are below the instance's /dev, whatever they are called there.

    Only /dev's own file system is walked, where LXD puts its nodes: what a user mounts below is theirs.
    """
    by_number = {(node.major, node.minor): node for node in nodes}
    with below_root(init, "dev", os.O_RDONLY | os.O_DIRECTORY) as directory:
        found = _devices(directory, _DEEPEST, [_MOST_ENTRIES])
    return frozenset(node for number, node in by_number.items() if number in found)


def _devices(directory: int, depth: int, left: list[int]) -> set[tuple[int, int]]:
    """The numbers of all character devices in a directory and below; `left` is how many entries may still come."""
    found: set[tuple[int, int]] = set()
    for name in os.listdir(directory):
        left[0] -= 1
        if left[0] < 0:
            raise OSError(7, "there is no end to the files below /dev")
        try:
            mode, major, minor, *_ = kind_and_device(directory, name, follow=False)
        except FileNotFoundError:
            continue
        if stat.S_ISCHR(mode):
            found.add((major, minor))
        elif stat.S_ISDIR(mode) and depth:
            found |= _devices_below(directory, name, depth, left)
    return found


def _devices_below(directory: int, name: str, depth: int, left: list[int]) -> set[tuple[int, int]]:
    try:
        below = openat2(directory, name, os.O_RDONLY | os.O_DIRECTORY, _OWN_FILES_ONLY | RESOLVE_NO_XDEV)
    except OSError:  # another file system is mounted there, or it is gone
        return set()
    try:
        return _devices(below, depth - 1, left)
    finally:
        os.close(below)
