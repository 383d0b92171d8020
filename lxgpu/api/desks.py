"""Who is let in at the page's door at once: containers by their names, strangers in a little room of their own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from typing import TypeVar

from lxgpu.api.app import Asker
from lxgpu.api.turns import Turns, in_thread
from lxgpu.errors import LxgpuError

T = TypeVar("T")
AT_ONCE = 8
"""So many questions of one container are in the page's hands at once; who has more is told to wait."""
_MOST_ASKERS = 4096


class Rooms:
    """The turns of each container that comes by the page, and how many of its questions are there now."""

    def __init__(self, turns: Callable[[], Turns]) -> None:
        self._turns = turns
        self._askers: dict[str, Asker] = {}
        self._inside: dict[str, int] = {}

    @asynccontextmanager
    async def of(self, name: str) -> AsyncIterator[Asker]:
        """Take a container's question in.

        Raises:
            LxgpuError: `too_often`: it has too many there already.
        """
        if self._inside.get(name, 0) >= AT_ONCE:
            raise _full(f"{AT_ONCE} questions of {name} wait for their answers")
        if name not in self._askers and len(self._askers) >= _MOST_ASKERS:
            self._askers = {one: asker for one, asker in self._askers.items() if one in self._inside}
        asker = self._askers.setdefault(name, Asker(name, self._turns()))
        self._inside[name] = self._inside.get(name, 0) + 1
        try:
            yield asker
        finally:
            self._inside[name] -= 1
            if not self._inside[name]:
                del self._inside[name]


class Desk:
    """Threads of their own for one kind of question, so that nobody else waits for those who ask it, nor they for him.

    So many `places` there are in all; a place is free again when its thread has ended, whether or not its caller stays.
    """

    def __init__(self, name: str, *, threads: int, places: int) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=f"page-{name}")
        self._places, self._taken = places, 0

    async def ask(self, do: Callable[..., T], *words: str, unheard: Callable[[T], object] | None = None) -> T:
        """What it gives for some words.

        Raises:
            LxgpuError: `too_often`: every place is taken.
        """
        if self._taken >= self._places:
            raise _full("as many as there is room for wait for their answers")
        self._taken += 1
        try:
            return await in_thread(partial(do, *words), self._threads, unheard=unheard)
        finally:
            self._taken -= 1


def _full(why: str) -> LxgpuError:
    return LxgpuError("too_often", "too many questions at once", why=why, fix="try again in a minute")
