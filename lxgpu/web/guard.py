"""What stands before the page: names, sizes, times, and what a browser is told about every answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

from lxgpu.api.gate import TWO_LENGTHS, App, Message, Receive, Send, played, two_lengths, whole

BODY_BYTES = 16 * 1024
READ_S = 10.0
"""A request's body has come by then, or it is refused."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""Nothing but our own files; no style and no script within a page, no eval."""
HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=(), payment=(), usb=()"),
)
_SAFE = frozenset({"GET", "HEAD"})
_LOCAL = frozenset({"localhost"})


class Names:
    """The names by which the page may be called. An IP address is always one: no DNS leads astray there."""

    def __init__(self, url: str, more: Iterable[str] = ()) -> None:
        parts = urlsplit(url)
        self._hosts = _LOCAL | {name.lower() for name in (parts.hostname or "", *more) if name}
        self._outside = parts.netloc.lower()

    def known(self, host: str) -> bool:
        """Whether a Host header is one of ours; with its port or without."""
        try:
            name = urlsplit(f"//{host}").hostname
        except ValueError:
            return False
        return name is not None and (name in self._hosts or _is_address(name))

    def ours(self, origin: str, host: str) -> bool:
        """Whether an Origin is the page itself: as it was called, or as it is known outside of a proxy."""
        try:
            found = urlsplit(origin).netloc.lower() if origin.startswith(("http://", "https://")) else ""
        except ValueError:
            return False
        return bool(found) and found in {host.lower(), self._outside}


def guard(app: App, names: Names) -> App:
    """The application behind its limits."""

    async def guarded(scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await app(scope, receive, send)
        if scope["type"] != "http":
            return
        headers = _headers(scope)
        told = _refusal(scope["method"], headers, names)
        if told is not None:
            await _refuse(send, told)
            return
        if scope["method"] == "HEAD":
            await app({**scope, "method": "GET"}, receive, _lines_of(_with_headers(send)))
            return
        if scope["method"] == "GET":
            await app(scope, receive, _with_headers(send))
            return
        body = await _body(receive, send)
        if body is None:
            return
        await app(scope, played(body, receive), _with_headers(send))

    return guarded


def _headers(scope: Message) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in scope["headers"]:
        found.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
    return found


@dataclass(frozen=True, slots=True)
class _Refusal:
    status: int
    what: str
    header: tuple[tuple[bytes, bytes], ...] = ()


def _refusal(method: str, headers: dict[str, list[str]], names: Names) -> _Refusal | None:
    """Why a request is not for us; None when it is."""
    if two_lengths(headers):
        return _Refusal(400, TWO_LENGTHS, ((b"connection", b"close"),))
    hosts = headers.get("host", [])
    if len(hosts) != 1 or not names.known(hosts[0]):
        what = "the page is not known by this name: set web.url in config.yaml to the address that people type"
        return _Refusal(421, what)
    if method in _SAFE:
        return None
    if method != "POST":
        return _Refusal(405, "the page knows GET, HEAD and POST", ((b"allow", b"GET, HEAD, POST"),))
    origins, sites = headers.get("origin", []), headers.get("sec-fetch-site", [])
    foreign = [one for one in origins if not names.ours(one, hosts[0])]
    if foreign or not (origins or sites) or any(site != "same-origin" for site in sites):
        return _Refusal(403, "this was sent from another page")
    return None


def _is_address(name: str) -> bool:
    try:
        ip_address(name.partition("%")[0])
    except ValueError:
        return False
    return True


async def _body(receive: Receive, send: Send) -> bytes | None:
    """The body; None when there is nothing more to do: it was refused, or its sender has gone."""
    try:
        async with asyncio.timeout(READ_S):
            body = await whole(receive, BODY_BYTES)
    except TimeoutError:
        await _refuse(send, _Refusal(408, "the request did not come to its end in time"))
        return None
    except ConnectionResetError:
        return None
    if body is None:
        await _refuse(send, _Refusal(413, f"a request has {BODY_BYTES // 1024} KiB at most"))
    return body


def _lines_of(send: Send) -> Send:
    """The answer's lines alone; when they are sent it is over, also where its text would never end."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            await send(message)
            await send({"type": "http.response.body"})

    return sending


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            there = list(message.get("headers", []))
            names = {name.lower() for name, _ in there}
            stored = [] if b"cache-control" in names else [(b"cache-control", b"no-store")]
            message["headers"] = [*there, *HEADERS, *stored]
        await send(message)

    return sending


async def _refuse(send: Send, told: _Refusal) -> None:
    body = f"{told.what}\n".encode()
    about = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
    start: Message = {"type": "http.response.start", "status": told.status, "headers": [*about, *told.header]}
    await _with_headers(send)(start)
    await send({"type": "http.response.body", "body": body})
