"""Who has a card's device nodes open or mapped, as /proc shows it, and what /proc hides.

A descriptor's path says nothing (it may be renamed, bound elsewhere or deleted); the device number of
the open file itself counts. Blind spots are told as doubts, never passed over: a descriptor in flight
in a unix socket is in nobody's list (`scm_fds` in fdinfo counts them), and one registered with
io_uring is named there by its path only.
Sources: proc(5), unix(7), kcmp(2), the kernel's net/unix/af_unix.c and io_uring/fdinfo.c.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from lxgpu.drivers.mappings import Mappings
from lxgpu.drivers.processes import read_stat
from lxgpu.drivers.syscalls import kind_and_device, same_files
from lxgpu.model.gpu import DeviceNode
from lxgpu.ports import Holders, Process

_ROUNDS = 5
"""So often new processes are looked for: a child may have been started by one already looked at."""
_GONE = {errno.ENOENT, errno.ESRCH}
_IN_FLIGHT = re.compile(rb"^scm_fds:\s*([1-9]\d*)", re.MULTILINE)
_REGISTERED = re.compile(rb"^\s*\d+: (.*)$", re.MULTILINE)

Number = tuple[int, int]
Wanted = Mapping[Number, str]
"""What is looked for: the node's path by its device number."""
Ways = set[tuple[str, Number]]
"""How a process holds what is looked for: the word, and the device number."""


@dataclass(slots=True)
class Findings:
    """What a scan has found so far; it is read by another thread when the scan does not end in time."""

    processes: list[tuple[Process, Ways]] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    at: int = 0

    def of(self, nodes: Iterable[DeviceNode]) -> list[Process]:
        """Who holds any of the nodes, with how."""
        wanted = {(node.major, node.minor): node.path for node in nodes}
        told = []
        for process, ways in self.processes:
            how = ", ".join(sorted(f"{word} {wanted[number]}" for word, number in ways if number in wanted))
            if how:
                told.append(replace(process, how=how))
        return told

    def holders(self, nodes: Iterable[DeviceNode]) -> Holders:
        """As the port wants it."""
        return Holders(processes=tuple(sorted(self.of(nodes))), unknown="; ".join(self.doubts))


def scan(pids: Callable[[], Iterable[int]], nodes: Iterable[DeviceNode], findings: Findings) -> Findings:
    """Look into every process that `pids` names, and into those that it names when asked again."""
    wanted: Wanted = {(node.major, node.minor): node.path for node in nodes}
    seen: set[int] = set()
    mappings = Mappings(wanted)
    for _ in range(_ROUNDS):
        fresh = set(pids()) - seen
        if not fresh:
            return findings
        for pid in sorted(fresh):
            findings.at = pid
            _look_into(pid, wanted, mappings, findings)
        seen |= fresh
    findings.doubts.append("processes start faster than they can be looked at")
    return findings


def _look_into(pid: int, wanted: Wanted, mappings: Mappings, findings: Findings) -> None:
    found = read_stat(pid)
    if found is None or found.ended:
        return
    ways: Ways = set()
    try:
        threads = [int(name) for name in os.listdir(f"/proc/{pid}/task")]  # noqa: PTH208 - 4 times as fast
        for thread in threads:
            # /proc/THREAD exists for every thread, and shows the descriptors of that one.
            if thread == pid or not same_files(pid, thread):
                ways |= _opened(thread, wanted, findings)
        # A process whose first thread has ended shows its memory at another thread only.
        ways |= mappings.of(max(threads) if found.state == "Z" else pid)
    except OSError as error:
        if error.errno not in _GONE:
            findings.doubts.append(f"process {pid} cannot be looked into: {error.strerror}")
    if ways:
        findings.processes.append((Process(pid=pid, start_time=found.start_time, command=found.command), ways))


def _opened(thread: int, wanted: Wanted, findings: Findings) -> Ways:
    ways: Ways = set()
    with _directory(f"/proc/{thread}/fd") as directory:
        for name in os.listdir(directory):  # noqa: PTH208 - a descriptor, no path
            try:
                mode, major, minor, *_ = kind_and_device(directory, name, follow=True)
                if stat.S_ISCHR(mode) and (major, minor) in wanted:
                    ways.add(("open", (major, minor)))
                elif stat.S_ISSOCK(mode):
                    _look_for_parked(thread, name, findings)
                elif stat.S_IFMT(mode) == 0 and "[io_uring]" in os.readlink(name, dir_fd=directory):
                    _look_for_registered(thread, name, findings)
            except OSError as error:
                if error.errno not in _GONE:
                    raise
    return ways


def _look_for_parked(thread: int, name: str, findings: Findings) -> None:
    parked = _IN_FLIGHT.search(_fdinfo(thread, name))
    if parked:
        count = parked[1].decode()
        findings.doubts.append(f"process {thread} has {count} descriptors in flight in socket {name}")


def _look_for_registered(thread: int, name: str, findings: Findings) -> None:
    info = _fdinfo(thread, name)
    # Only a file has a name that begins with a slash, and only a file can be a device node.
    files = [path for path in _REGISTERED.findall(info) if path.startswith(b"/")]
    if files or b"UserFiles:" not in info:  # a ring in use at this moment shows nothing
        findings.doubts.append(f"process {thread} may have files registered with io_uring in {name}")


def _fdinfo(thread: int, name: str) -> bytes:
    handle = os.open(f"/proc/{thread}/fdinfo/{name}", os.O_RDONLY)
    try:
        parts = [os.read(handle, 1 << 16)]
        while parts[-1]:
            parts.append(os.read(handle, 1 << 16))
    finally:
        os.close(handle)
    return b"".join(parts)


@contextmanager
def _directory(path: str) -> Iterator[int]:
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield handle
    finally:
        os.close(handle)
