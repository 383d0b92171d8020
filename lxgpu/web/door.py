"""The way to the daemon: one question a connection over its page door, bounded in time and size."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Any

SOCKET = Path("page/api.sock")
"""The door below the run directory."""
READ_S, CHANGE_S, KEY_S = 6.0, 40.0, 110.0
"""So long an answer is waited for: of a question, of a change, which may wait for its turn, and of a newcomer's key,
which goes into a container that may be slow; the daemon ends each after 120 s."""
GLANCE_S = 1.5
"""And so long for what a page can be shown without."""
NO_SESSION = 401
"""The status of an answer to a session that the daemon does not know."""
_MOST_BYTES = 4 * 1024 * 1024
_MOST_AT_ONCE = 32


@dataclass(frozen=True, slots=True)
class Answer:
    """What the daemon said: an HTTP status and an object."""

    status: int
    body: Mapping[str, Any]


class DoorError(Exception):
    """The daemon does not answer: it is away, or too slow."""


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


class Door:
    """Asks the daemon. A few questions at once; the rest wait here for as long as they may."""

    def __init__(self, run_dir: Path) -> None:
        self._path = run_dir / SOCKET
        self._room = asyncio.Semaphore(_MOST_AT_ONCE)

    async def get(self, route: str, session: str = "", *, limit_s: float = READ_S) -> Mapping[str, Any]:
        """A question. Raises `DoorError`, `RefusedError`."""
        return await self._ask("GET", route, session, None, limit_s)

    async def post(
        self, route: str, body: Mapping[str, object], session: str = "", *, limit_s: float = CHANGE_S
    ) -> Mapping[str, Any]:
        """A change. Raises `DoorError`, `RefusedError`."""
        return await self._ask("POST", route, session, body, limit_s)

    async def _ask(
        self, method: str, route: str, session: str, body: Mapping[str, object] | None, limit_s: float
    ) -> Mapping[str, Any]:
        content = b"" if body is None else json.dumps(body, ensure_ascii=False).encode(errors="replace")
        lines = [f"{method} {route} HTTP/1.1", "Host: page", "Connection: close", f"Content-Length: {len(content)}"]
        lines += ["Content-Type: application/json"] if body is not None else []
        lines += [f"Authorization: Bearer {session}"] if session else []
        try:
            async with asyncio.timeout(limit_s), self._room:
                told = await self._exchange("\r\n".join([*lines, "", ""]).encode("ascii", "replace") + content)
            answer = _parsed(told)
        except (OSError, TimeoutError, HTTPException, ValueError) as error:
            raise DoorError(f"{type(error).__name__}: {error}") from error
        if answer.status != 200:  # noqa: PLR2004 -- OK
            told_error = answer.body.get("error")
            raise RefusedError(answer.status, told_error if isinstance(told_error, dict) else {})
        return answer.body

    async def _exchange(self, request: bytes) -> bytes:
        reader, writer = await asyncio.open_unix_connection(str(self._path))
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
