"""Starting the lab's processes: the holder of the namespace, lxcfs and LXD."""

from __future__ import annotations

import grp
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import lxgpu
from lxgpu.errors import LxgpuError
from lxgpu.lab import inside, processes, record
from lxgpu.lab.programs import run, search_path

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lxgpu.lab.claims import Claims
    from lxgpu.lab.record import Lab

START_LIMIT = 60.0


def lab_environment(lab: Lab) -> dict[str, str]:
    """The environment of the lab's processes: marked, and with the stand-in tools first."""
    return {
        "PATH": f"{lab.paths.host / 'bin'}:{search_path()}",
        "LC_ALL": "C.UTF-8",
        "HOME": "/root",
        "LXD_DIR": str(lab.lxd_dir),
        "LXD_CONF": str(lab.paths.client),
        "LXGPU_LAB_ROOT": str(lab.directory.parent),
        "PYTHONPATH": str(Path(lxgpu.__file__).parents[1]),
        "PYTHONDONTWRITEBYTECODE": "1",
        processes.MARK: str(lab.directory),
    }


def holder_of(lab: Lab) -> processes.Process | None:
    """The running holder of the lab's namespace."""
    holder = processes.Process(*lab.holder) if lab.holder else None
    return holder if holder and holder.alive() else None


def start_holder(lab: Lab, claims: Claims) -> Lab:
    """Make the namespaces with all mounts; returns the lab with its holder, which is on record then."""
    command = ["setsid", "--fork", "unshare", "--net", "--mount", "--propagation", "private"]
    command += [sys.executable, "-P", "-m", inside.__name__, lab.name]
    log = lab.paths.log / "holder.log"
    read, write = os.pipe()
    with os.fdopen(read) as answer, log.open("wb") as errors:
        try:
            subprocess.run(
                command, env=lab_environment(lab), pass_fds=claims.descriptors(), cwd="/",
                stdin=subprocess.DEVNULL, stdout=write, stderr=errors, check=True,
            )  # fmt: skip
        finally:
            os.close(write)
        words = answer.readline().split()
    started = processes.started_at(int(words[1])) if words[:1] == ["ready"] else None
    if started is None:
        raise _start_failed("the lab's mount namespace", log)
    lab = replace(lab, holder=(int(words[1]), started))
    record.save(lab)
    return lab


def start_lxcfs(lab: Lab) -> None:
    """Start lxcfs in the lab's namespace, where nothing of the machine's own lxcfs shows."""
    if _running(lab, "lxcfs"):
        return
    _spawn(lab, "lxcfs", ["lxcfs", "-p", str(lab.paths.run / "lxcfs.lock"), str(inside.LXCFS_MOUNT)])
    probe = ["nsenter", "-t", str(holder_pid(lab)), "-m", "--", "test", "-e", str(inside.LXCFS_MOUNT / "proc/meminfo")]
    deadline = time.monotonic() + 10
    while subprocess.run(probe, check=False).returncode != 0:
        if time.monotonic() > deadline:
            raise _start_failed("lxcfs", lab.paths.log / "lxcfs.log")
        time.sleep(0.02)


def start_lxd(lab: Lab) -> bool:
    """Start LXD when it does not run, and wait until it answers; returns whether it had to be started."""
    fresh = not _running(lab, "lxd")
    if fresh:
        group = "lxd" if any(entry.gr_name == "lxd" for entry in grp.getgrall()) else "root"
        _spawn(lab, "lxd", ["lxd", "--group", group, "--logfile", str(lab.paths.log / "lxd.log")])
    try:
        env = {"LXD_DIR": str(lab.lxd_dir)}
        run(["lxd", "waitready", f"--timeout={START_LIMIT:g}"], env=env, limit=START_LIMIT + 5)
    except LxgpuError as error:
        raise _start_failed("LXD", lab.paths.log / "lxd.log") from error
    return fresh


def holder_pid(lab: Lab) -> int:
    """The pid of the process that keeps the lab's namespaces; error `lab_step` when it has ended."""
    holder = holder_of(lab)
    if holder is None:
        raise LxgpuError(
            "lab_step", "the holder of the lab's namespace has ended", fix=f"lxgpu lab up --name {lab.name}"
        )
    return holder.pid


def _pid_file(lab: Lab, name: str) -> Path:
    return lab.paths.run / f"{name}.pid"


def _running(lab: Lab, name: str) -> bool:
    """Whether the daemon runs: its pid file is only believed when that process is one of this lab."""
    try:
        pid = int(_pid_file(lab, name).read_text())
    except (FileNotFoundError, ValueError):
        return False
    return any(process.pid == pid for process in processes.lab_processes(lab.directory))


def _spawn(lab: Lab, name: str, command: Sequence[str]) -> None:
    """Start a daemon of its own session in the lab's namespace, its pid on file before it runs."""
    script = 'echo $$ >"$1"; shift; exec "$@"'
    enter = ["nsenter", "-t", str(holder_pid(lab)), "-m", "-n", "--", *command]
    with (lab.paths.log / f"{name}.log").open("ab") as log:
        subprocess.run(
            ["setsid", "--fork", "sh", "-c", script, "sh", str(_pid_file(lab, name)), *enter],
            env=lab_environment(lab), cwd="/", stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=True,
        )  # fmt: skip
    deadline = time.monotonic() + 10
    while not _running(lab, name):
        if time.monotonic() > deadline:
            raise _start_failed(name, lab.paths.log / f"{name}.log")
        time.sleep(0.02)


def _start_failed(what: str, log: Path) -> LxgpuError:
    lines = log.read_text(errors="replace").splitlines()[-6:] if log.exists() else []
    return LxgpuError(
        "lab_step",
        f"{what} did not start",
        why=[f"the last lines of {log}:", *lines],
        fix="mend the cause, then run `lxgpu lab up` again; `lxgpu lab down` takes away what is there",
    )
