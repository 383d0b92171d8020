"""Mail and webhooks, by Apprise.

Apprise knows some hundred services by their URLs. A web address that it does not know gets its JSON by POST, with the
whole text under `text` as well, which is what chat servers of one's own ask for.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from threading import get_ident
from typing import TYPE_CHECKING, Self
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

if TYPE_CHECKING:
    from apprise import NotifyBase

SENT = "sent"
_PLAIN_PORT, _TLS_PORT = 25, 465


@dataclass(frozen=True, slots=True)
class Message:
    """What is to be said; `mail` are the addresses, with commas between them, empty when none is known."""

    subject: str
    text: str
    mail: str = ""


def by_mail(to: str, sender: str, message: Message, *, limit_s: float) -> str:
    """Send by a mail server: `host[:port]`, or an address of Apprise; gives `sent`, or why not."""
    addresses = [address.strip() for address in message.mail.split(",") if address.strip()]
    if not addresses:
        return "no address is known"
    if "://" in to:
        more = {"to": ",".join(addresses), "cto": f"{limit_s:g}", "rto": f"{limit_s:g}"}
        return _send(_instance(f"{to}{'&' if '?' in to else '?'}{urlencode(more)}"), message, detail=True)
    host, _, port = to.rpartition(":") if to.rpartition(":")[2].isdigit() else (to, "", str(_PLAIN_PORT))
    server: dict[str, object] = {
        "schema": "mailto",
        "host": host.strip("[]"),
        "smtp_host": host.strip("[]"),
        "port": int(port),
        "secure_mode": "ssl" if int(port) == _TLS_PORT else "insecure",
        "from_addr": sender or _own_address(),
        "targets": addresses,
        "format": "text",
        "cto": limit_s,
        "rto": limit_s,
    }
    return _send(_instance(server), message, detail=True)


def _own_address() -> str:
    name = socket.gethostname()
    return f"lxgpu@{name}" if "." in name else "lxgpu@localhost"


def by_webhook(to: str, message: Message, *, limit_s: float) -> str:
    """Send to a web address, or to any that Apprise knows; gives `sent`, or why not."""
    known = _instance(to)
    if known is not None:
        known.socket_connect_timeout = known.socket_read_timeout = limit_s
        return _send(known, message)
    url = urlsplit(to)
    if url.scheme not in {"http", "https"}:
        return f"Apprise knows no {url.scheme}:// address of this form"
    post: dict[str, object] = {
        "schema": "jsons" if url.scheme == "https" else "json",
        "host": url.hostname or "",
        "port": url.port,
        "user": unquote(url.username) if url.username else None,
        "password": unquote(url.password) if url.password else None,
        "fullpath": url.path or "/",
        "params": dict(parse_qsl(url.query, keep_blank_values=True)),
        "payload": {"text": f"{message.subject}\n{message.text}"},
        "cto": limit_s,
        "rto": limit_s,
    }
    return _send(_instance(post), message)


def _instance(address: str | Mapping[str, object]) -> NotifyBase | None:
    """What Apprise makes of an address; None when it knows nothing like it."""
    from apprise import Apprise  # noqa: PLC0415 - 120 ms, and 200 more for its services at the first use

    with _Words() as words:
        made = Apprise.instantiate(address if isinstance(address, str) else dict(address), suppress_exceptions=True)
        if made is None and not isinstance(address, str):
            raise ValueError(words.text(detail=False) or "Apprise does not take this address")
    return made


def _send(service: NotifyBase | None, message: Message, *, detail: bool = False) -> str:
    if service is None:
        return "Apprise does not know this address"
    with _Words() as words:
        done = service.notify(body=message.text, title=message.subject, body_format="text")
        return SENT if done else one_line(words.text(detail=detail) or "it was not taken")


class _Words(logging.Handler):
    """What Apprise has to say while this thread uses it; it writes its reasons to a log and nowhere else."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self._thread = get_ident()
        self._said: list[tuple[int, str]] = []
        self._logger = logging.getLogger("apprise")

    def __enter__(self) -> Self:
        self._logger.propagate = False
        self._logger.setLevel(logging.DEBUG)
        self._logger.addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._logger.removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line of this thread."""
        if record.thread == self._thread:
            self._said.append((record.levelno, record.getMessage()))

    def text(self, *, detail: bool) -> str:
        """The warnings; with `detail` the causes too, which may name the whole address and so its secrets."""
        causes = [line.removeprefix("Socket Exception: ") for _, line in self._said if line.startswith("Socket Exc")]
        warnings = [line.rstrip(".") for level, line in self._said if level >= logging.WARNING]
        return "; ".join([*warnings, *(causes if detail else [])])


def one_line(text: str) -> str:
    """A reason as one line of a bounded length."""
    return " ".join(text.split())[:300]
