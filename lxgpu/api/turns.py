"""One after the other: what a container may ask of the daemon at once, and how often."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

AT_ONCE = 10
EVERY_S = 6.0
"""So many changes go through at once, then one in so many seconds: each is written into the history for ever."""


class Turns:
    """The turns of one container.

    One question is worked on at a time, in a thread of the loop's pool, so that no container takes all threads. A
    change beyond what is allowed waits, and nobody but the container's own callers waits with it.
    """

    def __init__(self, *, at_once: int = AT_ONCE, every_s: float = EVERY_S) -> None:
        self._one = asyncio.Lock()
        self._queue = asyncio.Lock()
        self._every_s = every_s
        self._credit_s = every_s * at_once
        self._spent_until = 0.0

    async def read(self, ask: Callable[[], T]) -> T:
        """Answer a question."""
        async with self._one:
            return await asyncio.to_thread(ask)

    async def change(self, do: Callable[[], T]) -> T:
        """Make a change, when it is this container's turn."""
        loop = asyncio.get_running_loop()
        async with self._queue:
            self._spent_until = max(self._spent_until, loop.time() - self._credit_s) + self._every_s
            await asyncio.sleep(max(0.0, self._spent_until - loop.time()))
        return await self.read(do)
