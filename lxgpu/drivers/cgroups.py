"""Control groups of a host: where a process is, and which of them belong to an instance.

A path is never built from an instance's name: `a1` may run in `lxc.payload.a1-1`, while somebody
else is called `a1-1`. It always comes from /proc/PID/cgroup of the instance's init. Version 1,
version 2 and both at once (hybrid) are met. Sources: cgroups(7), proc(5), the kernel's
Documentation/admin-guide/cgroup-v1 and cgroup-v2.rst.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lxgpu.errors import LxgpuError

UNIFIED = ""
"""The name of version 2's one tree, as /proc/PID/cgroup has it."""
DEVICES = "devices"
"""Version 1's controller of device rules."""
FREEZER = "freezer"
"""Version 1's controller of frozen processes."""

# Any of these shows all processes of an instance; those with the fewest sub-groups come first. Never
# the freezer: a process about to be killed may have been moved out of the instance there.
_MEMBERSHIP = (DEVICES, "memory", "pids", UNIFIED, "cpuset", "cpu", "name=systemd")


@dataclass(frozen=True, slots=True)
class Mount:
    """One mounted cgroup tree: its directory, its controllers, and the cgroup that its top shows."""

    directory: Path
    controllers: frozenset[str]
    root: str


def instance_part(path: str) -> str | None:
    """The cgroup of the container that `path` lies in, or None outside of any.

    Known forms: `lxc.payload.NAME`, `lxc.payload/NAME` and the old `lxc/NAME`, at any depth; of nested
    ones the outermost. What lies in `lxc.monitor` is LXD's own process and no user's work.
    """
    parts = path.split("/")
    for at, part in enumerate(parts):
        if part.startswith("lxc.monitor"):
            return None
        if part.startswith("lxc.payload."):
            return "/".join(parts[: at + 1])
        if part in {"lxc", "lxc.payload"} and len(parts) > at + 1:
            return "/".join(parts[: at + 2])
    return None


def within(path: str, part: str) -> bool:
    """Whether the cgroup `path` is `part` or lies below it."""
    return path == part or path.startswith(part + "/")


class Cgroups:
    """The cgroup trees of the host; `root` is `/` but for recorded trees in tests."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._mounts: tuple[Mount, ...] = ()

    def paths(self, pid: int) -> dict[str, str]:
        """The cgroup of a process by controller; empty when the process is gone."""
        try:
            text = (self._root / "proc" / str(pid) / "cgroup").read_text(errors="surrogateescape")
        except (FileNotFoundError, ProcessLookupError):
            return {}
        found: dict[str, str] = {}
        for line in text.splitlines():
            _, controllers, path = line.split(":", 2)
            found.update(dict.fromkeys(controllers.split(","), path.removesuffix(" (deleted)")))
        return found

    def part(self, pid: int) -> str | None:
        """The cgroup of the container that a process runs in; None on the host itself or when it is gone."""
        paths = self.paths(pid)
        found = (instance_part(paths[name]) for name in _MEMBERSHIP if name in paths)
        return next((part for part in found if part is not None), None)

    def top(self, init: int, controller: str) -> Path | None:
        """The directory of the instance's top cgroup for a controller; None where it has none of its own."""
        path = self.paths(init).get(controller, "/")
        part = instance_part(path) or path.removesuffix("/init.scope")
        return None if part in {"", "/"} else self._directory(controller, part)

    def place(self, pid: int, controller: str) -> Path | None:
        """The directory of a process's own cgroup for a controller; None where the host has no such."""
        path = self.paths(pid).get(controller)
        return None if path is None else self._directory(controller, path)

    def tree(self, controller: str) -> Path | None:
        """The directory at which a controller's tree is mounted."""
        return next((mount.directory for mount in self._mounted() if controller in mount.controllers), None)

    def members(self, init: int) -> frozenset[int]:
        """All processes of an instance, whatever cgroups its own root made inside.

        Raises:
            LxgpuError: `unavailable`: the instance has no cgroup of its own (init is gone, or is no container's).
        """
        for controller in _MEMBERSHIP:
            directory = self.top(init, controller)
            if directory is not None and directory.is_dir():
                return _all_in(directory)
        raise no_cgroup(init)

    def processes_of(self, part: str) -> frozenset[int]:
        """The processes in and below a cgroup that `part` gave."""
        places = (self._directory(name, part) for name in _MEMBERSHIP)
        directory = next((place for place in places if place is not None and place.is_dir()), None)
        return frozenset() if directory is None else _all_in(directory)

    def contained(self) -> frozenset[int]:
        """The processes of all containers of the host.

        Raises:
            LxgpuError: `unavailable`: no cgroup tree is mounted.
        """
        for controller in _MEMBERSHIP:
            tree = self.tree(controller)
            if tree is not None:
                parts = (below for below in walk(tree) if instance_part(f"/{below.relative_to(tree)}") is not None)
                return frozenset(pid for below in parts for pid in processes_in(below))
        raise LxgpuError("unavailable", "no cgroup tree is mounted on this host", fix="mount cgroup2 at /sys/fs/cgroup")

    def _directory(self, controller: str, path: str) -> Path | None:
        for mount in self._mounted():
            if controller in mount.controllers and within(path, mount.root.rstrip("/")):
                return mount.directory / path.removeprefix(mount.root.rstrip("/")).lstrip("/")
        return None

    def _mounted(self) -> tuple[Mount, ...]:
        if not self._mounts:
            text = (self._root / "proc/self/mountinfo").read_text(errors="surrogateescape")
            found = [mount for line in text.splitlines() if (mount := _mount(line, self._root)) is not None]
            self._mounts = tuple(sorted(found, key=lambda mount: len(mount.root)))
        return self._mounts


def no_cgroup(init: int) -> LxgpuError:
    """The error for an instance without a cgroup of its own."""
    return LxgpuError(
        "unavailable",
        f"process {init} runs in no container's cgroup",
        why="it has ended, or it is no container's init; so its processes cannot be told from the host's",
        fix="look again: the container may have stopped",
    )


def walk(directory: Path) -> Iterator[Path]:
    """A cgroup and all below it, parents before their children; what vanishes meanwhile is left out."""
    waiting = [directory]
    while waiting:
        present = waiting.pop()
        yield present
        try:
            with os.scandir(present) as entries:
                waiting += [present / entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        except FileNotFoundError:
            continue


def processes_in(directory: Path) -> list[int]:
    """The processes of one cgroup; none for a threaded one, whose processes stand in its domain's list."""
    try:
        return [int(line) for line in (directory / "cgroup.procs").read_text().split()]
    except OSError as error:
        if error.errno in {errno.ENOENT, errno.ENODEV, errno.EOPNOTSUPP}:  # gone, gone while it was read, threaded
            return []
        raise


def _all_in(directory: Path) -> frozenset[int]:
    return frozenset(pid for below in walk(directory) for pid in processes_in(below))


def _mount(line: str, root: Path) -> Mount | None:
    """One line of /proc/self/mountinfo, if it is a cgroup's."""
    left, _, right = line.partition(" - ")
    kind, _, options = right.split(" ", 2)
    if kind not in {"cgroup", "cgroup2"}:
        return None
    shown, point = (_unescaped(text) for text in left.split(" ")[3:5])
    names = frozenset({UNIFIED}) if kind == "cgroup2" else frozenset(options.split(","))
    return Mount(directory=root / point.lstrip("/"), controllers=names, root=shown)


def _unescaped(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)
