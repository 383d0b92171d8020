"""Every way with every socket and session, over the real services: nothing of one is read or changed by another."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from dealings import give, policy
from fakes.site import make_site, newcomer
from guest_client import answer, dial

from lxgpu.api.app import guest_apps
from lxgpu.api.page import page_app
from lxgpu.api.serving import Bounds, Sockets
from lxgpu.model.request import ReserveRequest
from lxgpu.services import links, visits
from lxgpu.services.guest import Guests
from lxgpu.services.reserve import reserve
from lxgpu.services.site import Site
from lxgpu.services.visits import Visits

READS = ("status", "why", "openapi.json")
NAMES = ("alice", "bob")


@dataclass(frozen=True)
class Lab:
    """Alice and bob hold a card and have a booking each; `sessions` are theirs at the page."""

    site: Site
    folder: Path
    sessions: dict[str, str]
    bookings: dict[str, str]

    def ask(self, caller: str, method: str, way: str, body: object = None, *, lines: str = "") -> Any:
        """One question over `alice:socket` or `alice:page`; status and answer."""
        name, _, by = caller.partition(":")
        path, head = self.folder / name / "api.sock", lines
        if by == "page":
            path, head = self.folder / "page" / "api.sock", f"Authorization: Bearer {self.sessions[name]}\r\n{lines}"
        content = b"" if body is None else json.dumps(body).encode()
        first = f"{method} {way} HTTP/1.1\r\nHost: bob\r\nContent-Type: application/json\r\n{head}"
        with dial(path) as link:
            link.sendall(f"{first}Content-Length: {len(content)}\r\n\r\n".encode() + content)
            return answer(link)

    def of(self, name: str) -> str:
        """All that the inventory has of somebody."""
        records = self.site.inventory.read()
        rows = [*records.reservations, *records.assignments, *records.keeps]
        mine = [repr(row) for row in rows if row.instance == name]
        keys = [repr(key) for key in records.keys if key.person == name]
        return "\n".join([repr(records.instance(name)), *sorted(mine), *sorted(keys)])


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """All three sockets are open; the daemon's turns do not come, so that only what is asked for changes anything."""
    (tmp_path / "state").mkdir()
    site = make_site(tmp_path, gpus=3, policy=policy(limit=2), actor="daemon")
    bookings, sessions = {}, {}
    for name in (*NAMES, "page"):
        (tmp_path / name).mkdir()
    for name in NAMES:
        newcomer(site, name)
        give(site, name, 1)
        request = ReserveRequest(name, name, 1, 3600, at=_tomorrow(site))
        bookings[name] = reserve(site, request, begin=False).reservations[0].id
    guests, door = Guests(lambda: site, lambda: None), Visits(lambda: site)
    for name in NAMES:
        sessions[name] = door.enter(links.link(site, name).url.partition("#")[2]).session
    app = page_app(door, guests)
    opened = [
        Sockets(guest_apps(guests), lambda name: str(tmp_path / name)),
        Sockets(lambda _: app, lambda name: str(tmp_path / name), Bounds(pace_s=0.0)),
    ]
    assert opened[0].follow(NAMES) == opened[1].follow(["page"]) == {}
    yield Lab(site, tmp_path, sessions, bookings)
    for sockets in opened:
        sockets.close()


def _tomorrow(site):
    from datetime import timedelta  # noqa: PLC0415 -- once

    return site.clock.now() + timedelta(days=1)


def _changes(identifier: str) -> dict[str, dict[str, object]]:
    """A body that fits for every way of changing something, about a reservation where there is one."""
    return {
        "edit": {"id": identifier, "gpus": 1, "note": "mine now"},
        "cancel": {"id": identifier},
        "extend": {"seconds": 60},
        "keep": {"seconds": 60, "reason": "for the matrix"},
        "reserve": {"gpus": 1, "seconds": 600},
        "may": {"gpus": 1},
        "release": {"busy": True},
        "web": {},
    }


CALLERS = [f"{name}:{by}" for name in NAMES for by in ("socket", "page")]


@pytest.mark.parametrize("caller", CALLERS)
def test_whatever_one_asks_another_stays_as_it_is(lab, caller):
    """With the other's ids, with the other's name in fields, headers and addresses, well formed and not."""
    name = caller.partition(":")[0]
    (other,) = set(NAMES) - {name}
    before, theirs = lab.of(other), lab.bookings[other]
    named = [{"instance": other}, {"name": other}, {"owner": other}]
    lines = f"X-Instance: {other}\r\nX-Forwarded-For: {other}\r\nCookie: session={lab.sessions[other]}\r\n"
    for way in READS:
        for address in (f"/v1/{way}", f"/v1/{way}?name={other}&instance={other}"):
            status, told = lab.ask(caller, "GET", address, lines=lines)
            assert status == 200
            assert theirs not in json.dumps(told)
            assert told.get("instance", name) == name
    for way, body in _changes(theirs).items():
        for more in named[: 1 if way == "web" else 3]:
            status, _ = lab.ask(caller, "POST", f"/v1/{way}", {**body, **more}, lines=lines)
            assert status in ({200, 404} if way == "web" else {400}), way
        status, told = lab.ask(caller, "POST", f"/v1/{way}?instance={other}", body, lines=lines)
        if way in ("edit", "cancel"):  # what is another's is as unknown as what never was
            never = lab.ask(caller, "POST", f"/v1/{way}", {**body, "id": "r0000000"})
            assert (status, json.dumps(told)) == (404, json.dumps(never[1]).replace("r0000000", theirs))
        else:
            assert theirs not in json.dumps(told)
        assert lab.of(other) == before, way
    for way in (f"/v1/{other}/status", f"/../{other}/v1/status", f"/v1/..%2f{other}%2fstatus", f"//{other}/v1/status"):
        assert lab.ask(caller, "GET", way)[0] == 404


@pytest.mark.parametrize("caller", CALLERS)
def test_who_leaves_ends_no_session_of_another(lab, caller):
    """Over the socket all of one's own, at the page the one that is shown."""
    name = caller.partition(":")[0]
    (other,) = set(NAMES) - {name}
    assert lab.ask(caller, "POST", "/v1/leave", {"name": other, "session": lab.sessions[other]})[0] == 200
    assert lab.ask(f"{name}:page", "GET", "/v1/me")[0] == 401
    assert lab.ask(f"{other}:page", "GET", "/v1/me")[0] == 200


@pytest.mark.parametrize("caller", CALLERS)
def test_each_way_does_what_it_says_for_whom_it_is(lab, caller):
    """So that the test above is about ways that work; in the history stands who asked."""
    name = caller.partition(":")[0]
    for way, body in _changes(lab.bookings[name]).items():
        if (way, caller.partition(":")[2]) != ("web", "page"):
            status, told = lab.ask(caller, "POST", f"/v1/{way}", body)
            assert status == 200, (way, told)
    actors = {
        event.actor for event in lab.site.inventory.events() if event.kind in {"edited", "releasing", "cancelled"}
    }
    assert actors == {f"{name} (inside {name})"}


def test_what_is_asked_for_twice_is_done_once_or_refused(lab):
    """A replayed cancel finds nothing, a replayed edit changes nothing more."""
    mine = lab.bookings["alice"]
    assert lab.ask("alice:socket", "POST", "/v1/edit", {"id": mine, "seconds": 1800})[0] == 200
    after = lab.of("alice")
    assert lab.ask("alice:page", "POST", "/v1/edit", {"id": mine, "seconds": 1800})[0] == 200
    assert lab.of("alice") == after
    assert lab.ask("alice:socket", "POST", "/v1/cancel", {"id": mine})[0] == 200
    assert lab.ask("alice:page", "POST", "/v1/cancel", {"id": mine})[0] == 404


def test_of_many_who_come_with_one_link_one_is_let_in(lab):
    """At the same moment, over the page's door."""
    text = links.link(lab.site, "alice").url.partition("#")[2]

    def enter(_: int) -> Any:
        return lab.ask("bob:page", "POST", "/v1/enter", {"token": text})

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(enter, range(8)))
    assert sorted(status for status, _ in answers) == [200] + [403] * 7
    (session,) = [told["session"] for status, told in answers if status == 200]
    assert visits.Visits(lambda: lab.site).who(session).name == "alice"


def test_a_secret_of_one_kind_is_none_of_another(lab):
    """A link or an invitation is no session; a session opens neither."""
    link, invitation = links.link(lab.site, "alice"), links.invite(lab.site, "alice")
    for address in (link, invitation):
        lab.sessions["carol"] = address.url.partition("#")[2]
        assert lab.ask("carol:page", "GET", "/v1/status")[0] == 401
    for way in ("enter", "invited"):
        assert lab.ask("bob:page", "POST", f"/v1/{way}", {"token": lab.sessions["alice"]})[0] == 403
