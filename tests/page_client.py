"""Callers of the page that are no browsers."""

from __future__ import annotations

import http.client
import re
import socket
import time
from urllib.parse import urlencode, urlsplit

STREAM_ENDS = b"\r\n0\r\n\r\n"
"""What stands last in a stream that came to its end, and was not cut."""


def ask(page, method, path, fields=None, *, limit_s=15, **headers):
    """One request, as no browser sends it: status, headers, text."""
    link = http.client.HTTPConnection(urlsplit(page.url).netloc, timeout=limit_s)
    body = urlencode(fields) if fields is not None else None
    kind = {"Content-Type": "application/x-www-form-urlencoded"} if fields is not None else {}
    link.request(method, path, body, kind | {name.replace("_", "-"): value for name, value in headers.items()})
    answer = link.getresponse()
    told = answer.status, answer.headers, answer.read().decode()
    link.close()
    return told


def scrape(page, path="/metrics", method="GET", **headers):
    """One question on the port of the metrics: status, type, text."""
    link = http.client.HTTPConnection(urlsplit(page.metrics).netloc, timeout=15)
    link.request(method, path, headers=headers)
    answer = link.getresponse()
    told = answer.status, answer.headers["content-type"], answer.read()
    link.close()
    return told


def session_of(page, world, name="alice"):
    """A session's cookie, and its forms' token."""
    link = world.way_in(name).partition("#")[2]
    status, headers, _ = ask(page, "POST", "/in", {"link": link}, Origin=page.url)
    assert status == 303
    cookie = headers["set-cookie"].split(";")[0]
    _, _, text = ask(page, "GET", "/", Cookie=cookie)
    return cookie, re.search(r'name="token" value="([0-9a-f]+)"', text)[1]


def wait_for(is_so):
    """Until it is so, within some seconds."""
    ends = time.monotonic() + 15
    while not is_so():
        assert time.monotonic() < ends
        time.sleep(0.05)


def dial(page):
    """A bare connection."""
    where = urlsplit(page.url)
    return socket.create_connection((where.hostname, where.port), timeout=15)
