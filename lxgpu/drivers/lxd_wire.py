"""One question to a unix socket over HTTP/1.0, and what comes back."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from lxgpu.drivers.lxd_errors import no_answer, not_sent

Json = dict[str, object]
_KNOCK_S = 5.0


class Deadline:
    """A moment after which nobody waits any more, on the monotonic clock."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    @property
    def left(self) -> float:
        """Seconds left, never less than a millisecond, so that it can be handed to a socket."""
        return max(self._end - time.monotonic(), 0.001)

    @property
    def over(self) -> bool:
        """Whether the time is up."""
        return time.monotonic() >= self._end


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server said: HTTP status, headers with lower-case names, body."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    _parsed: list[Json] = field(default_factory=list, repr=False, compare=False)

    @property
    def json(self) -> Json:
        """The whole JSON envelope; empty when the body is none."""
        if not self._parsed:
            try:
                found = json.loads(self.body)
            except ValueError:
                found = {}
            self._parsed.append(found if isinstance(found, dict) else {})
        return self._parsed[0]

    @property
    def metadata(self) -> object:
        """The payload of the envelope."""
        return self.json.get("metadata")

    @property
    def etag(self) -> str | None:
        """The tag that guards the next write."""
        return self.headers.get("etag")

    @property
    def error(self) -> str:
        """The server's words when it refused."""
        return str(self.json.get("error") or "") or self.body.decode(errors="replace")[:200]


def knock(where: str, what: str) -> None:
    """Connects and hangs up: tells exactly why a server cannot be reached, before anything is sent.

    (pylxd wraps that in four other exceptions, and leaks the socket.)

    Raises:
        LxgpuError: `unavailable`.
    """
    with socket.socket(socket.AF_UNIX) as wire:
        wire.settimeout(_KNOCK_S)
        try:
            wire.connect(where)
        except OSError as error:
            raise not_sent(where, error, what) from None


def ask(method: str, target: str, *, where: str, deadline: Deadline, what: str) -> Answer:
    """Sends GET or HEAD for a whole target (`/1.0/…?…`) to the socket `where` and reads the answer to its end.

    Raises:
        LxgpuError: `unavailable` when the socket cannot be reached, or no whole answer came in time.
    """
    request = f"{method} {target} HTTP/1.0\r\nHost: lxd\r\nUser-Agent: lxgpu\r\n\r\n".encode()
    with socket.socket(socket.AF_UNIX) as wire:
        wire.settimeout(deadline.left)
        try:
            wire.connect(where)
        except OSError as error:
            raise not_sent(where, error, what) from None
        try:
            wire.sendall(request)
            return _parse(_read_all(wire, deadline), method)
        except (OSError, ValueError) as error:
            raise no_answer(error, what, deadline.seconds) from None


def _read_all(wire: socket.socket, deadline: Deadline) -> bytes:
    parts: list[bytes] = []
    while True:
        wire.settimeout(deadline.left)
        part = wire.recv(262144)
        if not part:
            return b"".join(parts)
        parts.append(part)
        if deadline.over:
            raise TimeoutError("timed out")


def _parse(data: bytes, method: str) -> Answer:
    head, separator, body = data.partition(b"\r\n\r\n")
    if not separator:
        raise ValueError("the connection was closed before the answer was whole")
    lines = head.decode("latin-1").split("\r\n")
    pairs = (line.partition(":") for line in lines[1:])
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    length = headers.get("content-length")
    if length is not None and method != "HEAD" and len(body) != int(length):
        raise ValueError(f"the answer was cut: {len(body)} of {length} bytes")
    return Answer(status=int(lines[0].split(" ", 2)[1]), headers=headers, body=body)
