"""The host's own address, and what is said where it cannot be found out."""

from __future__ import annotations

import errno
import os
import socket
from ipaddress import IPv4Address

import pytest

from lxgpu.drivers.address import EVERY_ADDRESS, own_address


def test_it_is_an_address():
    """One of this host's, or the word for all of them."""
    assert IPv4Address(own_address())


@pytest.mark.parametrize("number", [errno.EAFNOSUPPORT, errno.EPERM, errno.EMFILE])
def test_where_no_socket_may_be_had_it_is_not_known(monkeypatch, number):
    """A sandbox that allows none of that family is no fault of lxgpu."""

    def refused(*_: object) -> socket.socket:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(socket, "socket", refused)
    assert own_address() == EVERY_ADDRESS
