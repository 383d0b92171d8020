"""The stream that keeps a page live: which part is to be asked for again, and how old it all is."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable

from lxgpu.web.watching import Seen, Watch

BEAT_S = 10.0
"""At least so often something is sent, so that both ends learn when the other has gone."""
LIFE_S = 600.0
"""Then the stream ends and the browser opens another: nothing lives for ever."""
AGAIN_MS = 2000
MOST, MOST_EACH = 400, 8
"""So many streams in all, and of one session: tabs that somebody left open."""


class Streams:
    """All open streams."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._open: Counter[str] = Counter()
        self._ended = asyncio.Event()

    def room(self, whose: str) -> bool:
        """Whether one more may be opened."""
        return self._open.total() < MOST and self._open[whose] < MOST_EACH

    def end(self) -> None:
        """End all of them: the process ends."""
        self._ended.set()
        self._watch.wake()

    async def stream(self, whose: str, age: Callable[[Seen], str]) -> AsyncIterator[bytes]:
        """Events: `cards`, `calendar` and `mine` when that part looks different now, `age` with its HTML."""
        self._open[whose] += 1
        try:
            seen, ends = self._watch.seen, time.monotonic() + LIFE_S
            yield f"retry: {AGAIN_MS}\n".encode() + _event("age", age(seen))
            while time.monotonic() < ends and not self._ended.is_set():
                now = await self._watch.next(seen.version, BEAT_S)
                if now.version != seen.version:
                    before = dict(seen.parts)
                    for name, mark in now.parts:
                        if before.get(name) != mark:
                            yield _event(name, str(now.version))
                yield _event("age", age(now))
                seen = now
        finally:
            self._open[whose] -= 1
            if not self._open[whose]:
                del self._open[whose]


def _event(name: str, text: str) -> bytes:
    lines = "".join(f"data: {line}\n" for line in text.splitlines() or [""])
    return f"event: {name}\n{lines}\n".encode()
