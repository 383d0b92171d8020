"""Pausing the daemon: a file in the run directory, so that it outlives the daemon, and no boot of the host."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from lxgpu.errors import cannot_write
from lxgpu.plain import plain
from lxgpu.regular import open_regular
from lxgpu.services.revive import revive
from lxgpu.services.statusfile import PauseView

FILE = "paused"
_LONGEST = 1 << 16
"""Bytes of a pause file that are read."""


def pause(run_dir: Path, view: PauseView) -> None:
    """Let the daemon take nothing new; a pause that holds already gets the new reason.

    Raises:
        LxgpuError: `not_allowed`; `inventory_storage`: the run directory cannot be written.
    """
    target, aside = run_dir / FILE, run_dir / f".{FILE}.{os.getpid()}"
    try:
        run_dir.mkdir(mode=0o755, parents=True, exist_ok=True)
        aside.write_text(json.dumps(plain(view)), encoding="utf-8")
        aside.replace(target)
    except OSError as error:
        with suppress(OSError):
            aside.unlink()
        raise cannot_write(target, error) from error


def resume(run_dir: Path) -> PauseView | None:
    """Let it go on; gives the pause that ended, None when there was none.

    Raises:
        LxgpuError: as `pause`.
    """
    found = paused(run_dir)
    target = run_dir / FILE
    try:
        if target.is_dir() and not target.is_symlink():
            target.rmdir()
        target.unlink(missing_ok=True)
    except OSError as error:
        raise cannot_write(target, error) from error
    return found


def paused(run_dir: Path) -> PauseView | None:
    """The pause that holds; None when none does. A file that cannot be understood is a pause all the same."""
    path = run_dir / FILE
    try:
        with open_regular(path) as file:
            return _told(revive(PauseView, json.loads(file.read(_LONGEST))))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, RecursionError):
        return PauseView(who="somebody", why=f"{path} is there", when=_time_of(path))


def _told(view: PauseView) -> PauseView:
    """The view, if its words can be written on, into the history too; error `ValueError`."""
    if view.when.tzinfo is None:
        raise ValueError("no zone")
    words: tuple[object, ...] = (view.who, view.why)
    if not all(isinstance(text, str) and text.encode() for text in words):
        raise ValueError("no words")
    return view


def _time_of(path: Path) -> datetime:
    try:
        return datetime.fromtimestamp(path.stat().st_mtime, UTC)
    except OSError:
        return datetime.fromtimestamp(0, UTC)
