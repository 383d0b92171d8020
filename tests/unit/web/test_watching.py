"""status.json as the page follows it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from fakes.site import make_site

from lxgpu.services import statusfile
from lxgpu.services.publish import published
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


def test_memory_of_parts_is_no_news_for_ones_own_things(tmp_path):
    """Only the cards look different: nothing else is made anew as programs take memory and give it back."""
    before = published(make_site(tmp_path, gpus=1), statusfile.DaemonView(running=True))
    (card,) = before.gpus
    slots = tuple(replace(slot, memory_used_bytes=2**30) for slot in card.slots)
    looks = iter([before, replace(before, gpus=(replace(card, slots=slots),))])

    async def play() -> list[dict[str, str]]:
        watch = Watch(tmp_path, look_s=1, say=print, read=lambda _folder: next(looks))
        marks = []
        for text in ("{}", "{ }"):
            (tmp_path / statusfile.FILE).write_text(text)
            await watch.look()
            marks.append(dict(watch.seen.parts))
        return marks

    first, second = asyncio.run(play())
    assert {name for name in first if first[name] != second[name]} == {"cards"}
