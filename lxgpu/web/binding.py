"""The sockets that the page's process listens on, and what helps where one is not to be had."""

from __future__ import annotations

import errno
import socket

from lxgpu.config.readers import Endpoint
from lxgpu.errors import LxgpuError

_NOT_OURS = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT})
_FORBIDDEN = frozenset({errno.EACCES, errno.EPERM})
_FIRST_FREE = 1024


def bound(place: Endpoint, what: str, *, address: str, port: str) -> socket.socket:
    """A socket that listens.

    Args:
        place: where.
        what: what is served there, such as `the page`.
        address: where its address is set, such as `web.listen`.
        port: where its port is set.

    Raises:
        LxgpuError: `unavailable`: the address is not to be had.
    """
    made = None
    try:
        made = socket.socket(socket.AF_INET6 if ":" in place.address else socket.AF_INET, socket.SOCK_STREAM)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((place.address, place.port))
        made.listen(256)
    except OSError as error:
        if made is not None:
            made.close()
        brief = f"{what} cannot be served at {place.address}, port {place.port}"
        fix = fix_of(error, place.port, address=address, port=port)
        raise LxgpuError("unavailable", brief, why=error.strerror or str(error), fix=fix) from error
    return made


def fix_of(error: OSError, number: int, *, address: str, port: str) -> str:
    """What helps where a port `number` is not to be had; `address` and `port` say where these are set."""
    if error.errno == errno.EADDRINUSE:
        return f"another program has the port (ss -ltnp sport = :{number}): end it, or set another: {port}"
    if error.errno in _NOT_OURS:
        return f"set {address} to an address of this host, as `ip address` lists them"
    if error.errno in _FORBIDDEN and number < _FIRST_FREE:
        return f"ports below {_FIRST_FREE} are root's: set another ({port}), and let a proxy have this one"
    return f"look at {address} and {port}: lxgpu config show --origin"
