"""Which cards a container may open, by trying: a rule of version 1 cannot be read back.

A short-lived child joins the instance's cgroups and asks the kernel by access(2) about nodes of its
own. The answer comes from the same check as that of open(2) (devcgroup_inode_permission in the
kernel's fs/namei.c), but no driver is woken, no card powered up, and nothing blocks.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

from lxgpu.drivers.cgroups import DEVICES, UNIFIED, Cgroups, no_cgroup
from lxgpu.errors import LxgpuError
from lxgpu.model.gpu import DeviceNode

_CHILD = Path(__file__).with_name("openable_child.py")
_CHILD_S = 5.0
_PREFIX = ".lxgpu-"
_ROOM = "/dev"
"""Where the nodes are made for a moment: in memory, and no user can fill it."""


def openable(cgroups: Cgroups, init: int, nodes: Iterable[DeviceNode]) -> frozenset[DeviceNode]:
    """Which of the nodes a process of the instance may open for reading or for writing.

    Raises:
        LxgpuError: `unavailable`: the instance has no cgroup, or the child could not answer.
    """
    wanted = list(nodes)
    with ExitStack() as stack:
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
        answer = _ask(room, joins, len(wanted), init)
    if len(answer) != len(wanted):
        raise LxgpuError("unavailable", f"the trial in the container of process {init} gave no answer", why=answer)
    return frozenset(node for node, letter in zip(wanted, answer, strict=True) if letter == "+")


def _sweep() -> None:
    """Take away what a process left that was killed in the midst of a trial; its name tells whose it was."""
    for left in Path(_ROOM).glob(f"{_PREFIX}*"):
        pid = left.name.removeprefix(_PREFIX).partition("-")[0]
        if not Path("/proc", pid).exists():
            shutil.rmtree(left, ignore_errors=True)


def _process_lists(cgroups: Cgroups, init: int) -> list[Path]:
    """Where a process joins the instance, as near to its top as one may be.

    Under version 2 a cgroup that hands controllers down takes no process itself: then it is init's own.
    """
    tops = [top for name in (DEVICES, UNIFIED) if (top := cgroups.top(init, name)) is not None and top.is_dir()]
    found = []
    for top in tops:
        control = top / "cgroup.subtree_control"
        own = cgroups.place(init, UNIFIED) if control.exists() and control.read_text().strip() else top
        found.append((own or top) / "cgroup.procs")
    return found


def _ask(room: Path, joins: list[int], count: int, init: int) -> str:
    argv = [sys.executable, "-I", "-S", str(_CHILD), ",".join(map(str, joins)), str(count)]
    try:
        ran = subprocess.run(
            argv, cwd=room, pass_fds=joins, capture_output=True, text=True, timeout=_CHILD_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise LxgpuError(
            "unavailable",
            f"the trial in the container of process {init} did not end within {_CHILD_S:g} s",
            why="the container may be frozen",
        ) from error
    return ran.stdout.strip() or ran.stderr.strip()
