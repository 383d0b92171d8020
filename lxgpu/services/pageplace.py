"""What is odd about where the page is served and how it is called: said when it starts and by `lxgpu doctor`; pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

from lxgpu.config.settings import WebSettings

_USUAL_PORT = 80


@dataclass(frozen=True, slots=True)
class Oddity:
    """Something that is allowed and hardly meant: what it means, and what would be right."""

    text: str
    remedy: str


def oddities(web: WebSettings) -> Iterator[Oddity]:
    """Of the page: that links lead elsewhere, that anybody on the way can listen in."""
    outside = urlsplit(web.url)
    if outside.scheme == "https":  # that is a proxy's address, whatever its port
        return
    if is_here(outside.hostname or "") and (outside.port or _USUAL_PORT) != web.port:
        text = f"links lead to {web.url}, and the page listens on port {web.port}"
        yield Oddity(text, "set web.port and web.url (LXGPU_WEB_PORT and LXGPU_WEB_URL) alike")
    if not is_here(web.listen):
        text = f"the page listens on {web.listen} and is called by http: who is on the way can use its sessions"
        remedy = "let a proxy speak https, set web.url to its https:// address, and web.listen to 127.0.0.1"
        yield Oddity(text, remedy)


def metrics_told(web: WebSettings) -> Iterator[Oddity]:
    """Of the metrics: who else gets them."""
    if web.metrics is not None and not is_here(web.metrics.address):
        text = f"metrics, with the names of people's containers, are told to everybody who reaches {web.metrics}"
        yield Oddity(text, "let a firewall pass Prometheus alone, or set web.metrics to an address of 127.0.0.1")


def is_here(host: str) -> bool:
    """Whether a name or an address is this very host to itself, and to nobody else."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
