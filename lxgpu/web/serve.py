"""The page's process: one loop, one port, and limits that a slow or greedy caller cannot get around."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from urllib.parse import urlsplit

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from lxgpu.config.shipped import shipped
from lxgpu.errors import LxgpuError
from lxgpu.ports import Progress, Texts
from lxgpu.web.app import page
from lxgpu.web.asking import Web
from lxgpu.web.door import Door
from lxgpu.web.guard import Names, guard
from lxgpu.web.live import Streams
from lxgpu.web.own import Own
from lxgpu.web.parts import Parts
from lxgpu.web.sessions import Sessions
from lxgpu.web.statics import Statics
from lxgpu.web.watching import Watch
from lxgpu.web.words import catalogue

CONNECTIONS = 800
"""So many at once, streams included; who comes beyond is told to come again."""
HEAD_S = 10.0
"""The lines of a request have come by then, from its first byte on."""
UNREAD_S = 30.0
"""And who does not read an answer for so long gets no more of it."""
_HEAD_BYTES = 16 * 1024
_IDLE_S = 15
_END_S = 2


@dataclass(frozen=True, slots=True)
class Place:
    """Where the page is served, and where it finds what it shows. `url` is how people call it."""

    listen: str
    port: int
    url: str
    state_dir: Path
    run_dir: Path


class Timely(H11Protocol):
    """HTTP, but a request whose lines do not come to their end in time is no request."""

    _timer: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Somebody called."""
        super().connection_made(transport)
        self._timer = self.loop.call_later(HEAD_S, transport.abort)

    def data_received(self, data: bytes) -> None:
        """The time runs from the first byte of a request until its lines are there."""
        if self._timer is None and self._between():
            self._timer = self.loop.call_later(HEAD_S, self.transport.abort)
        super().data_received(data)
        if self._timer is not None and not self._between():
            self._timer.cancel()
            self._timer = None

    def pause_writing(self) -> None:
        """The caller does not read: for a while that is waited for."""
        super().pause_writing()
        self._unread = self.loop.call_later(UNREAD_S, self.transport.abort)

    def resume_writing(self) -> None:
        """It reads again."""
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()

    def connection_lost(self, exc: Exception | None) -> None:
        """The end."""
        for timer in (self._timer, self._unread):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def _between(self) -> bool:
        """Whether no request is being answered."""
        return getattr(self.cycle, "response_complete", True)  # there is no cycle before the first request


class _Server(uvicorn.Server):
    """A server that ends its streams at the first signal, and so does not wait for pages that stay open."""

    def __init__(self, config: uvicorn.Config, streams: Streams) -> None:
        super().__init__(config)
        self._streams = streams

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A signal to end."""
        self._streams.end()
        super().handle_exit(sig, frame)


def run(place: Place, texts: Texts, say: Progress, *, ready: Callable[[int], None] = lambda _port: None) -> None:
    """Serve until SIGTERM or Ctrl-C. `ready` hears the port, which for 0 is any that is free.

    Raises:
        LxgpuError: `unavailable`: the address is not to be had.
    """
    listening, web = _listening(place), _web(place, texts, say)
    port = int(listening.getsockname()[1])
    config = uvicorn.Config(
        guard(page(web), Names(place.url, (socket.gethostname(),))),
        http=Timely,
        ws="none",
        lifespan="on",
        interface="asgi3",
        log_config=None,
        log_level="critical",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=CONNECTIONS,
        timeout_keep_alive=_IDLE_S,
        timeout_graceful_shutdown=_END_S,
        h11_max_incomplete_event_size=_HEAD_BYTES,
    )
    say(f"the page is at {place.url} (listens on {place.listen}, port {port})")
    if _leads_elsewhere(place.url, port):
        say(f"links lead to {place.url}, where this page is not: set web.port and web.url (or LXGPU_WEB_URL) alike")
    ready(port)
    _Server(config, web.streams).run(sockets=[listening])


def _leads_elsewhere(url: str, port: int) -> bool:
    """Whether links name this very host, and another port: no proxy stands between that could be meant."""
    outside = urlsplit(url)
    return outside.hostname in {"127.0.0.1", "localhost", "::1"} and outside.port not in {port, None}


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
        streams=Streams(watch),
        secure=urlsplit(place.url).scheme == "https",
        say=say,
    )


def _listening(place: Place) -> socket.socket:
    family = socket.AF_INET6 if ":" in place.listen else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((place.listen, place.port))
        made.listen(256)
    except OSError as error:
        made.close()
        what = f"the page cannot be served at {place.listen}, port {place.port}"
        fix = "another program has the port: lxgpu web --port N, or web.port in config.yaml"
        raise LxgpuError("unavailable", what, why=str(error), fix=fix) from error
    return made
