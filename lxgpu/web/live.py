"""The stream that keeps a page live: which part is to be asked for again, and how old it all is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass

from fastapi.responses import StreamingResponse

from lxgpu.api.gate import Message, Receive, Send
from lxgpu.web.watching import PARTS, Seen, Watch

BEAT_S = 10.0
"""At least so often something is sent, so that both ends learn when the other has gone."""
LIFE_S = 600.0
"""Then the stream ends and the browser opens another: nothing lives for ever."""
AGAIN_MS = 2000
_BEAT = b": still here\n\n"
MOST, MOST_EACH, MOST_ANYBODY = 400, 8, 200
"""So many streams in all, of one session (tabs that somebody left open), and of all together who have none: behind a
proxy these look alike, and must not take what the others need."""


@dataclass(eq=False, slots=True)
class _Place:
    """Of one stream. `over`: its session has ended."""

    whose: str
    over: bool = False


class Streams:
    """All open streams; that of a session ends when `holds` says that it speaks for nobody any more."""

    def __init__(self, watch: Watch, holds: Callable[[str], Awaitable[bool]]) -> None:
        self._watch, self._holds = watch, holds
        self._open: dict[str, set[_Place]] = {}
        self._ended = asyncio.Event()

    def open(self, whose: str, age: Callable[[Seen], str], *, shows: str | None = None) -> StreamingResponse | None:
        """One more, of a session ("": of somebody without one); None when there are too many.

        It has its place from now on. `age` makes the HTML of how old it all is. `shows` are the marks (`Seen.marks`) of
        what the page was made of: what looks different since, before the stream was there, is told first.
        """
        most = MOST_EACH if whose else MOST_ANYBODY
        if sum(map(len, self._open.values())) >= MOST or len(self._open.get(whose, ())) >= most:
            return None
        place = _Place(whose)
        self._open.setdefault(whose, set()).add(place)
        return _Stream(self._events(place, age, shows), lambda: self._left(place))

    def _left(self, place: _Place) -> None:
        self._open[place.whose].discard(place)
        if not self._open[place.whose]:
            del self._open[place.whose]

    def end(self) -> None:
        """End all of them: the process ends."""
        self._ended.set()
        self._watch.wake()

    def end_of(self, session: str) -> None:
        """End those of a session that is over."""
        for place in self._open.get(session, ()):
            place.over = True
        self._watch.wake()

    async def _events(self, place: _Place, age: Callable[[Seen], str], shows: str | None) -> AsyncIterator[bytes]:
        """`cards`, `calendar` and `mine` when that part looks different now, `age` with its HTML when that does.

        When its session is over all parts are named: the page asks for them, and is told to log in.
        """
        seen, ends = self._watch.seen, time.monotonic() + LIFE_S
        said = age(seen)
        yield f"retry: {AGAIN_MS}\n".encode() + _event("age", said)
        if shows is not None and shows != seen.marks:
            for event in _different(dict(zip(PARTS, shows.split("-"), strict=False)), seen):
                yield event
        while time.monotonic() < ends and not self._ended.is_set():
            now = await self._watch.next(seen.version, BEAT_S)
            if place.over or (place.whose and not await self._holds(place.whose)):
                yield b"".join(_event(name, "over") for name in PARTS)
                return
            if now.version != seen.version:
                for event in _different(dict(seen.parts), now):
                    yield event
            told, said = said, age(now)
            yield _BEAT if told == said else _event("age", said)
            seen = now


class _Stream(StreamingResponse):
    """Its place is free again when it ends, begun or not."""

    def __init__(self, events: AsyncIterator[bytes], left: Callable[[], None]) -> None:
        super().__init__(events, media_type="text/event-stream", headers={"x-accel-buffering": "no"})
        self._left = left

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._left()


def _different(before: Mapping[str, str], now: Seen) -> Iterator[bytes]:
    return (_event(name, str(now.version)) for name, mark in now.parts if before.get(name) != mark)


def _event(name: str, text: str) -> bytes:
    lines = "".join(f"data: {line}\n" for line in text.splitlines() or [""])
    return f"event: {name}\n{lines}\n".encode()
