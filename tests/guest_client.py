"""Callers of a container's socket: well behaved ones, and the raw wire for others."""

from __future__ import annotations

import json
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

LIMIT_S = 30.0


def dial(path: Path) -> socket.socket:
    """A connection; `BlockingIOError` when too many others wait for one."""
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    link.settimeout(LIMIT_S)
    try:
        link.connect(str(path))
    except OSError:
        link.close()
        raise
    return link


def request(method: str, route: str, body: bytes = b"", *, length: int | None = None) -> bytes:
    """A request as bytes; it may lie about its length."""
    head = f"{method} {route} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body) if length is None else length}\r\n\r\n".encode() + body


def answer(link: socket.socket) -> tuple[int, dict[str, Any]]:
    """All that comes until the end; status 0 when the connection was cut without an answer."""
    told = b""
    try:
        while part := link.recv(65536):
            told += part
    except ConnectionResetError:
        pass
    if not told:
        return 0, {}
    head, _, body = told.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)


def ask(path: Path, method: str, route: str, body: object = None) -> tuple[int, dict[str, Any]]:
    """One question, as the program inside asks it; `body` may be bytes, to be sent as they are."""
    content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    with dial(path) as link:
        with suppress(BrokenPipeError, ConnectionResetError):  # it may be cut before all is said
            link.sendall(request(method, route, content))
        return answer(link)
