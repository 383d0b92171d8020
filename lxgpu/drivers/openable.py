"""Which cards a container may open, by trying: a rule of version 1 cannot be read back.

A short-lived process joins the instance's cgroups and asks the kernel by access(2) about nodes of our
own. The answer comes from the same check as that of open(2) (devcgroup_inode_permission in the
kernel's fs/namei.c), but no driver is woken, no card powered up, and nothing blocks.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from pathlib import Path

from lxgpu.drivers import device_bpf
from lxgpu.drivers.cgroups import DEVICES, UNIFIED, Cgroups, no_cgroup
from lxgpu.errors import LxgpuError
from lxgpu.model.gpu import DeviceNode

_CHILD = Path(__file__).with_name("openable_child.py")
_CHILD_S = 5.0
_END_S = 1.0
_LONGEST = 1 << 16
_PREFIX = ".lxgpu-"
_ROOM = "/dev"
"""Where the nodes are made for a moment: in memory, and no user can fill it."""


class Trials:
    """Makes trials by one child that waits for the next one, since its start is most of what a trial costs."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None
        self._wire: socket.socket | None = None
        self._lock = threading.Lock()

    def close(self) -> None:
        """Let the child go, and a trial that hangs in a frozen container with it."""
        child, wire, self._child, self._wire = self._child, self._wire, None, None
        if wire is not None:
            wire.close()
        if child is not None:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            with suppress(subprocess.TimeoutExpired):
                child.wait(timeout=_END_S)

    def __del__(self) -> None:
        self.close()

    def openable(self, cgroups: Cgroups, init: int, nodes: Iterable[DeviceNode]) -> frozenset[DeviceNode]:
        """Which of the nodes a process of the instance may open for reading or for writing.

        Raises:
            LxgpuError: `unavailable`: the instance has no cgroup, or the child could not answer.
        """
        wanted = list(nodes)
        with self._lock, ExitStack() as stack:
            joins = [os.open(path, os.O_WRONLY) for path in _process_lists(cgroups, init)]
            for handle in joins:
                stack.callback(os.close, handle)
            if not joins:
                raise no_cgroup(init)
            _sweep()
            prefix = f"{_PREFIX}{os.getpid()}-"
            room = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=prefix, dir=_ROOM)))
            for at, node in enumerate(wanted):
                os.mknod(room / str(at), stat.S_IFCHR | 0o600, os.makedev(node.major, node.minor))
            directory = os.open(room, os.O_PATH | os.O_DIRECTORY)
            stack.callback(os.close, directory)
            answer = self._ask([directory, *joins], len(wanted), init)
        if len(answer) != len(wanted):
            raise LxgpuError(
                "unavailable", f"the trial in the container of process {init} gave no answer", why=answer.lstrip("!")
            )
        return frozenset(node for node, letter in zip(wanted, answer, strict=True) if letter == "+")

    def _ask(self, handles: list[int], count: int, init: int) -> str:
        """Ask the child that waits; one that has ended meanwhile is replaced, one that does not answer is ended."""
        for fresh in (False, True):
            wire = self._connected(fresh=fresh)
            try:
                socket.send_fds(wire, [str(count).encode()], handles)
                answer = wire.recv(_LONGEST)
            except TimeoutError as error:
                self.close()
                raise LxgpuError(
                    "unavailable",
                    f"the trial in the container of process {init} did not end within {_CHILD_S:g} s",
                    why="the container may be frozen",
                ) from error
            except OSError:
                answer = b""
            if answer:
                return answer.decode()
        self.close()
        return "the child that tries it has ended"

    def _connected(self, *, fresh: bool) -> socket.socket:
        if fresh:
            self.close()
        if self._wire is None:
            self._wire, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self._wire.settimeout(_CHILD_S)
            argv = [sys.executable, "-I", "-S", str(_CHILD)]
            with theirs:  # in a group of its own, which can be ended as a whole, and which no Ctrl-C reaches
                self._child = subprocess.Popen(
                    argv, stdin=theirs.fileno(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, process_group=0
                )
        return self._wire


def openable(cgroups: Cgroups, init: int, nodes: Iterable[DeviceNode]) -> frozenset[DeviceNode]:
    """One trial; see `Trials.openable`."""
    trials = Trials()
    try:
        return trials.openable(cgroups, init, nodes)
    finally:
        trials.close()


def _sweep() -> None:
    """Take away what a process left that was killed in the midst of a trial; its name tells whose it was."""
    for left in Path(_ROOM).glob(f"{_PREFIX}*"):
        pid = left.name.removeprefix(_PREFIX).partition("-")[0]
        if not Path("/proc", pid).exists():
            shutil.rmtree(left, ignore_errors=True)


def _process_lists(cgroups: Cgroups, init: int) -> list[Path]:
    """Where a process joins the instance, as near to its top as one may be.

    Under version 1 by the list of threads: a process of one thread that moves itself makes the kernel wait for nobody
    there. Under version 2 only where a program says what may be opened, or nothing else does: joining waits for every
    processor. A cgroup of version 2 that hands controllers down takes no process itself: then it is init's own.
    """
    v1 = cgroups.top(init, DEVICES)
    found = [v1 / "tasks"] if v1 is not None and v1.is_dir() else []
    v2 = cgroups.top(init, UNIFIED)
    if v2 is not None and v2.is_dir():
        control = v2 / "cgroup.subtree_control"
        own = cgroups.place(init, UNIFIED) if control.exists() and control.read_text().strip() else v2
        place = own or v2
        if not found or device_bpf.decides(place):
            found.append(place / "cgroup.procs")
    return found
