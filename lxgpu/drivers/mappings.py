"""Device nodes that processes have mapped: a mapping outlives its descriptor.

/proc/PID/maps names the file system and the inode of each mapping, and only the link in map_files tells
whether that is a device. The link is dear (7 µs), and a process has hundreds of mappings of the same few
libraries; so each file is asked about once a scan. Sources: proc(5), the kernel's fs/proc/task_mmu.c.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path

from lxgpu.drivers.syscalls import kind_and_device

_GONE = {errno.ENOENT, errno.ESRCH}
_POOL = "/storage-pools/"


class Mappings:
    """One scan's knowledge of mapped files; `wanted` are paths by device number.

    Two files never share file system and inode, but on btrfs: there that pair counts for each subvolume
    anew, which shows by another file system in stat(2). There a file is known by its path as well, if no
    device node can lie beside it: nodes are made by the host's root on the host's own file systems.
    """

    def __init__(self, wanted: Mapping[tuple[int, int], str]) -> None:
        self._wanted = wanted
        self._harmless: set[bytes] = set()
        self._hosts = _systems_of_the_host()

    def of(self, thread: int) -> set[str]:
        """How a process (by one of its living threads) maps wanted devices, in words."""
        ways: set[str] = set()
        directory = os.open(f"/proc/{thread}/map_files", os.O_RDONLY | os.O_DIRECTORY)
        try:
            for line in _lines(thread):
                span, _, _, system, inode, *path = line.split(None, 5)
                key = system + b" " + inode
                named = key + b" " + b"".join(path)
                if inode != b"0" and key not in self._harmless and named not in self._harmless:
                    ways |= self._look(directory, span, system, key, named)
        finally:
            os.close(directory)
        return ways

    def _look(self, directory: int, span: bytes, system: bytes, key: bytes, named: bytes) -> set[str]:
        try:
            mode, major, minor, *home = kind_and_device(directory, _as_in_map_files(span), follow=True)
        except OSError as error:
            if error.errno in _GONE:  # unmapped meanwhile
                return set()
            raise
        if stat.S_ISCHR(mode) and (major, minor) in self._wanted:
            return {f"mapped {self._wanted[major, minor]}"}
        if system == b"%02x:%02x" % tuple(home):
            self._harmless.add(key)
        elif system not in self._hosts:
            self._harmless.add(named)
        return set()


def _systems_of_the_host() -> frozenset[bytes]:
    """The file systems that the host itself has mounted, as maps names them; storage pools alone are none of those."""
    found = set()
    for line in Path("/proc/self/mountinfo").read_text(errors="replace").splitlines():
        _, _, number, _, point, *_ = line.split(" ")
        if _POOL not in point:
            major, _, minor = number.partition(":")
            found.add(b"%02x:%02x" % (int(major), int(minor)))
    return frozenset(found)


def _lines(thread: int) -> list[bytes]:
    with open(f"/proc/{thread}/maps", "rb") as file:  # noqa: PTH123 - thousands of them
        return file.readlines()


def _as_in_map_files(span: bytes) -> str:
    """Both files write a span of memory as two numbers, but `maps` fills small ones up with zeros."""
    return re.sub("(^|-)0+(?=[0-9a-f])", r"\1", span.decode("ascii"))
