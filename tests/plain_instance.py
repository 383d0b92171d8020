"""A container without LXD: a real init in its own namespaces, real cgroups in every tree, real processes.

Its root is the host's with a /dev of its own, in which lie the nodes asked for. It needs root, and takes
away all that it made.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path

from lxgpu.drivers.processes import read_stat
from lxgpu.model.gpu import DeviceNode
from lxgpu.ports import Process

CGROUPS = Path("/sys/fs/cgroup")
PROGRAM = Path(__file__).with_name("plain_program.py")
_NUMBERS = count(1)
_START = """
mount --rbind / "$0"
mount -t tmpfs -o mode=755 tmpfs "$0/dev"
mkdir "$0/dev/pts" "$0/dev/dri"
mount -t devpts -o newinstance,ptmxmode=666 devpts "$0/dev/pts"
for node in "$@"; do mknod -m 666 "$0/dev/${node%%:*}" c $(echo "${node#*:}" | tr : ' '); done
mknod -m 666 "$0/dev/null" c 1 3
exec chroot "$0" sleep 1000
"""


class PlainInstance:
    """A running one; `init` is its init's pid on the host, `part` its cgroup in every tree."""

    def __init__(self, nodes: Iterable[DeviceNode]) -> None:
        self.part = f"lxc.payload.lxgpu-test-{os.getpid()}-{next(_NUMBERS)}"
        self.nodes = tuple(nodes)
        self._root = Path(tempfile.mkdtemp(prefix="lxgpu-test-root-"))
        self._programs: list[subprocess.Popen[str]] = []
        self._places = [tree / self.part for tree in CGROUPS.iterdir() if (tree / "cgroup.procs").exists()]
        for place in self._places:
            _make_cgroup(place)
        named = [f"{node.path}:{node.major}:{node.minor}" for node in self.nodes]
        namespaces = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private"]
        self._top = subprocess.Popen([*namespaces, "sh", "-ec", _START, str(self._root), *named])
        self.init = self._child_named("sleep")
        self.join(self.init)

    def path(self, node: DeviceNode) -> str:
        """Where the host sees the node that is inside."""
        return f"/proc/{self.init}/root/dev/{node.path}"

    def place(self, tree: str) -> Path:
        """The instance's cgroup in a tree."""
        return CGROUPS / tree / self.part

    def join(self, pid: int, *, below: str = "") -> None:
        """Put a process into the instance, or into a cgroup below its top."""
        for place in self._places:
            for upper in reversed([place / below, *(place / below).parents]):
                if upper.is_relative_to(place):
                    _make_cgroup(upper)
            (place / below / "cgroup.procs").write_text(str(pid))

    def start(self, way: str, node: DeviceNode | None = None, *, below: str = "") -> Process:
        """Start a process inside that holds the node in one of the ways of `plain_program`."""
        program = self.launch(way, node, below=below)
        answer = program.stdout.readline().strip()
        if answer != "ok" and not answer.isdigit():
            raise OSError(answer)
        return self.process(int(answer) if answer.isdigit() else program.pid)

    def attempt(self, node: DeviceNode, *, below: str = "") -> str:
        """What a process inside gets when it opens the node: `ok` or the words of the error."""
        return self.launch("open", node, below=below).stdout.readline().strip()

    def launch(self, way: str, node: DeviceNode | None, *, below: str = "") -> subprocess.Popen[str]:
        """Start a program inside; its answer is not waited for."""
        argv = [sys.executable, "-S", str(PROGRAM), way, self.path(node) if node else ""]
        program = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        self._programs.append(program)
        self.join(program.pid, below=below)
        program.stdin.write("go\n")
        program.stdin.flush()
        return program

    def process(self, pid: int) -> Process:
        """The process of that pid, with its start time."""
        return Process(pid=pid, start_time=read_stat(pid).start_time, command=read_stat(pid).command)

    def wait_gone(self, process: Process) -> bool:
        """Whether the process ends within two seconds."""
        return wait_for(lambda: (found := read_stat(process.pid)) is None or found.ended)

    def freeze(self, *, below: str = "") -> None:
        """Freeze the instance, or a cgroup below its top, by version 1's freezer."""
        place = self.place("freezer") / below
        (place / "freezer.state").write_text("FROZEN")
        wait_for(lambda: (place / "freezer.state").read_text().strip() == "FROZEN")

    def stop(self) -> None:
        """End everything that runs inside, whatever it does against it."""
        freezer = self.place("freezer")
        for place in [freezer, *freezer.rglob("*/")] if freezer.exists() else []:
            (place / "freezer.state").write_text("THAWED")
        for place in self._places:
            for pid in {int(line) for path in place.rglob("cgroup.procs") for line in path.read_text().split()}:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self._top.kill()
        self._top.wait()
        for program in self._programs:
            program.kill()
            program.wait()
            program.stdin.close()
            program.stdout.close()
        wait_for(lambda: (found := read_stat(self.init)) is None or found.ended)

    def close(self) -> None:
        """Stop, and take away cgroups and files."""
        self.stop()
        for place in self._places:
            wait_for(lambda place=place: _remove_cgroup(place))
        shutil.rmtree(self._root)

    def _child_named(self, name: str) -> int:
        children = Path(f"/proc/{self._top.pid}/task/{self._top.pid}/children")
        found: list[int] = []

        def ready() -> bool:
            found[:] = [pid for pid in map(int, children.read_text().split()) if read_stat(pid).command == name]
            return bool(found)

        if not wait_for(ready):
            raise OSError("the init did not start")
        return found[0]


@contextlib.contextmanager
def plain_instance(nodes: Iterable[DeviceNode]) -> Iterator[PlainInstance]:
    """A running instance for the time of a test."""
    instance = PlainInstance(nodes)
    try:
        yield instance
    finally:
        instance.close()


def wait_for(condition, *, timeout_s: float = 2.0) -> bool:
    """Whether the condition becomes true in time."""
    ends = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > ends:
            return False
        time.sleep(0.005)
    return True


def _make_cgroup(place: Path) -> None:
    place.mkdir(exist_ok=True)
    for name in ("cpuset.cpus", "cpuset.mems"):
        if (place / name).exists() and not (place / name).read_text().strip():
            (place / name).write_text((place.parent / name).read_text())


def _remove_cgroup(place: Path) -> bool:
    for below in sorted(place.rglob("*/"), key=lambda path: len(path.parts), reverse=True):
        with contextlib.suppress(OSError):
            below.rmdir()
    with contextlib.suppress(OSError):
        place.rmdir()
    return not place.exists()
