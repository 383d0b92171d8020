"""One after the other: what a container may ask of the daemon at once, and how often."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TypeVar

from lxgpu.errors import LxgpuError

T = TypeVar("T")

AT_ONCE = 10
EVERY_S = 6.0
"""So many changes go through at once, then one in so many seconds: each is written into the history for ever."""
WAITING = 2
"""So many changes of a container wait for their turn: none for longer than its caller waits for an answer (18 s at the
page, 20 s inside), and fewer than it has connections, so that who only looks still gets in."""
RESTS = 3
REST_S = 0.5
"""After an answer a container rests for so many times as long as that took, and so long at most: its questions take a
quarter of one processor, however many it has."""


class Turns:
    """The turns of one container.

    One question is worked on at a time, in a thread of the loop's pool, so that no container takes all threads. A
    change beyond what is allowed waits, and nobody but the container's own callers waits with it; beyond `WAITING` it
    is refused. Who is cancelled while waiting has asked for nothing; what is in a thread already goes on to its end,
    and the turn lasts until then.
    """

    def __init__(self, *, at_once: int = AT_ONCE, every_s: float = EVERY_S) -> None:
        self._one = asyncio.Lock()
        self._queue = asyncio.Lock()
        self._every_s = every_s
        self._credit_s = every_s * at_once
        self._spent_until = float("-inf")  # the loop's clock may count from the host's start, a moment ago
        self._waiting = 0
        self._rests_until = 0.0

    async def read(self, ask: Callable[[], T]) -> T:
        """Answer a question."""
        loop = asyncio.get_running_loop()
        async with self._one:
            await asyncio.sleep(max(0.0, self._rests_until - loop.time()))
            begun = loop.time()
            try:
                return await in_thread(ask)
            finally:
                ended = loop.time()
                self._rests_until = ended + min(RESTS * (ended - begun), REST_S)

    async def change(self, do: Callable[[], T]) -> T:
        """Make a change, when it is this container's turn.

        Raises:
            LxgpuError: `too_often`: so many wait already.
        """
        if not self._begins_now():
            await self._wait()
        return await self.read(do)

    def _begins_now(self) -> bool:
        """Take a turn that is there now; nobody goes before those who wait."""
        now = asyncio.get_running_loop().time()
        if self._waiting or self._next(now) > now:
            return False
        self._spent_until = self._next(now)
        return True

    async def _wait(self) -> None:
        if self._waiting >= WAITING:
            why = f"{self._waiting} changes asked for in this container wait for their turn"
            raise LxgpuError("too_often", "too many changes at once", why=why, fix="try again in a minute")
        self._waiting += 1
        try:
            async with self._queue:
                loop = asyncio.get_running_loop()
                begins = self._next(loop.time())
                await asyncio.sleep(max(0.0, begins - loop.time()))
                self._spent_until = begins  # not before: who went away meanwhile has spent nothing
        finally:
            self._waiting -= 1

    def _next(self, now: float) -> float:
        """When the next change may begin."""
        return max(self._spent_until, now - self._credit_s) + self._every_s


async def in_thread(
    ask: Callable[[], T], threads: Executor | None = None, *, unheard: Callable[[T], object] | None = None
) -> T:
    """The answer of a thread, of the loop's pool or another.

    Cancelled, it keeps a thread that has not begun from beginning, and waits for the end: what was counted for it is
    counted until then. `unheard` is then done with an answer that nobody hears any more.
    """
    given_up = threading.Event()

    def work() -> T:
        if given_up.is_set():
            raise InterruptedError
        return ask()

    loop = asyncio.get_running_loop()
    answer = loop.run_in_executor(threads, work)
    try:
        return await asyncio.shield(answer)
    except asyncio.CancelledError:
        given_up.set()
        await asyncio.wait({answer})
        if not answer.cancelled() and answer.exception() is None and unheard is not None:
            await asyncio.shield(loop.run_in_executor(threads, unheard, answer.result()))
        raise
