"""The turns of one container by a clock that leaps: so many changes at once, then one in so many seconds."""

from __future__ import annotations

import asyncio

from leaping import leaping

from lxgpu.api.turns import WAITING, Turns
from lxgpu.errors import LxgpuError


def test_what_is_beyond_comes_one_by_one():
    """Three at once, the others when their turn is; who pauses may have as many at once again."""

    async def begun(turns, count):
        loop, at = asyncio.get_running_loop(), []

        async def one():
            await turns.change(lambda: None)
            at.append(round(loop.time() - start))

        start = loop.time()
        async with asyncio.TaskGroup() as group:
            for _ in range(count):
                group.create_task(one())
        return at

    async def story():
        turns = Turns(at_once=3, every_s=100.0)
        first = await begun(turns, 3), await begun(turns, WAITING)
        await asyncio.sleep(1000)
        return *first, await begun(turns, 4)

    with leaping() as run:
        assert run(story()) == ([0, 0, 0], [100, 200], [0, 0, 0, 100])


def test_who_may_go_at_once_is_not_counted_among_those_who_wait():
    """Ten at the same moment are ten that begin; beyond that so many wait, and the next one is refused."""

    async def story():
        turns, refused = Turns(at_once=10, every_s=100.0), []

        async def one():
            try:
                await turns.change(lambda: None)
            except LxgpuError as error:
                refused.append(error.code)

        async with asyncio.TaskGroup() as group:
            for _ in range(10 + WAITING + 3):
                group.create_task(one())
        return refused

    with leaping() as run:
        assert run(story()) == ["too_often"] * 3
