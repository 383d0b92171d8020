"""The daemon's page door as the page's process sees it: it answers each route as a test says, and counts."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from lxgpu.web.door import SOCKET, Door

Told = tuple[int, Mapping[str, object]]


class PageDoor:
    """`answers`: a status and an object by route.

    Nothing is answered until `free` is set, which it is at first; `came` is set by the first question.
    """

    def __init__(self, answers: dict[str, Told]) -> None:
        self.answers, self.asked = answers, Counter[str]()
        self.free, self.came = asyncio.Event(), asyncio.Event()
        self.free.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One question."""
        head = await reader.readuntil(b"\r\n\r\n")
        route = head.split(b" ")[1].decode()
        self.asked[route] += 1
        self.came.set()
        await self.free.wait()
        status, told = self.answers[route]
        body = json.dumps(told).encode()
        writer.write(f"HTTP/1.1 {status} so\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        await writer.drain()
        writer.close()


@asynccontextmanager
async def page_door(run_dir: Path, answers: dict[str, Told]) -> AsyncIterator[tuple[PageDoor, Door]]:
    """It and a way to it, while it stands."""
    (run_dir / SOCKET).parent.mkdir(exist_ok=True)
    made = PageDoor(answers)
    server = await asyncio.start_unix_server(made.serve, run_dir / SOCKET)
    try:
        yield made, Door(run_dir)
    finally:
        made.free.set()
        server.close()
