"""What stands between a container's socket and the application: limits that no caller can get around.

A request is small, comes soon and is one a connection. The body is read here, whole, before the application sees it.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Container, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]
"""An ASGI application."""

BODY_BYTES = 64 * 1024
READ_S = 10.0
"""A request's lines must have come within this time, its body within as much again."""
LIFE_S = 120.0
"""And no connection lives longer than this, whatever it waits for: an answer that nobody reads, for instance."""

TWO_LENGTHS = "the request has Content-Length and Transfer-Encoding"
_END_OF_HEAD = re.compile(rb"\n\r?\n")


def gate(app: App, *, body_bytes: int = BODY_BYTES, read_s: float = READ_S) -> App:
    """The application behind its limits; it gets requests whose body is there already, and answers once."""

    async def limited(scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        scope["server"] = None  # the socket's path on the host, which is nobody's to know inside
        if two_lengths({name.lower().decode("latin-1") for name, _ in scope["headers"]}):
            await _refuse(
                send, 400, TWO_LENGTHS, "what is between may read them differently", "send Content-Length alone"
            )
            return
        try:
            async with asyncio.timeout(read_s):
                body = await whole(receive, body_bytes)
        except TimeoutError:
            why = f"its lines come within {read_s:g} s, and its body within as much again"
            await _refuse(send, 408, "the request did not come to its end in time", why, "send it whole, at once")
            return
        except ConnectionResetError:
            return
        if body is None:
            why = f"a request has {body_bytes // 1024} KiB at most"
            await _refuse(send, 413, "the request is too large", why, "leave out what is not asked for")
            return

        async def once(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), (b"connection", b"close")]
            await send(message)

        await app(scope, played(body, receive), once)

    return limited


def two_lengths(headers: Container[str]) -> bool:
    """Whether a request says in two ways where it ends; `headers` are its headers' names, in small letters."""
    return "content-length" in headers and "transfer-encoding" in headers


async def whole(receive: Receive, limit: int) -> bytes | None:
    """The body; None when it is larger than `limit`. Raises `ConnectionResetError` when the caller has gone."""
    parts, size = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ConnectionResetError
        part = message.get("body", b"")
        size += len(part)
        if size > limit:
            return None
        parts.append(part)
        if not message.get("more_body", False):
            return b"".join(parts)


def played(body: bytes, receive: Receive) -> Receive:
    """What an application hears of a request whose body was read before: that body, then whatever else comes."""
    given = False

    async def replay() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


async def _refuse(send: Send, status: int, what: str, why: str, fix: str) -> None:
    body = json.dumps({"error": {"code": "usage", "what": what, "why": [why], "fix": fix, "exit": 2}}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": [*headers, (b"connection", b"close")]})
    await send({"type": "http.response.body", "body": body})


class Guarded(asyncio.Protocol):
    """A connection with an end: it passes everything on to the HTTP protocol, and aborts what takes too long."""

    def __init__(
        self, inner: asyncio.Protocol, ended: Callable[[], None], *, read_s: float = READ_S, life_s: float = LIFE_S
    ) -> None:
        self._inner = inner
        self._ended = ended
        self._read_s, self._life_s = read_s, life_s
        self._tail: bytes | None = b""
        self._timers: list[asyncio.TimerHandle] = []
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Somebody called: the time runs."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 -- what a stream socket has
        self._transport = transport
        loop = asyncio.get_running_loop()
        self._timers = [loop.call_later(seconds, transport.abort) for seconds in (self._read_s, self._life_s)]
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Once the lines of the request are there, its body has a time of its own."""
        if self._tail is not None:
            self._tail += data
            if _END_OF_HEAD.search(self._tail):
                self._tail = None
                self._timers[0].cancel()
            else:
                self._tail = self._tail[-2:]
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        """The caller has nothing more to say, and may still listen."""
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        """The caller does not read."""
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        """It reads again."""
        self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """The end."""
        for timer in self._timers:
            timer.cancel()
        self._inner.connection_lost(exc)
        self._ended()

    def abort(self) -> None:
        """End it now."""
        if self._transport is not None:
            self._transport.abort()
