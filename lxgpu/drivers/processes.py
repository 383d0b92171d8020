"""Processes of the host: who they are, and a signal that never meets the wrong one.

A pid is used again; a pid with its start time is not. Sources: proc(5), pidfd_open(2), ioctl_ns(2), the kernel's
Documentation/admin-guide/cgroup-v1/freezer-subsystem.rst and cgroup-v2.rst (cgroup.freeze).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lxgpu.drivers.cgroups import FREEZER, Cgroups
from lxgpu.ports import Process

_GONE_WITHIN_MS = 20
_LONGEST_COMMAND = 200
_NS_GET_PARENT = 0xB702
"""ioctl_ns(2): the namespace around one, as a descriptor."""


@dataclass(frozen=True, slots=True)
class Stat:
    """What /proc/PID/stat tells: `state` is one letter, `start_time` is in ticks since the boot."""

    pid: int
    command: str
    state: str
    parent: int
    threads: int
    start_time: int

    @property
    def ended(self) -> bool:
        """Whether it is a zombie: its files are closed. One whose first thread alone has ended is none."""
        return self.state in {"Z", "X"} and self.threads <= 1


def read_stat(pid: int) -> Stat | None:
    """The process of that pid; None when there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes().decode(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name may hold spaces and brackets, so the fields are counted from the last bracket.
    head, _, tail = text.rpartition(")")
    fields = tail.split()
    command = head.partition("(")[2]
    return Stat(
        pid=pid,
        command="".join(char if char.isprintable() else "?" for char in command),
        state=fields[0],
        parent=int(fields[1]),
        threads=int(fields[17]),
        start_time=int(fields[19]),
    )


def command_line(pid: int) -> str | None:
    """The command line of a process, cut short, or its name where it has none; None when it is gone."""
    try:
        with Path(f"/proc/{pid}/cmdline").open("rb") as file:
            words = file.read(_LONGEST_COMMAND).rstrip(b"\0").replace(b"\0", b" ").decode(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    if not words:
        found = read_stat(pid)
        return found.command if found else None
    return "".join(char if char.isprintable() else "?" for char in words)


def all_pids() -> Iterator[int]:
    """Every process of the host at this moment."""
    return (int(name) for name in os.listdir("/proc") if name.isdigit())  # noqa: PTH208 - 4 times as fast


def pid_namespace(pid: int) -> str | None:
    """The pid namespace of a process; None when it is gone, or has more rights than we and so is the host's."""
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")  # noqa: PTH115 - 4 times as fast
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None


def spaces_of(pid: int) -> Iterator[str]:
    """The pid namespace of a process, then those around it, up to our own, which is left out; nothing when it is gone.

    A container's programs may make namespaces of their own (ioctl_ns(2)), and are the container's all the same.
    """
    own = pid_namespace(os.getpid())
    try:
        handle = os.open(f"/proc/{pid}/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        while (space := f"pid:[{os.fstat(handle).st_ino}]") != own:
            yield space
            parent = fcntl.ioctl(handle, _NS_GET_PARENT)
            os.close(handle)
            handle = parent
    except OSError:
        return  # what lies further out is not ours to see
    finally:
        os.close(handle)


def send(process: Process, number: int, cgroups: Cgroups) -> bool:
    """Send a signal to exactly this process; False when it is gone.

    A frozen process takes KILL only when thawed under version 1, and its own container's root can
    freeze it: it is moved to a freezer cgroup of the host's own first. Under version 2 KILL lands in a
    frozen process as it is.
    """
    try:
        handle = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return False
    try:
        # In this order: the handle stands for one process for ever, so what is read now is that one's.
        found = read_stat(process.pid)
        if found is None or found.start_time != process.start_time or found.ended:
            return False
        if number != signal.SIGKILL:
            return _deliver(handle, number)
        with _thawed(process.pid, handle, cgroups):
            return _deliver(handle, number)
    finally:
        os.close(handle)


def _deliver(handle: int, number: int) -> bool:
    try:
        signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return False
    return True


@contextlib.contextmanager
def _thawed(pid: int, handle: int, cgroups: Cgroups) -> Iterator[None]:
    """Hold a frozen process in a freezer cgroup of our own; nothing to do for any other."""
    tree, place = cgroups.tree(FREEZER), cgroups.place(pid, FREEZER)
    if tree is None or place is None or _freezer_state(place) == "THAWED":
        yield
        return
    for left in tree.glob("lxgpu.kill-*"):
        with contextlib.suppress(OSError):  # in use
            left.rmdir()
    own = tree / f"lxgpu.kill-{pid}"
    own.mkdir(exist_ok=True)
    try:
        with contextlib.suppress(ProcessLookupError):
            (own / "cgroup.procs").write_text(str(pid))
        yield
        select.select([handle], [], [], _GONE_WITHIN_MS / 1000)
    finally:
        with contextlib.suppress(OSError):  # still ending: the next call takes it along
            own.rmdir()


def _freezer_state(place: Path) -> str:
    """The state in force, a frozen parent's included; a cgroup that is gone freezes nobody."""
    try:
        return (place / "freezer.state").read_text().strip()
    except FileNotFoundError:  # the top cgroup has no such file, and cannot be frozen
        return "THAWED"
