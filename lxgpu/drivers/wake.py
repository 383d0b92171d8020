"""What wakes the daemon at once: a named pipe in the run directory, which commands write a byte into.

A pipe, because its path may be of any length (a socket's may not), and because it wakes nobody when no daemon has it
open.
"""

from __future__ import annotations

import os
import select
import stat
from contextlib import suppress
from pathlib import Path

from lxgpu.errors import cannot_write

FILE = "wake"
_MUCH = 65536


class Wake:
    """The daemon's end: `wait` ends early when somebody pokes, or when `also` (a descriptor) can be read."""

    def __init__(self, run_dir: Path, *, also: int | None = None) -> None:
        """Make the pipe, or take the one there is.

        Raises:
            LxgpuError: `inventory_storage`, `not_allowed`: it cannot be made.
        """
        path = run_dir / FILE
        try:
            self._pipe = _pipe(path)
        except OSError as error:
            raise cannot_write(path, error) from error
        self._watched = [self._pipe] if also is None else [self._pipe, also]

    @property
    def handle(self) -> int:
        """The descriptor that wakes when it is written to."""
        return self._pipe

    def poke(self) -> None:
        """Let the present wait, or the next one, end at once; may be called by a signal's handler."""
        with suppress(BlockingIOError):  # full: there is enough in it to be woken by
            os.write(self._pipe, b".")

    def wait(self, seconds: float) -> bool:
        """Wait; gives whether it ended early. All pokes until then count as one."""
        ready, _, _ = select.select(self._watched, (), (), max(seconds, 0.0))
        with suppress(BlockingIOError):
            while len(os.read(self._pipe, _MUCH)) == _MUCH:
                pass
        return bool(ready)

    def close(self) -> None:
        """Close this end; pokes reach nobody then."""
        os.close(self._pipe)


def _pipe(path: Path) -> int:
    with suppress(FileNotFoundError):
        if not stat.S_ISFIFO(path.lstat().st_mode):
            path.unlink()
    with suppress(FileExistsError):
        os.mkfifo(path, 0o600)
    # Open for both, so that the end of the last command that poked is no end of file here.
    return os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW)


def poke(run_dir: Path) -> bool:
    """Wake the daemon of a run directory; False when none is there, or it is not this user's to wake."""
    try:
        pipe = os.open(run_dir / FILE, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError:  # no pipe, nobody who reads it, or no right: the daemon's own rhythm is soon enough
        return False
    try:
        if not stat.S_ISFIFO(os.fstat(pipe).st_mode):
            return False
        with suppress(BlockingIOError):
            os.write(pipe, b".")
    except BrokenPipeError:
        return False
    finally:
        os.close(pipe)
    return True
