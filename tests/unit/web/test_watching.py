"""status.json as the page follows it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

from lxgpu.services import statusfile
from lxgpu.web.watching import Watch


def test_a_look_that_fails_is_said_once_and_the_next_one_comes(tmp_path):
    """Whatever is wrong with a file: as soon as it can be read the page shows it."""
    said: list[str] = []
    looks: list[Path] = []
    (tmp_path / statusfile.FILE).write_text("{}")

    def read(folder: Path) -> None:
        looks.append(folder)
        if len(looks) < 4:
            raise RuntimeError("no such thing")

    async def play() -> None:
        watch = Watch(tmp_path, look_s=0.001, say=said.append, read=read)
        running = asyncio.create_task(watch.run())
        async with asyncio.timeout(20):
            await watch.next(0, 20)
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running

    asyncio.run(play())
    assert len(looks) >= 4
    assert said == ["status.json cannot be shown: RuntimeError: no such thing"]
