"""What answers Prometheus, without a port: where anybody may ask by any name, and a fault of ours."""

from __future__ import annotations

import asyncio

import pytest

from lxgpu.web.guard import Names
from lxgpu.web.scraping import scraped


def asked(app, host):
    """The status of a scrape by that name."""
    sent = []

    async def send(message):
        sent.append(message)

    async def receive():
        return {"type": "http.request", "body": b""}

    scope = {"type": "http", "method": "GET", "path": "/metrics", "query_string": b"", "headers": [(b"host", host)]}
    asyncio.run(app(scope, receive, send))
    return sent[0]["status"]


@pytest.mark.parametrize(
    ("names", "status"), [(None, 200), (Names("http://127.0.0.1:8470"), 421)], ids=["network", "host"]
)
def test_the_name_matters_where_this_host_alone_asks(names, status):
    """A Prometheus elsewhere may call this host as it likes."""
    said = []
    assert asked(scraped(lambda: None, names, said.append), b"gpu1.lab.example:9470") == status
    assert said == []


def test_a_fault_is_said_and_answered():
    """Once a scrape, in one line; nothing of it goes out."""
    said = []

    def broken():
        raise RuntimeError("not today")

    assert asked(scraped(broken, None, said.append), b"localhost") == 500
    assert said == ["a fault in the metrics: RuntimeError: not today"]
