"""The page's process before it serves: what stops it is told, and leaves no socket behind."""

from __future__ import annotations

import socket

import pytest

from lxgpu.config.readers import Endpoint
from lxgpu.config.settings import WebSettings
from lxgpu.config.shipped import shipped
from lxgpu.drivers.texts import JinjaTexts
from lxgpu.errors import LxgpuError
from lxgpu.web.serve import Place, run


@pytest.fixture
def taken():
    """A port that another program has."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        yield other.getsockname()[1]


def refused(folder, web):
    """What it says instead of serving."""
    with pytest.raises(LxgpuError) as raised:
        run(Place(web, folder, folder), JinjaTexts([shipped("templates")]), print)
    return raised.value


def test_the_pages_port_is_taken(tmp_path, taken):
    """By its name, with a flag that helps."""
    error = refused(tmp_path, WebSettings(port=taken))
    assert (error.code, error.brief) == ("unavailable", f"the page cannot be served at 127.0.0.1, port {taken}")
    assert "lxgpu web --port N" in error.fix


def test_the_port_of_the_metrics_is_taken(tmp_path, taken):
    """No page without them, since nobody would notice: another place is set, or none."""
    error = refused(tmp_path, WebSettings(port=0, metrics=Endpoint("127.0.0.1", taken)))
    assert (error.code, error.brief) == ("unavailable", f"metrics cannot be served at 127.0.0.1, port {taken}")
    assert "web.metrics" in error.fix
    assert "off" in error.fix


def test_one_port_for_both_is_told_as_what_it_is(tmp_path):
    """No other program is looked for, since it is the page itself that has the port."""
    with socket.create_server(("127.0.0.1", 0)) as once:
        port = once.getsockname()[1]
    error = refused(tmp_path, WebSettings(port=port, metrics=Endpoint("127.0.0.1", port)))
    assert error.brief == f"web.port and web.metrics in config.yaml are both 127.0.0.1:{port}"
    assert "LXGPU_WEB_METRICS=off" in error.fix


def test_the_address_is_another_machines(tmp_path):
    """The address is set, not the port."""
    error = refused(tmp_path, WebSettings(listen="192.0.2.77"))
    assert "web.listen" in error.fix
    assert "--port" not in error.fix
