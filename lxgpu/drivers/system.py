"""The clock and the locks of the real machine."""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from lxgpu.errors import cannot_write
from lxgpu.ports import Clock

_POLL_S = 0.02


class SystemClock:
    """`ports.Clock` by the machine's clocks."""

    def now(self) -> datetime:
        """The time, in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds that never jump."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


class FileLocks:
    """`ports.Locks` by flock(2) on one file a name: the kernel gives a lock back when its process ends.

    Threads of one process exclude each other too, since each holds a descriptor of its own. The files
    stay: removing one while another process waits for it would give two holders. One that is held `once` goes.
    """

    def __init__(self, directory: Path, clock: Clock | None = None) -> None:
        self._directory = directory
        self._clock: Clock = clock or SystemClock()

    @contextmanager
    def hold(self, name: str, *, wait_s: float, once: bool = False) -> Iterator[bool]:
        """Hold the lock; gives False when another had it for all of `wait_s`.

        Raises:
            LxgpuError: `inventory_storage`, `not_allowed`: the lock cannot be made.
        """
        path = self._directory / _file_name(name)
        try:
            self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise cannot_write(path, error) from error
        taken = False
        try:
            taken = self._taken(handle, self._clock.monotonic() + wait_s)
            yield taken
        finally:
            if once and taken:
                path.unlink(missing_ok=True)
            os.close(handle)

    def _taken(self, handle: int, ends: float) -> bool:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                left = ends - self._clock.monotonic()
                if left <= 0:
                    return False
                self._clock.sleep(min(_POLL_S, left))
            else:
                return True


def _file_name(name: str) -> str:
    """A name for a file: what is no letter, digit, dot or hyphen is written as its number, so no two names meet."""
    safe = re.sub(r"[^A-Za-z0-9.-]", lambda found: f"_{ord(found[0]):x}_", name)
    return f"{safe}.lock"
