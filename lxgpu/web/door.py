"""The way to the daemon: one question a connection over its page door, bounded in time and size."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Any

from lxgpu.api.doors import NAME
from lxgpu.config.settings import PAGE_FOLDER

SOCKET = Path(PAGE_FOLDER, NAME)
"""The door below the run directory."""
READ_S, CHANGE_S, KEY_S = 3.0, 18.0, 110.0
"""So long an answer is waited for: of a question, of a change, which may wait for its turn, and of a newcomer's key,
which goes into a container that may be slow; the daemon ends each after 120 s."""
GLANCE_S = 1.5
"""And so long for what a page can be shown without; with a question after it no page takes longer than 5 s."""
NO_SESSION = 401
"""The status of an answer to a session that the daemon does not know."""
_MOST_BYTES = 4 * 1024 * 1024
_OPEN, _STRANGERS, _KEYS = (32, 512), (4, 16), (2, 4)
"""So many ask at once and so many more wait: with a session, who comes without a known one, who brings a key."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the daemon said: an HTTP status and an object."""

    status: int
    body: Mapping[str, Any]


class DoorError(Exception):
    """The daemon does not answer: it is away, or too slow."""


class SilentError(DoorError):
    """The daemon was asked and did not answer: what was asked for may be done, now or when it goes on."""


class RefusedError(Exception):
    """The daemon answered with an error of lxgpu's: `code`, `what`, `why` and `fix` are its words."""

    def __init__(self, status: int, told: Mapping[str, Any]) -> None:
        self.status = status
        self.code = str(told.get("code", "internal"))
        self.what = str(told.get("what", ""))
        why = told.get("why")
        self.why = tuple(str(line) for line in why) if isinstance(why, list) else ()
        self.fix = str(told.get("fix") or "")
        super().__init__(self.what)


class Room:
    """So many ask at once, and so many more wait here; who is beyond is refused (`too_often`)."""

    def __init__(self, at_once: int, waiting: int) -> None:
        self._room, self._most = asyncio.Semaphore(at_once), at_once + waiting
        self._inside = 0

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """A place in it. Raises `RefusedError`."""
        if self._inside >= self._most:
            fix = "try again in a minute"
            raise RefusedError(429, {"code": "too_often", "what": "too many ask at once", "fix": fix})
        self._inside += 1
        try:
            async with self._room:
                yield
        finally:
            self._inside -= 1


class Door:
    """Asks the daemon. Strangers have rooms of their own, so that those who are known need not wait for them."""

    def __init__(self, run_dir: Path) -> None:
        self._path = run_dir / SOCKET
        self.known, self.strangers, self.keys = (Room(*bounds) for bounds in (_OPEN, _STRANGERS, _KEYS))

    async def get(
        self, route: str, session: str = "", *, limit_s: float = READ_S, room: Room | None = None
    ) -> Mapping[str, Any]:
        """A question. Raises `DoorError`, `RefusedError`."""
        return await self._ask("GET", route, session, None, limit_s=limit_s, room=room or self.known)

    async def post(
        self,
        route: str,
        body: Mapping[str, object],
        session: str = "",
        *,
        limit_s: float = CHANGE_S,
        room: Room | None = None,
    ) -> Mapping[str, Any]:
        """A change. Raises `DoorError`, `RefusedError`."""
        return await self._ask("POST", route, session, body, limit_s=limit_s, room=room or self.known)

    async def awake(self) -> None:
        """That somebody answers, before something is asked that may take long. Raises `DoorError`."""
        try:
            await self.get("/v1/me", room=self.strangers)
        except RefusedError as error:
            if error.status != NO_SESSION:
                raise

    async def _ask(
        self, method: str, route: str, session: str, body: Mapping[str, object] | None, *, limit_s: float, room: Room
    ) -> Mapping[str, Any]:
        content = b"" if body is None else json.dumps(body, ensure_ascii=False).encode(errors="replace")
        lines = [f"{method} {route} HTTP/1.1", "Host: page", "Connection: close", f"Content-Length: {len(content)}"]
        lines += ["Content-Type: application/json"] if body is not None else []
        lines += [f"Authorization: Bearer {session}"] if session else []
        request, heard = "\r\n".join([*lines, "", ""]).encode("ascii", "replace") + content, False
        try:
            async with asyncio.timeout(limit_s), room.place():
                reader, writer = await asyncio.open_unix_connection(str(self._path))
                heard = True
                told = await _exchange(reader, writer, request)
            answer = _parsed(told)
        except (OSError, TimeoutError, HTTPException, ValueError) as error:
            raise (SilentError if heard else DoorError)(f"{type(error).__name__}: {error}") from error
        if answer.status != 200:  # noqa: PLR2004 -- OK
            told_error = answer.body.get("error")
            raise RefusedError(answer.status, told_error if isinstance(told_error, dict) else {})
        return answer.body


async def _exchange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> bytes:
    try:
        writer.write(request)
        await writer.drain()
        told = await reader.read(_MOST_BYTES)
        while part := await reader.read(_MOST_BYTES):
            told += part
            if len(told) > _MOST_BYTES:
                raise ValueError("an answer without end")
        return told
    finally:
        writer.close()


class _Bytes:
    """What the standard library's reader of answers takes for a socket."""

    def __init__(self, told: bytes) -> None:
        self._told = told

    def makefile(self, _mode: str) -> io.BytesIO:
        return io.BytesIO(self._told)


def _parsed(told: bytes) -> Answer:
    response = HTTPResponse(_Bytes(told))  # type: ignore[arg-type]  # it asks for makefile alone
    response.begin()
    body = json.loads(response.read() or b"{}")
    if not isinstance(body, dict):
        raise ValueError("no object")  # noqa: TRY004 -- of what came, not of ours
    return Answer(response.status, body)
