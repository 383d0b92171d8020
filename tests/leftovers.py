"""What trials of a card may leave in the machine's /dev; other processes have their own there at the same time."""

from __future__ import annotations

from pathlib import Path


def trials_left(*pids: int) -> list[Path]:
    """Folders of trials of these processes, or, with none named, of processes that are no more."""
    found = [(path, path.name.split("-")[1]) for path in Path("/dev").glob(".lxgpu-*-*")]
    if pids:
        return [path for path, pid in found if int(pid) in pids]
    return [path for path, pid in found if not Path("/proc", pid).exists()]
