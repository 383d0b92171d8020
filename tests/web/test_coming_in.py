"""Nobody sees or does anything without a session of their own; no secret stays in an address."""

from __future__ import annotations

import contextlib
import re
from dataclasses import replace
from functools import cache
from urllib.parse import urlencode

import pytest
from page_client import STREAM_ENDS, ask, dial, session_of, wait_for
from page_world import Page
from playwright.sync_api import expect

from lxgpu.web.live import MOST_EACH

VIEWS = ("/", "/calendar", "/calendar?view=week", "/mine", "/part/cards", "/part/calendar", "/part/mine", "/live")
CHANGES = {
    "reserve": {"gpus": "1", "when": "soon", "for": "1h"},
    "edit": {"id": "r1", "gpus": "2", "was_gpus": "1"},
    "cancel": {"id": "r1"},
    "keep": {"for": "1h", "reason": "x"},
    "extend": {"for": "1h"},
    "release": {"gpus": "1"},
}


@pytest.mark.parametrize("path", VIEWS)
@pytest.mark.parametrize("cookie", ["", "lxgpu_session=", "lxgpu_session=" + "x" * 43, "lxgpu_session=alice"])
def test_without_a_session_nothing_is_seen(page, world, path, cookie):
    """No name of a person, no card, no stream; what is shown says how to come in."""
    world.turn()
    status, _, text = ask(page, "GET", path, Cookie=cookie)
    assert status == 401
    assert "gpu web" in text
    for secret in ("alice", "bob", "GPU-0000", "RTX"):
        assert secret not in text


@pytest.mark.parametrize(("name", "fields"), CHANGES.items())
@pytest.mark.parametrize("how", ["nobody", "forged", "no token", "another's token", "a viewer", "another page"])
def test_without_ones_own_session_and_form_nothing_is_changed(page, world, name, fields, how):
    """Each change, in each way that somebody might try it."""
    alice, bob, viewer = sessions(page, world)
    cookie, token = {
        "nobody": ("", ""),
        "forged": ("lxgpu_session=" + "y" * 43, alice[1]),
        "no token": (alice[0], ""),
        "another's token": (alice[0], bob[1]),
        "a viewer": viewer,
        "another page": alice,
    }[how]
    origin = "https://elsewhere.example" if how == "another page" else page.url
    before = world.site.inventory.read()
    status, _, _ = ask(page, "POST", f"/do/{name}", {**fields, "token": token}, Cookie=cookie, Origin=origin)
    assert status == (401 if how in {"nobody", "forged"} else 403)
    after = world.site.inventory.read()
    assert (after.reservations, after.keeps) == (before.reservations, before.keeps)
    assert [row.until for row in after.assignments] == [row.until for row in before.assignments]


@cache
def sessions(page, world):
    """Alice's, bob's and a viewer's: cookie and token."""
    return tuple(session_of(page, world, name) for name in ("alice", "bob", ""))


def test_a_link_opens_once(page, world):
    """Whoever finds it later finds nothing."""
    link = world.way_in("alice").partition("#")[2]
    assert ask(page, "POST", "/in", {"link": link}, Origin=page.url)[0] == 303
    status, headers, text = ask(page, "POST", "/in", {"link": link}, Origin=page.url)
    assert (status, headers["set-cookie"]) == (403, None)
    assert "used up" in text


def test_the_session_is_for_this_page_and_for_no_script(page, world):
    """A cookie that scripts cannot read and other sites cannot send."""
    link = world.way_in("alice").partition("#")[2]
    _, headers, _ = ask(page, "POST", "/in", {"link": link}, Origin=page.url)
    told = headers["set-cookie"].lower()
    assert "httponly" in told
    assert "samesite=strict" in told
    assert "path=/" in told


def test_the_secret_leaves_the_address(visit, world, page):
    """Neither the address, nor the way back, nor what is sent as referrer has it."""
    tab = visit(None, "/alive")
    way = world.way_in("alice")
    secret = way.partition("#")[2]
    asked = []
    tab.on("request", lambda request: asked.append((request.url, request.headers.get("referer", ""))))
    tab.goto(way)
    tab.wait_for_url(f"{page.url}/")
    assert tab.get_by_role("heading", level=1).text_content().strip().startswith("2")
    sent = [text for pair in asked for text in pair if secret in text.partition("#")[0]]
    assert sent == []
    tab.go_back()
    assert secret not in tab.url


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8470", "127.0.0.1.evil.example", "localhost.evil", ""])
def test_the_page_answers_to_its_own_names_only(page, host):
    """A name that an attacker points at this machine is no name of the page (DNS rebinding)."""
    status, _, text = ask(page, "GET", "/", Host=host)
    assert status in {400, 421}
    assert "alice" not in text


@pytest.mark.parametrize("host", ["localhost:9999", "127.0.0.1:1", "[::1]:8470", "10.1.2.3"])
def test_a_forwarded_port_is_no_other_page(page, host):
    """`ssh -L 9999:localhost:8470` shows the page."""
    assert ask(page, "GET", "/alive", Host=host)[0] == 200


def test_behind_a_proxy_the_session_is_for_https_only(world):
    """Its cookie is one that only https may send; the page answers to the name of the proxy."""
    page = Page(world, url="https://gpu.lab.example")
    try:
        link = world.way_in("alice").partition("#")[2]
        names = {"Host": "gpu.lab.example", "Origin": "https://gpu.lab.example", "X-Forwarded-For": "192.0.2.7"}
        status, headers, _ = ask(page, "POST", "/in", {"link": link}, **names)
        assert status == 303
        cookie, *told = headers["set-cookie"].split("; ")
        assert cookie.startswith("__Host-lxgpu_session=")
        assert {"Secure", "HttpOnly", "Path=/", "SameSite=strict"} <= set(told)
        assert ask(page, "GET", "/", Host="gpu.lab.example", Cookie=cookie)[0] == 200
        assert ask(page, "GET", "/", Host="gpu.lab.example", Cookie=cookie.removeprefix("__Host-"))[0] == 401
        assert (
            ask(page, "POST", "/in", {"link": "x" * 43}, Host="gpu.lab.example", Origin="https://lab.example")[0] == 403
        )
    finally:
        page.stop()


def test_who_only_looks_changes_nothing_and_hears_so(page, world):
    """By what a session is, not by what a form carries; whose form is another login's is told that."""
    cookie, token = session_of(page, world, "")
    for given in (token, "0" * 32):
        status, _, text = ask(page, "POST", "/do/extend", {"token": given, "for": "1h"}, Cookie=cookie, Origin=page.url)
        assert status == 403
        assert "who only looks changes nothing" in text
    cookie, _ = session_of(page, world)
    status, _, text = ask(page, "POST", "/do/extend", {"token": token, "for": "1h"}, Cookie=cookie, Origin=page.url)
    assert status == 403
    assert "this form is not of your present login" in text


@pytest.mark.parametrize(
    ("name", "fields", "said"),
    [
        ("reserve", {"gpus": "1", "for": "1h", "when": "xx"}, "Say when it begins"),
        ("reserve", {"gpus": "0", "for": "1h", "when": "soon"}, "Say how many GPUs"),
        ("reserve", {"gpus": "1", "for": "0s", "when": "soon"}, "Say for how long"),
        ("reserve", {"gpus": "1", "for": "1h", "when": "soon", "note": "x" * 300}, "That is too long"),
        ("reserve", {"gpus": "1", "for": "1h", "when": "at", "at": "x" * 99}, "the start has more than 64 characters."),
        ("keep", {"for": "1h", "reason": ""}, "Say in a few words why"),
    ],
)
def test_what_was_typed_wrong_is_told_as_that(page, world, name, fields, said):
    """In our own words, and never as if the page were old."""
    cookie, token = session_of(page, world)
    status, _, text = ask(page, "POST", f"/do/{name}", {**fields, "token": token}, Cookie=cookie, Origin=page.url)
    assert status in {400, 422}
    assert said in text
    assert not re.search("[Ll]oad the page|should have|Input", text)


def test_going_ends_the_session_for_good(page, world):
    """In this browser, in the daemon, and in what the page remembers."""
    cookie, token = session_of(page, world, "carol")
    assert ask(page, "GET", "/", Cookie=cookie)[0] == 200
    status, headers, _ = ask(page, "POST", "/out", {"token": "0" * 32}, Cookie=cookie, Origin=page.url)
    assert (status, headers.get("set-cookie")) == (303, None)
    assert ask(page, "GET", "/", Cookie=cookie)[0] == 200, "somebody else's form logs nobody out"
    assert ask(page, "POST", "/out", {"token": token}, Cookie=cookie, Origin=page.url)[0] == 303
    assert ask(page, "GET", "/", Cookie=cookie)[0] == 401


def test_going_ends_what_is_live(page, world):
    """A stream that was opened with the session, and no other."""
    (mine, token), (other, _) = session_of(page, world, "carol"), session_of(page, world, "bob")
    with dial(page) as link, dial(page) as others:
        for one, cookie in ((link, mine), (others, other)):
            one.sendall(f"GET /live HTTP/1.1\r\nHost: localhost\r\nCookie: {cookie}\r\n\r\n".encode())
            assert one.recv(200).startswith(b"HTTP/1.1 200 ")
        assert ask(page, "POST", "/out", {"token": token}, Cookie=mine, Origin=page.url)[0] == 303
        told = b""
        while not told.endswith(STREAM_ENDS):
            part = link.recv(4096)
            assert part, "its end is said"
            told += part
        others.settimeout(0)
        with contextlib.suppress(BlockingIOError):
            assert not others.recv(4096).endswith(STREAM_ENDS)


def test_going_in_one_tab_is_seen_in_the_others(visit):
    """They ask for their parts, and show how to come in again."""
    tab = visit("carol")
    other = tab.context.new_page()
    other.goto("/")
    expect(other.locator(".card")).to_have_count(4)
    tab.locator("form.leave button").click()
    expect(other.locator("body")).to_contain_text("gpu web")
    expect(other.locator(".card")).to_have_count(0)


def test_who_cannot_be_logged_out_is_told_so_and_stays_in(page, world):
    """While the daemon is away nobody ends a session, and nobody may believe that it has ended."""
    cookie, token = session_of(page, world, "carol")
    assert ask(page, "GET", "/", Cookie=cookie)[0] == 200
    world.close()
    try:
        status, headers, text = ask(page, "POST", "/out", {"token": token}, Cookie=cookie, Origin=page.url)
        assert (status, headers.get("set-cookie")) == (503, None)
        assert "still logged in" in text
    finally:
        world.open()
    assert ask(page, "GET", "/", Cookie=cookie)[0] == 200


def test_who_cannot_be_logged_out_since_the_daemon_cannot_write_is_told_why(page, world):
    """Its own words, and not that it does not answer."""
    cookie, token = session_of(page, world, "carol")
    aside = world.site.settings.state_dir / ".passes.json.new"
    aside.mkdir()
    try:
        status, headers, text = ask(page, "POST", "/out", {"token": token}, Cookie=cookie, Origin=page.url)
    finally:
        aside.rmdir()
    assert (status, headers.get("set-cookie")) == (503, None)
    assert "still logged in" in text
    assert "passes.json cannot be written" in text
    assert "does not answer" not in text
    assert ask(page, "GET", "/", Cookie=cookie)[0] == 200


@pytest.mark.parametrize("path", ["/", "/in", "/calendar", "/mine", "/alive", "/favicon.ico", "/nowhere"])
def test_the_lines_of_an_answer_may_be_asked_for_alone(page, world, path):
    """HEAD says what GET would, and sends nothing of it; it needs a session where that does."""
    for cookie in (session_of(page, world, "bob")[0], ""):
        status, headers, _ = ask(page, "GET", path, Cookie=cookie)
        again, lines, text = ask(page, "HEAD", path, Cookie=cookie)
        assert (again, text) == (status, "")
        assert {name.lower() for name in lines} == {name.lower() for name in headers}


def test_the_lines_of_a_stream_end_at_once(page, world):
    """And take no place."""
    cookie, _ = session_of(page, world, "bob")
    told = [ask(page, "HEAD", "/live", Cookie=cookie)[::2] for _ in range(MOST_EACH + 2)]
    assert told == [(200, "")] * (MOST_EACH + 2)


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "PATCH"])
def test_other_methods_are_refused_with_those_there_are(page, method):
    """As HTTP wants it."""
    status, headers, _ = ask(page, method, "/")
    assert (status, headers["allow"]) == (405, "GET, HEAD, POST")


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_request_with_two_lengths_is_refused_and_nothing_after_it_read(page, method):
    """A proxy may read it as one request, and this page as two (request smuggling)."""
    head = f"{method} /in HTTP/1.1\r\nHost: localhost\r\nOrigin: {page.url}\r\nContent-Length: 6\r\n"
    with dial(page) as link:
        link.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /alive HTTP/1.1\r\n\r\n".encode())
        told = b""
        with contextlib.suppress(ConnectionResetError):
            while part := link.recv(4096):
                told += part
    assert told.startswith(b"HTTP/1.1 400 ")
    assert told.count(b"HTTP/1.1") == 1


@pytest.mark.parametrize("path", ["/", "/in", "/join", "/alive", "/static/x/page.css", "/nowhere"])
def test_every_answer_forbids_what_the_page_does_not_need(page, path):
    """No script and no style but the page's own files, no frame, nothing from elsewhere, nothing kept."""
    _, headers, text = ask(page, "GET", path)
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"
    assert not re.search(r"<script(?![^>]*\ssrc=)|\sstyle=|\son[a-z]+=", text)
    assert not re.search(r'(?:src|href)="(?:https?:)?//', text)


@pytest.mark.parametrize(
    "to", ["//evil.example", "https://evil.example", "/\\evil.example", "/x?y=//z", "javascript:x"]
)
def test_links_that_set_something_lead_nowhere_else(page, to):
    """Language and look: back to a page of ours."""
    status, headers, _ = ask(page, "GET", f"/set/language/zh?{urlencode({'to': to})}")
    assert (status, headers["location"]) == (303, "/")


def test_a_public_page_is_seen_by_anybody_and_changed_by_nobody(shaken):
    """Where the policy says so; forms are of those who logged in."""
    world, page = shaken
    world.change = lambda found: replace(found, public=True)
    world.turn()
    wait_for(lambda: ask(page, "GET", "/")[0] == 200)
    _, _, text = ask(page, "GET", "/")
    assert "alice" in text
    assert "<form" not in text
    assert ask(page, "POST", "/do/cancel", {"id": "r1", "token": ""}, Origin=page.url)[0] == 403
    assert '<a class="tool" href="/login">Log in</a>' in text, "whoever looks finds the way in"
    for language, words in (("en", "Everybody can look"), ("zh", "任何人都可查看")):
        for path in ("/", "/login"):
            status, _, text = ask(page, "GET", path, Cookie=f"lxgpu_language={language}")
            assert (status, words in text, "<code>gpu web</code>" in text) == (200, True, True)
    cookie, _ = session_of(page, world)
    assert ask(page, "GET", "/login", Cookie=cookie)[0] == 303
    assert "Everybody can look" not in ask(page, "GET", "/", Cookie=cookie)[2]
