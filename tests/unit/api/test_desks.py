"""Desks of the page's door: a place is taken for as long as somebody is at work at it."""

from __future__ import annotations

import asyncio
import threading

import pytest

from lxgpu.api.desks import Desk
from lxgpu.errors import LxgpuError


class Work:
    """Something that takes until `go`; `heard` are its answers that nobody heard."""

    def __init__(self) -> None:
        self.began, self.go = threading.Event(), threading.Event()
        self.unheard: list[str] = []
        self.done: list[str] = []

    def __call__(self, word: str) -> str:
        """Its word, in the end."""
        self.began.set()
        assert self.go.wait(30)
        self.done.append(word)
        return word


async def _begun(work: Work) -> None:
    await asyncio.to_thread(work.began.wait, 30)


def test_a_place_is_free_again_when_its_thread_has_ended():
    """A caller who goes away gives nothing back that is still being worked on."""

    async def story() -> None:
        desk, work = Desk("test", threads=1, places=1), Work()
        first = asyncio.create_task(desk.ask(work, "first"))
        await _begun(work)
        first.cancel()
        await asyncio.sleep(0)
        with pytest.raises(LxgpuError, match="too many questions at once"):
            await desk.ask(work, "second")
        work.go.set()
        with pytest.raises(asyncio.CancelledError):
            await first
        assert await desk.ask(work, "third") == "third"
        assert work.done == ["first", "third"]

    asyncio.run(story())


def test_who_goes_away_before_the_turn_comes_has_asked_for_nothing():
    """It waited for a thread, and none ever begins for it."""

    async def story() -> None:
        desk, work = Desk("test", threads=1, places=2), Work()
        first = asyncio.create_task(desk.ask(work, "first"))
        await _begun(work)
        late = asyncio.create_task(desk.ask(work, "late", unheard=work.unheard.append))
        await asyncio.sleep(0)
        late.cancel()
        await asyncio.sleep(0)
        work.go.set()
        assert await first == "first"
        with pytest.raises(asyncio.CancelledError):
            await late
        assert (work.done, work.unheard) == (["first"], [])

    asyncio.run(story())


def test_an_answer_that_nobody_hears_is_said_to_be_one():
    """Once, and before the place is free."""

    async def story() -> None:
        desk, work = Desk("test", threads=1, places=1), Work()
        asked = asyncio.create_task(desk.ask(work, "one", unheard=work.unheard.append))
        await _begun(work)
        asked.cancel()
        await asyncio.sleep(0)
        work.go.set()
        with pytest.raises(asyncio.CancelledError):
            await asked
        assert work.unheard == ["one"]
        assert await desk.ask(work, "two", unheard=work.unheard.append) == "two"
        assert work.unheard == ["one"]

    asyncio.run(story())
