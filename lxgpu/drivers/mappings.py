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
from collections.abc import Container
from pathlib import Path

from lxgpu.drivers.syscalls import kind_and_device

_GONE = {errno.ENOENT, errno.ESRCH}
_POOL = "/storage-pools/"
# The span of memory, the file system with the inode (0: no file), and the path.
_FILE = re.compile(rb"^(\S+) \S+ \S+ (\S+ [1-9]\d*) *(.*)$", re.MULTILINE)

Mapped = set[tuple[str, tuple[int, int]]]
"""("mapped", device number) of each."""


class Mappings:
    """One scan's knowledge of mapped files; `wanted` are device numbers.

    Two files never share file system and inode, but on btrfs: there that pair counts for each subvolume
    anew, which shows by another file system in stat(2). There a file is known by its path as well, if no
    device node can lie beside it: nodes are made by the host's root on the host's own file systems.
    """

    def __init__(self, wanted: Container[tuple[int, int]]) -> None:
        self._wanted = wanted
        self._harmless: set[bytes] = set()
        self._hosts = _systems_of_the_host()

    def of(self, thread: int) -> Mapped:
        """Which wanted devices a process (by one of its living threads) maps, as ("mapped", number)."""
        found: Mapped = set()
        directory = os.open(f"/proc/{thread}/map_files", os.O_RDONLY | os.O_DIRECTORY)
        try:
            for span, key, path in _FILE.findall(_maps(thread)):
                if key not in self._harmless and key + b" " + path not in self._harmless:
                    found |= self._look(directory, span, key, path)
        finally:
            os.close(directory)
        return found

    def _look(self, directory: int, span: bytes, key: bytes, path: bytes) -> Mapped:
        try:
            mode, major, minor, *home = kind_and_device(directory, _as_in_map_files(span), follow=True)
        except OSError as error:
            if error.errno in _GONE:  # unmapped meanwhile
                return set()
            raise
        if stat.S_ISCHR(mode) and (major, minor) in self._wanted:
            return {("mapped", (major, minor))}
        system = key.partition(b" ")[0]
        if system == b"%02x:%02x" % tuple(home):
            self._harmless.add(key)
        elif system not in self._hosts:
            self._harmless.add(key + b" " + path)
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


def _maps(thread: int) -> bytes:
    with open(f"/proc/{thread}/maps", "rb", buffering=0) as file:  # noqa: PTH123 - thousands of them
        parts = []
        while part := file.read(1 << 16):
            parts.append(part)
        return b"".join(parts)


def _as_in_map_files(span: bytes) -> str:
    """Both files write a span of memory as two numbers, but `maps` fills small ones up with zeros."""
    return re.sub("(^|-)0+(?=[0-9a-f])", r"\1", span.decode("ascii"))
