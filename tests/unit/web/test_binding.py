"""Sockets that the page listens on: what is not to be had is told with what helps against just that."""

from __future__ import annotations

import errno
import os
import socket

import pytest

from lxgpu.config.readers import Endpoint
from lxgpu.errors import LxgpuError
from lxgpu.web.binding import bound, fix_of

WAYS = {"address": "web.listen", "port": "web.port"}


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_it_listens(address):
    """On a port that is free, of either family."""
    with bound(Endpoint(address, 0), "the page", **WAYS) as made:
        socket.create_connection(made.getsockname()[:2], timeout=10).close()


def test_a_port_that_another_has():
    """What holds it is shown by a command, and another is set by name."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        place = Endpoint("127.0.0.1", other.getsockname()[1])
        with pytest.raises(LxgpuError) as raised:
            bound(place, "the page", **WAYS)
    assert (raised.value.code, raised.value.brief) == (
        "unavailable",
        f"the page cannot be served at 127.0.0.1, port {place.port}",
    )
    assert raised.value.why == (os.strerror(errno.EADDRINUSE),)
    assert f"sport = :{place.port}" in raised.value.fix
    assert "web.port" in raised.value.fix
    assert "web.listen" not in raised.value.fix


def test_an_address_that_is_another_machines():
    """The address is what is wrong, not the port."""
    with pytest.raises(LxgpuError) as raised:
        bound(Endpoint("192.0.2.77", 0), "the page", **WAYS)
    assert "web.listen" in raised.value.fix
    assert "web.port" not in raised.value.fix


@pytest.mark.parametrize(
    ("number", "port", "told"),
    [
        (errno.EADDRINUSE, 8470, "another program has the port"),
        (errno.EADDRNOTAVAIL, 8470, "an address of this host"),
        (errno.EAFNOSUPPORT, 8470, "an address of this host"),
        (errno.EACCES, 443, "ports below 1024 are root's"),
        (errno.EPERM, 443, "ports below 1024 are root's"),
        (errno.EACCES, 8470, "config show"),
        (errno.ENOBUFS, 8470, "config show"),
    ],
)
def test_what_helps_depends_on_why(number, port, told):
    """Each reason has words of its own."""
    assert told in fix_of(OSError(number, os.strerror(number)), port, **WAYS)
