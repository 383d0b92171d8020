"""The page's process: one loop, a port for browsers and one for Prometheus, and limits that no caller gets around."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Literal
from urllib.parse import urlsplit

import uvicorn

from lxgpu.api.gate import App
from lxgpu.config.readers import Endpoint
from lxgpu.config.settings import WebSettings
from lxgpu.config.shipped import shipped
from lxgpu.errors import LxgpuError
from lxgpu.ports import Progress, Texts
from lxgpu.services.pageplace import is_here, metrics_told, oddities
from lxgpu.web.app import page
from lxgpu.web.asking import Web
from lxgpu.web.binding import bound
from lxgpu.web.door import Door
from lxgpu.web.guard import Names, guard
from lxgpu.web.live import Streams
from lxgpu.web.own import Own
from lxgpu.web.parts import Parts
from lxgpu.web.scraping import PATH, scraped
from lxgpu.web.sessions import Sessions
from lxgpu.web.statics import Statics
from lxgpu.web.timely import Timely
from lxgpu.web.watching import Watch
from lxgpu.web.words import catalogue

CONNECTIONS, SCRAPES = 800, 32
"""So many at once, streams included, and on the port for Prometheus; who comes beyond is told to come again."""
_HEAD_BYTES = 16 * 1024
_IDLE_S = 15
_END_S = 2


@dataclass(frozen=True, slots=True)
class Place:
    """Where the page is served, and where it finds what it shows."""

    web: WebSettings
    state_dir: Path
    run_dir: Path


class _Server(uvicorn.Server):
    """A server that says so at the first signal: streams end then, and pages that stay open are not waited for.

    `last` ends with it, before the signal has its usual effect, which is the end of the process.
    """

    def __init__(self, config: uvicorn.Config, ends: Callable[[], None], last: Awaitable[None] | None) -> None:
        super().__init__(config)
        self._ends, self._last = ends, last

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A signal to end."""
        self._ends()
        super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close what is open, and wait for the other one to do so."""
        self._ends()
        await super().shutdown(sockets)
        if self._last is not None:
            await self._last


class _Beside(uvicorn.Server):
    """A second server of the process: signals are for the first."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """None."""
        yield


def run(place: Place, texts: Texts, say: Progress) -> None:
    """Serve until SIGTERM or Ctrl-C, with a port 0 on any that is free.

    Raises:
        LxgpuError: `unavailable`: an address is not to be had.
    """
    with ExitStack() as opened:
        listening, scraping = _sockets(place, opened)
        web, served = _web(place, texts, say), replace(place.web, port=_port_of(listening))
        say(f"the page is at {served.url} (listens on {served.listen}, port {served.port})")
        if scraping is not None and served.metrics is not None:
            served = replace(served, metrics=Endpoint(served.metrics.address, _port_of(scraping)))
            say(f"metrics are at http://{served.metrics}{PATH}")
        for odd in (*oddities(served), *metrics_told(served)):
            say(f"{odd.text}: {odd.remedy}")
        asyncio.run(_serve(served, web, listening, scraping))


async def _serve(served: WebSettings, web: Web, listening: socket.socket, scraping: socket.socket | None) -> None:
    """Both at once, once there is something to tell; the page's server decides when it ends."""
    await web.watch.look()
    names = Names(served.url, (socket.gethostname(),))
    here = served.metrics is not None and is_here(served.metrics.address)
    metrics = scraped(lambda: web.watch.seen.found, names if here else None, web.say)
    beside = _Beside(_config(metrics, SCRAPES))

    def ends() -> None:
        web.streams.end()
        beside.should_exit = True

    scrapes = asyncio.create_task(beside.serve(sockets=[scraping])) if scraping is not None else None
    config = _config(guard(page(web), names), CONNECTIONS, lifespan="on")
    await _Server(config, ends, scrapes).serve(sockets=[listening])


def _config(app: App, connections: int, *, lifespan: Literal["on", "off"] = "off") -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=Timely,
        ws="none",
        lifespan=lifespan,
        interface="asgi3",
        log_config=None,
        log_level="critical",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=connections,
        timeout_keep_alive=_IDLE_S,
        timeout_graceful_shutdown=_END_S,
        h11_max_incomplete_event_size=_HEAD_BYTES,
    )


def _sockets(place: Place, opened: ExitStack) -> tuple[socket.socket, socket.socket | None]:
    """The page's, and that of the metrics if they are to be told."""
    web, at = place.web, "web.metrics in config.yaml"
    ways = {"address": "web.listen (or --listen)", "port": "lxgpu web --port N, or web.port in config.yaml"}
    listening = opened.enter_context(bound(Endpoint(web.listen, web.port), "the page", **ways))
    if web.metrics is None:
        return listening, None
    if web.metrics.port and web.metrics == Endpoint(web.listen, _port_of(listening)):
        brief, fix = (
            f"web.port and {at} are both {web.metrics}",
            "LXGPU_WEB_METRICS=off, or another port for one of them",
        )
        raise LxgpuError("unavailable", brief, fix=fix)
    ways = {"address": at, "port": f"{at} (or LXGPU_WEB_METRICS), which may be off"}
    return listening, opened.enter_context(bound(web.metrics, "metrics", **ways))


def _port_of(listening: socket.socket) -> int:
    return int(listening.getsockname()[1])


def _web(place: Place, texts: Texts, say: Progress) -> Web:
    folder = shipped("templates") / "web"
    statics, door = Statics(folder / "static"), Door(place.run_dir)
    watch, sessions = Watch(place.state_dir, say=say), Sessions(door)
    return Web(
        watch=watch,
        door=door,
        sessions=sessions,
        own=Own(door, sessions),
        statics=statics,
        parts=Parts(texts, catalogue(folder / "words.yaml"), statics),
        streams=Streams(watch, sessions.holds),
        secure=urlsplit(place.web.url).scheme == "https",
        say=say,
    )
