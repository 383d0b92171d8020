"""What answers Prometheus: a listener of its own, since the page's is where proxies lead the whole world to.

The names of people's containers are in the answer, so that it is not for everybody who may look for the page.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime

from fastapi import Request
from fastapi.responses import PlainTextResponse, Response

from lxgpu.api.gate import App, Message, Receive, Send
from lxgpu.ports import Progress
from lxgpu.services.statusfile import Published
from lxgpu.web.guard import Names
from lxgpu.web.metrics import CONTENT_TYPE, exposition

PATH = "/metrics"
_SAFE = frozenset({"GET", "HEAD"})


def scraped(found: Callable[[], Published | None], names: Names | None, say: Progress) -> App:
    """The application: `PATH` and nothing else.

    Args:
        found: what is published now.
        names: those by which it may be called; None: by any, since more than this host reaches it anyway. On this
            host it is browsers that are kept away: a name that leads here makes them read it for another site.
        say: hears of a fault of ours.
    """

    async def answered(scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await (await answer(Request(scope)))(scope, receive, send)

    async def answer(request: Request) -> Response:
        if names is not None and not names.known(request.headers.get("host", "")):
            return PlainTextResponse("ask by an address of this host, or by its name\n", 421)
        if request.url.path != PATH:
            return PlainTextResponse(f"metrics are at {PATH}\n", 404)
        if request.method not in _SAFE:
            return PlainTextResponse("metrics are for GET\n", 405, headers={"allow": "GET, HEAD"})
        try:
            text = await asyncio.to_thread(exposition, found(), datetime.now(UTC))
        except Exception as error:  # noqa: BLE001 -- whatever it is, the next scrape comes, and somebody must hear of it
            say(f"a fault in the metrics: {type(error).__name__}: {error}")
            return PlainTextResponse("a fault in lxgpu; the log of lxgpu-web has it\n", 500)
        return Response(text, media_type=CONTENT_TYPE)

    return answered
