"""status.json as it changes: one look at its times twice a second, read when they moved, told to all who listen."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from lxgpu.ports import Progress
from lxgpu.services import statusfile
from lxgpu.services.statusfile import Published

LOOK_S = 0.5
PARTS = ("cards", "calendar", "mine")
"""What a page is made of."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What was read last. `found` is None when nothing is there to be read; `version` counts what was read.

    `parts` are marks of what the parts of the page are made of: one that is the same looks the same.
    """

    version: int = 0
    found: Published | None = None
    parts: tuple[tuple[str, str], ...] = ()

    @property
    def marks(self) -> str:
        """The marks in one word, in the order of PARTS; empty where there are none."""
        return "-".join(mark for _, mark in self.parts)


class Watch:
    """Knows what is published now, and wakes who waits for the next."""

    def __init__(
        self,
        folder: Path,
        *,
        look_s: float = LOOK_S,
        say: Progress = lambda _text: None,
        read: Callable[[Path], Published | None] = statusfile.read,
    ) -> None:
        self._folder, self._look_s, self._say, self._read = folder, look_s, say, read
        self._stamp: tuple[int, int, int] | None = None
        self._changed = asyncio.Event()
        self.seen = Seen()

    async def run(self) -> None:
        """Look until cancelled. A look that fails is said once, and the next one comes all the same."""
        told = ""
        while True:
            try:
                await self.look()
                told = ""
            except Exception as error:  # noqa: BLE001 -- whatever is in the file, nobody else would ever look again
                trouble = f"{statusfile.FILE} cannot be shown: {type(error).__name__}: {error}"
                if trouble != told:
                    self._say(trouble)
                told = trouble
            await asyncio.sleep(self._look_s)

    async def look(self) -> None:
        """Read it if it changed."""
        stamp = _stamp(self._folder / statusfile.FILE)
        if stamp == self._stamp and self.seen.version:
            return
        found = await asyncio.to_thread(self._read, self._folder) if stamp else None
        parts = await asyncio.to_thread(_parts, found) if found else ()
        self._stamp = stamp
        self.seen = Seen(self.seen.version + 1, found, parts)
        self.wake()

    def wake(self) -> None:
        """Let everybody go on who waits for the next."""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def next(self, version: int, wait_s: float) -> Seen:
        """What comes after a version, or what there is when nothing came in time."""
        if self.seen.version == version:
            changed = self._changed
            try:
                async with asyncio.timeout(wait_s):
                    await changed.wait()
            except TimeoutError:
                pass
        return self.seen


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_ino, found.st_mtime_ns, found.st_size)


def _parts(found: Published) -> tuple[tuple[str, str], ...]:
    """Marks of what is seen of cards, of the calendar and of one's own; times of looking aside."""
    gpus = tuple(replace(gpu, sampled_at=None, processes=None) for gpu in found.gpus)
    lines = tuple((line.uuid, line.name, line.bars) for line in found.calendar.lines) if found.calendar else ()
    minute = int(found.written_at.timestamp() // 60)
    slots = tuple(replace(slot, memory_used_bytes=None) for gpu in found.gpus for slot in gpu.slots)
    cards = (gpus, found.notes, found.use, lines, found.daemon.paused, found.daemon.policy, minute)
    calendar = (lines, found.reservations, minute)
    mine = (slots, found.reservations, minute)
    return tuple((name, _mark(value)) for name, value in zip(PARTS, (cards, calendar, mine), strict=True))


def _mark(value: object) -> str:
    return hashlib.blake2b(repr(value).encode(), digest_size=8).hexdigest()
