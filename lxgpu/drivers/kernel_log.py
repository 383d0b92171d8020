"""Xid lines from /dev/kmsg, or from a plain file with lines as dmesg writes them.

What was acted upon is remembered in a small file, by the record's number (kmsg, for one boot) or the place in the
file. A file that was cut or replaced is read from its beginning. Sources: the kernel's
Documentation/ABI/testing/dev-kmsg, NVIDIA's "Xid Errors", the open kernel module's messages.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic

from lxgpu.errors import LxgpuError
from lxgpu.model.gpu import normal_pci
from lxgpu.ports import Xid

_PREFIX = re.compile(r"^(?:.*? kernel: )?(?:\[\s*(\d+\.\d+)\]\s*)?")
"""What syslog and dmesg write before a line of the kernel's."""
_XID = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]+)\): (\d+),?\s*(.*)")
_LOST = re.compile(r"NVRM: GPU ([0-9a-fA-F:.]+): GPU has fallen off the bus")
_BLOCK = re.compile(r"NVRM: The NVIDIA GPU ([0-9a-fA-F:.]+)")
_BLOCK_LOST = re.compile(r"NVRM: fallen off the bus")
FELL_OFF = 79
"""NVIDIA's number for a card that has fallen off the bus, of which the driver may tell in words alone."""
_RECORD = 8192
_MOST = 4 << 20
"""Bytes of a file that are read in one look; the rest is for the next."""


@dataclass(frozen=True, slots=True)
class _Place:
    """How far a log was read. `block` is the card that the last line names, whose fate the next one may tell."""

    source: str = ""
    place: int = -1
    block: str = ""


@dataclass(frozen=True, slots=True)
class _Line:
    place: int
    at: datetime
    text: str


class NoKernelLog:
    """`ports.KernelLog` for a host whose log is not read: it tells of nothing."""

    def fresh(self) -> tuple[Xid, ...]:
        """None."""
        return ()

    def seen(self) -> None:
        """Nothing to remember."""


class LocalKernelLog:
    """`ports.KernelLog` for this host.

    `path` is /dev/kmsg or a file, `memory` the small file that remembers. `boot_id` tells kmsg's numbers apart.
    """

    def __init__(self, path: Path, *, memory: Path, boot_id: Callable[[], str]) -> None:
        self._path = path
        self._memory = memory
        self._boot_id = boot_id
        self._handle: int | None = None
        self._source = ""
        self._place = -1
        self._block = ""
        self._stored = _Place()
        self._waiting: list[Xid] = []

    def fresh(self) -> tuple[Xid, ...]:
        """The faults told since those that `seen` was said of, oldest first."""
        try:
            handle = self._opened()
            device = stat.S_ISCHR(os.fstat(handle).st_mode)
            for line in self._records(handle) if device else self._lines(handle):
                new, self._place = line.place > self._place, max(line.place, self._place)
                fault = self._fault(line)
                if new and fault is not None:
                    self._waiting.append(fault)
        except OSError as error:
            self.close()
            raise LxgpuError(
                "unavailable",
                f"the kernel's log {self._path} cannot be read",
                why=error.strerror or str(error),
                fix="the setting kernel_log names it; reading it needs root",
            ) from error
        return tuple(self._waiting)

    def seen(self) -> None:
        """What `fresh` gave last was acted upon, and what lies before it is not read again."""
        self._waiting = []
        now = _Place(self._source, self._place, self._block)
        if now == self._stored:
            return
        self._memory.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        fresh = self._memory.with_name(f".{self._memory.name}.{os.getpid()}")
        fresh.write_text(json.dumps(asdict(now)))
        fresh.replace(self._memory)
        self._stored = now

    def close(self) -> None:
        """Let go of the log."""
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)

    def __del__(self) -> None:
        self.close()

    def _opened(self) -> int:
        """The log, opened anew where the file was replaced or cut; then from the place that is remembered."""
        now = self._path.stat()
        if self._handle is not None:
            then = os.fstat(self._handle)
            cut = stat.S_ISREG(now.st_mode) and now.st_size < self._place
            if (then.st_dev, then.st_ino) == (now.st_dev, now.st_ino) and not cut:
                return self._handle
            self.close()
        self._handle = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        seen = os.fstat(self._handle)
        device = stat.S_ISCHR(seen.st_mode)
        self._source = f"kmsg:{self._boot_id()[:8]}" if device else f"file:{seen.st_ino}"
        self._stored = self._remembered()
        known = self._stored.source == self._source and (device or self._stored.place <= seen.st_size)
        start = self._stored if known else _Place(self._source, -1 if device else 0)
        self._place, self._block = start.place, start.block
        return self._handle

    def _remembered(self) -> _Place:
        try:
            found = json.loads(self._memory.read_text())
            return _Place(str(found["source"]), int(found["place"]), str(found.get("block", "")))
        except (OSError, ValueError, KeyError, TypeError):
            return _Place()

    def _records(self, handle: int) -> Iterator[_Line]:
        """The kernel's own records not read yet through this handle; those overwritten meanwhile are lost."""
        began = datetime.now(UTC) - timedelta(seconds=monotonic())
        while True:
            try:
                record = os.read(handle, _RECORD)
            except BlockingIOError:
                return
            except BrokenPipeError:
                continue
            head, _, text = record.decode(errors="replace").partition(";")
            priority, number, microseconds, *_ = head.split(",")
            if int(priority) >> 3 == 0:  # a program's own line has another facility, whatever it says
                at = began + timedelta(microseconds=int(microseconds))
                yield _Line(int(number), at, text.partition("\n")[0])

    def _lines(self, handle: int) -> Iterator[_Line]:
        """Whole lines of a file from the present place on; each one's place is that of its end."""
        now, place = datetime.now(UTC), self._place
        began = now - timedelta(seconds=monotonic())
        text = os.pread(handle, _MOST, place)
        whole = text.rfind(b"\n") + 1 or (len(text) if len(text) == _MOST else 0)  # one without an end ends nothing
        for raw in text[:whole].splitlines(keepends=True):
            place += len(raw)
            line = raw.decode(errors="replace").rstrip("\r\n")
            before = _PREFIX.match(line)
            stamp = before[1] if before else None
            at = min(now, began + timedelta(seconds=float(stamp))) if stamp else now
            yield _Line(place, at, line[before.end() :] if before else line)

    def _fault(self, line: _Line) -> Xid | None:
        """The fault that a line tells of, alone or with those before it (a card named, then "fallen off the bus")."""
        begins, ends = _BLOCK.match(line.text), _BLOCK_LOST.match(line.text)
        block, self._block = self._block, begins[1] if begins else "" if ends else self._block
        name = f"{self._source}:{line.place}"
        if told := _XID.match(line.text):
            return Xid(line.at, normal_pci(told[1]), int(told[2]), told[3].strip(), name)
        lost = _LOST.match(line.text)
        pci = lost[1] if lost else block if ends else ""
        return Xid(line.at, normal_pci(pci), FELL_OFF, "GPU has fallen off the bus", name) if pci else None
