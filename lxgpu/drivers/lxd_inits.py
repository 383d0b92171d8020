"""The inits of running containers, known without asking LXD for a container's state, which takes it 10 ms and more.

A container's init stays the same process until the container stops. Source: proc(5).
"""

from __future__ import annotations

import os
import time

_TICKS = os.sysconf("SC_CLK_TCK")
_MARGIN_TICKS = 2
"""A start is told in ticks, and the kernel cuts them off."""


class Inits:
    """Inits by the container's identity. A pid is only remembered with its start, so another of that pid is not it."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, int]] = {}

    @staticmethod
    def now() -> int:
        """This moment as /proc tells the start of a process."""
        return int(time.clock_gettime(time.CLOCK_BOOTTIME) * _TICKS)

    def keep(self, uuid: str, pid: int | None, *, asked: int) -> None:
        """Remember an init that LXD told; `asked` is `now()` from before it was asked.

        Not one that began later: LXD may have meant an earlier process of that pid, or its container just starts.
        """
        began = None if pid is None else _began(pid)
        if not uuid or pid is None or began is None or began >= asked - _MARGIN_TICKS:
            self._known.pop(uuid, None)
        else:
            self._known[uuid] = (pid, began)

    def living(self, uuid: str) -> int | None:
        """The init, if it is known and still runs."""
        known = self._known.get(uuid)
        return known[0] if known is not None and _began(known[0]) == known[1] else None


def _began(pid: int) -> int | None:
    """When a process began, in ticks since the boot; None when it has ended, as a zombie too."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - half the time of a Path
            fields = file.read().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in {b"Z", b"X"} else int(fields[19])
