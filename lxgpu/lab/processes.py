"""Which of the machine's processes belong to a lab, and ending them.

A process is the lab's when it carries the lab's mark in its environment (all that the lab starts does, and
passes it on), when it lives in a mount namespace of a marked process, or when its root file system lies on
the lab's pool. Names prove nothing and are never looked at.
"""

from __future__ import annotations

import os
import re
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

MARK = "LXGPU_LAB_PROCESS"
PROC, CGROUPS, BLOCKS = Path("/proc"), Path("/sys/fs/cgroup"), Path("/sys/block")
PAYLOAD = re.compile(r"^(?P<top>.*/lxc\.(?:payload|monitor)\.[^/]+)")


@dataclass(frozen=True, slots=True)
class Process:
    """A running process: its pid and the moment it started, in clock ticks since boot."""

    pid: int
    started: int

    def alive(self) -> bool:
        """Whether that very process still runs; a zombie does not."""
        return started_at(self.pid) == self.started

    def command(self) -> str:
        """Its command line, for messages."""
        words = _read(PROC / str(self.pid) / "cmdline").replace(b"\0", b" ")
        return words.decode(errors="replace").strip() or "?"


def started_at(pid: int) -> int | None:
    """When the process started, in clock ticks since boot; None when it does not run."""
    text = _read(PROC / str(pid) / "stat").decode(errors="replace")
    fields = text.rpartition(")")[2].split()
    if not fields or fields[0] in {"Z", "X"}:
        return None
    return int(fields[19])


def loops_of(directory: Path) -> list[str]:
    """The loop devices whose file lies in the lab's directory, as /dev/loopN."""
    below = f"{directory}/".encode()
    return [
        f"/dev/{path.parts[-3]}" for path in BLOCKS.glob("loop*/loop/backing_file") if _read(path).startswith(below)
    ]


def lab_processes(directory: Path) -> list[Process]:
    """All running processes of the lab in that directory; never this one or one of its ancestors."""
    mine = set(_ancestors())
    mark = f"{MARK}={directory}".encode()
    spaces = {pid: _namespace(pid) for pid in all_pids() if pid not in mine}
    marked = {pid for pid in spaces if mark in _read(PROC / str(pid) / "environ").split(b"\0")}
    inside = {spaces[pid] for pid in marked} - {"", _namespace(1), _namespace(os.getpid())}
    loops = set(loops_of(directory))
    foreign = {space: pid for pid, space in spaces.items()}
    on_pool = {space for space, pid in foreign.items() if space and _root_source(pid) in loops} if loops else set()
    ours = [pid for pid, space in spaces.items() if pid in marked or space in inside or space in on_pool]
    return [Process(pid, started) for pid in ours if (started := started_at(pid)) is not None]


def end_all(directory: Path, *, limit: float = 20) -> list[Process]:
    """Kill the lab's processes until there are none; return those that are left after `limit` seconds.

    What has been seen once is waited for to its end: a process that is dying shows neither environment nor
    namespaces any more, and still sits in its cgroup.
    """
    deadline = time.monotonic() + limit
    seen: set[Process] = set()
    while True:
        fresh = lab_processes(directory)
        seen = {process for process in seen.union(fresh) if process.alive()}
        if not seen or time.monotonic() > deadline:
            return sorted(seen, key=lambda process: process.pid)
        for process in fresh:
            _kill(process)
        time.sleep(0.05)


def _kill(process: Process) -> None:
    try:
        handle = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return
    try:
        if process.alive():
            _thaw(process.pid)
            signal.pidfd_send_signal(handle, signal.SIGKILL)
    except ProcessLookupError:
        pass
    finally:
        os.close(handle)


def _thaw(pid: int) -> None:
    """A frozen container's processes take the signal only when thawed (cgroup v1)."""
    for hierarchy, path in cgroups_of(pid):
        if hierarchy != "freezer" or not (top := PAYLOAD.match(path)):
            continue
        root = CGROUPS / "freezer" / top["top"].lstrip("/")
        for state in (root / "freezer.state", *root.glob("**/freezer.state")):
            if state.exists():
                state.write_text("THAWED")


def cgroups_of(pid: int) -> list[tuple[str, str]]:
    """The process's cgroups as (controllers, path); the controllers are empty for version 2."""
    lines = _read(PROC / str(pid) / "cgroup").decode(errors="replace").splitlines()
    return [(parts[1], parts[2]) for line in lines if len(parts := line.split(":", 2)) == 3]  # noqa: PLR2004


def all_pids() -> Iterator[int]:
    """The pids of all processes of the machine."""
    return (int(entry) for entry in os.listdir(PROC) if entry.isdigit())  # noqa: PTH208 -- a thousand entries


def _ancestors() -> Iterator[int]:
    pid = os.getpid()
    while pid > 0:
        yield pid
        fields = _read(PROC / str(pid) / "stat").decode(errors="replace").rpartition(")")[2].split()
        pid = int(fields[1]) if fields else 0


def _namespace(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/mnt")  # noqa: PTH115 -- a thousand times, as text
    except OSError:
        return ""


def _root_source(pid: int) -> str:
    """What is mounted as the process's root: the ninth field or later of its mountinfo line for /."""
    for line in _read(PROC / str(pid) / "mountinfo").decode(errors="replace").splitlines():
        before, _, after = line.partition(" - ")
        if before.split()[4] == "/":
            return after.split()[1]
    return ""


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # the process has ended meanwhile
        return b""
