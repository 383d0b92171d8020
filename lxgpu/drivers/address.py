"""The host's own address."""

from __future__ import annotations

import socket

EVERY_ADDRESS = "0.0.0.0"  # noqa: S104 -- the settings' word for "find out"


def own_address() -> str:
    """The host's address towards the world: what address translation publishes ports on, since it wants one.

    Where it cannot be found out (no route, or this process may have no such socket, as in a unit with
    `RestrictAddressFamilies=AF_UNIX`) it is `EVERY_ADDRESS`.
    """
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect(("192.0.2.1", 9))  # a documentation address: nothing is sent, only a route is looked up
            return str(probe.getsockname()[0])
    except OSError:
        return EVERY_ADDRESS
