"""Processes of a container made to stand still where its root cannot let them go on.

Version 1: they are moved to a frozen cgroup of the host's own. Root inside can move one back (seen: version 1 asks for
the same uid only); whoever looks again finds it missing here, and ends it. A process that was killed while frozen ends
only outside of the freezer, so it is let out for that. On a host with version 2 alone the whole container stands still.
Sources: the kernel's Documentation/admin-guide/cgroup-v1/freezer-subsystem.rst and cgroup-v2.rst (cgroup.freeze).
"""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from lxgpu.drivers.cgroups import FREEZER, UNIFIED, Cgroups, processes_in
from lxgpu.drivers.processes import read_stat, send
from lxgpu.errors import LxgpuError
from lxgpu.ports import Process

_PREFIX = "lxgpu.stop-"
_REST_S, _POLL_S = 0.3, 0.002
_PENDING = re.compile(r"^(?:SigPnd|ShdPnd):\s*([0-9a-f]+)", re.MULTILINE)
_KILLED = 1 << (signal.SIGKILL - 1)


class FreezerBrake:
    """`ports.Brake` by the kernel's freezer."""

    def __init__(self, cgroups: Cgroups | None = None) -> None:
        self._cgroups = cgroups or Cgroups()

    def hold(self, key: str, init: int, pids: Iterable[int]) -> None:
        """Let these processes run no more, and let those that were killed meanwhile end."""
        try:
            own = self._own(key)
            if own is None:
                self._whole(init, "1")
            else:
                self._hold(own, init, pids)
        except OSError as error:
            raise LxgpuError(
                "unavailable", f"the borrower's processes cannot be stopped ({key})", why=error.strerror or str(error)
            ) from error

    def held(self, key: str) -> tuple[Process, ...]:
        """Who stands still under that key."""
        own = self._own(key)
        stats = (read_stat(pid) for pid in (processes_in(own) if own is not None else ()))
        return tuple(Process(one.pid, one.start_time, one.command) for one in stats if one is not None)

    def free(self, key: str, init: int) -> None:
        """Let all of them go on, and keep nothing of the key."""
        own = self._own(key)
        if own is None:
            with suppress(OSError):  # the container has ended
                self._whole(init, "0")
            return
        if not own.is_dir():
            return
        home = self._cgroups.top(init, FREEZER)
        with suppress(OSError):
            (own / "freezer.state").write_text("THAWED")
        for pid in processes_in(own):
            with suppress(OSError):  # gone, or its container is: then it ends where it is
                ((home or own.parent) / "cgroup.procs").write_text(str(pid))
        ends = time.monotonic() + _REST_S
        while own.is_dir() and time.monotonic() < ends:  # one that was killed just now is in it until it has ended
            try:
                own.rmdir()
            except OSError:
                time.sleep(_POLL_S)

    def _own(self, key: str) -> Path | None:
        tree = self._cgroups.tree(FREEZER)
        return None if tree is None else tree / f"{_PREFIX}{key}"

    def _hold(self, own: Path, init: int, pids: Iterable[int]) -> None:
        own.mkdir(exist_ok=True)
        state = own / "freezer.state"
        if state.read_text().strip() == "THAWED":
            state.write_text("FROZEN")
        there = set(processes_in(own))
        for pid in there:
            if _killed(pid) and (found := read_stat(pid)) is not None:
                send(Process(pid, found.start_time), signal.SIGKILL, self._cgroups)
        part = self._cgroups.part(init)
        for pid in pids:
            if pid not in there and part is not None and self._cgroups.part(pid) == part:
                with suppress(ProcessLookupError):
                    (own / "cgroup.procs").write_text(str(pid))
        ends = time.monotonic() + _REST_S
        while state.read_text().strip() == "FREEZING" and time.monotonic() < ends:
            time.sleep(_POLL_S)

    def _whole(self, init: int, word: str) -> None:
        top = self._cgroups.top(init, UNIFIED)
        if top is not None and (top / "cgroup.freeze").exists():
            (top / "cgroup.freeze").write_text(word)


def _killed(pid: int) -> bool:
    """Whether KILL waits for a frozen process."""
    try:
        text = Path(f"/proc/{pid}/status").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return any(int(found[1], 16) & _KILLED for found in _PENDING.finditer(text))
