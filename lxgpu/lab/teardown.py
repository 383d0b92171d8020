"""Taking a lab down: every process, mount, node, link, rule, cgroup and file, also after a kill at any moment."""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

from lxgpu.errors import LxgpuError
from lxgpu.lab import claims, engine, processes, record, remains
from lxgpu.lab.paths import paths_of
from lxgpu.lab.programs import run

if TYPE_CHECKING:
    from collections.abc import Callable

    from lxgpu.lab.record import Lab

VT_DISALLOCATE = 0x5608
SHUTDOWN_LIMIT = 30.0


def down(name: str, *, progress: Callable[[str], None] = lambda _: None) -> bool:
    """Take the lab away; returns whether there was anything of it.

    Raises:
        LxgpuError: `lab_remains`, with all that could not be taken away.
    """
    paths = paths_of(name)
    with record.locked(name):
        lab = record.load(name)
        there = paths.directory.exists() or bool(processes.lab_processes(paths.directory))
        if not there:
            return False
        if lab:
            _shut_down(lab, progress)
        cgroups = remains.cgroups(paths.directory)
        progress(f"lab {name}: ending its processes")
        processes.end_all(paths.directory)
        for loop in processes.loops_of(paths.directory):
            remains.attempt(["losetup", "-d", loop])
        remains.remove_network(lab.bridge if lab else claims.bridge_name(name))
        if lab:
            _free_consoles(lab.consoles)
        left = [f"cgroup {path}" for path in remains.remove_cgroups(cgroups)] + _left_over(lab, paths.directory)
        if not left:
            _remove_files(paths.directory)
            progress(f"lab {name}: gone")
            return True
    raise LxgpuError(
        "lab_remains",
        f"the lab {name!r} could not be taken away whole",
        why=left,
        fix="end what uses these, then run `lxgpu lab down` again",
    )


def _shut_down(lab: Lab, progress: Callable[[str], None]) -> None:
    """Let LXD itself take down what it made; whatever it does not, the sweep after it does."""
    if not lab.socket.exists():
        return
    try:
        running = [i for i in engine.query(lab, "/1.0/instances?recursion=1", limit=5) if i["status"] != "Stopped"]
        if running:
            progress(f"lab {lab.name}: stopping {len(running)} containers")
            for instance in running:
                body = {"action": "stop", "force": True}
                engine.query(lab, f"/1.0/instances/{instance['name']}/state", method="PUT", body=body, limit=15)
        progress(f"lab {lab.name}: shutting LXD down")
        run(["lxd", "shutdown", "--force", "--timeout=20"], env=engine.client_env(lab), limit=SHUTDOWN_LIMIT)
    except LxgpuError as error:
        progress(f"lab {lab.name}: LXD does not go by itself ({error.brief}); ending it")


def _free_consoles(consoles: tuple[int, ...]) -> None:
    """Let the kernel forget the consoles, and with them /dev/vcsN; one that is open stays and is reported."""
    with open("/dev/tty0", "rb", buffering=0) as terminal:  # noqa: PTH123 -- an unbuffered device
        for console in consoles:
            try:
                fcntl.ioctl(terminal, VT_DISALLOCATE, console)
            except OSError:  # busy, or never allocated: _left_over looks
                continue


def _left_over(lab: Lab | None, directory: Path) -> list[str]:
    """What is still there, in words. Consoles and loops go a moment after their last user."""
    deadline = time.monotonic() + 3
    while True:
        left = [f"process {p.pid}: {p.command()}" for p in processes.lab_processes(directory)]
        left += [f"loop device {loop}" for loop in processes.loops_of(directory)]
        left += [f"mount {mount}" for mount in remains.mounts_below(directory)]
        if lab:
            left += [f"link {lab.bridge}"] if Path("/sys/class/net", lab.bridge).exists() else []
            left += [f"console {n} (/dev/vcs{n})" for n in _allocated(lab)]
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.1)
        if lab:
            _free_consoles(lab.consoles)


def _allocated(lab: Lab) -> list[int]:
    """The consoles that the kernel keeps for this lab; one that went to another lab meanwhile is that lab's."""
    return [n for n in lab.consoles if (claims.ALLOCATED / f"vcs{n}").exists() and not claims.claimed(n)]


def _remove_files(directory: Path) -> None:
    """The record goes last: an interrupted removal is gone on with by the next `down`."""
    for entry in os.scandir(directory):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
        elif entry.name != "lab.json":
            Path(entry.path).unlink()
    shutil.rmtree(directory)
