"""One daemon a run directory: a lock that the kernel gives back when its process ends, however it ends."""

from __future__ import annotations

import fcntl
import json
import os
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from lxgpu.errors import LxgpuError, cannot_write

FILE = "daemon.lock"
_TRIES, _AGAIN_S = 20, 0.05
"""Whoever looks holds the lock for microseconds: for a second nobody is refused for that."""


@dataclass(frozen=True, slots=True)
class Runner:
    """Who has the lock: None where it has not written that down yet."""

    pid: int | None = None
    started_at: datetime | None = None


class OnlyOne:
    """The lock, held until this process ends or `close`."""

    def __init__(self, run_dir: Path, *, now: datetime) -> None:
        """Take it.

        Raises:
            LxgpuError: `daemon_runs`, with who has it; `not_allowed`; `inventory_storage`: it cannot be made.
        """
        path = run_dir / FILE
        try:
            run_dir.mkdir(mode=0o755, parents=True, exist_ok=True)
            self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            if isinstance(error, PermissionError) and os.geteuid() != 0:
                raise _no_right(path, error) from error
            raise cannot_write(path, error) from error
        for turn in range(_TRIES):
            if _taken(self._handle, fcntl.LOCK_EX):
                break
            if turn == _TRIES - 1:
                other = _read(self._handle)
                os.close(self._handle)
                raise LxgpuError(
                    "daemon_runs",
                    "a daemon is at work here already",
                    why=f"{path} is held by process {other.pid or '(not told)'}, started {_words(other.started_at)}",
                    fix=f"lxgpu daemon status; {_again()}",
                )
            time.sleep(_AGAIN_S)
        text = json.dumps({"pid": os.getpid(), "started_at": now.isoformat()})
        os.ftruncate(self._handle, 0)
        os.pwrite(self._handle, text.encode(), 0)

    def close(self) -> None:
        """Let it go. The file stays: removing it while another waits for it would give two holders."""
        os.ftruncate(self._handle, 0)
        os.close(self._handle)


def runner(run_dir: Path) -> Runner | None:
    """Who is at work; None when nobody is.

    Raises:
        LxgpuError: `not_allowed`: only root can tell.
    """
    path = run_dir / FILE
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _no_right(path, error) from error
    try:
        return None if _taken(handle, fcntl.LOCK_SH) else _read(handle)
    finally:
        os.close(handle)


def _taken(handle: int, kind: int) -> bool:
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read(handle: int) -> Runner:
    try:
        found = json.loads(os.pread(handle, 4096, 0))
        return Runner(int(found["pid"]), datetime.fromisoformat(found["started_at"]))
    except (ValueError, KeyError, TypeError):
        return Runner()


def _words(at: datetime | None) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC" if at else "at a time not told"


def _no_right(path: Path, error: OSError) -> LxgpuError:
    why = f"{path}: {error.strerror}"
    return LxgpuError("not_allowed", "the daemon is root's", why=why, fix="run the command with sudo")


def _again() -> str:
    """How it is started anew: a lab has no unit of systemd."""
    if os.environ.get("LXGPU_LAB"):
        return "end that process first, then lxgpu daemon run"
    return "with systemd: systemctl restart lxgpu"
