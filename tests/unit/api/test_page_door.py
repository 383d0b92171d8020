"""The page's door: what a session may do, what none may, and that nobody reads or changes what is another's."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from fakes.guests import FakeGuests
from fakes.visits import FakeVisits
from guest_client import answer, dial

from lxgpu.api.gate import BODY_BYTES
from lxgpu.api.page import AT_ONCE, page_app
from lxgpu.api.serving import Bounds, Sockets
from lxgpu.api.turns import WAITING, Turns

TURNS = 3
READS = ("status", "why")
CHANGES = {
    "release": {"gpus": 1},
    "extend": {"seconds": 60},
    "keep": {"seconds": 60, "reason": "a long load"},
    "reserve": {"gpus": 1, "seconds": 60},
    "edit": {"id": "r1", "gpus": 1},
    "cancel": {"id": "r1"},
}


@dataclass(frozen=True)
class Door:
    """The page's socket, over fakes of what stands behind it."""

    path: Path
    visits: FakeVisits
    uses: FakeGuests

    def ask(self, method: str, way: str, body: object = None, *, session: str | None = None, head: str = "") -> Any:
        """One question with a session; status and answer."""
        content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        shown = f"Authorization: Bearer {session}\r\n" if session is not None else ""
        lines = f"{method} {way} HTTP/1.1\r\nHost: x\r\n{shown}{head}Content-Type: application/json\r\n"
        with dial(self.path) as link:
            link.sendall(f"{lines}Content-Length: {len(content)}\r\n\r\n".encode() + content)
            return answer(link)


@pytest.fixture
def door(tmp_path: Path) -> Iterator[Door]:
    """The door is open."""
    with _opened(tmp_path, Turns) as made:
        yield made


@contextmanager
def _opened(tmp_path: Path, turns: Callable[[], Turns]) -> Iterator[Door]:
    visits, uses = FakeVisits(), FakeGuests()
    app = page_app(visits, uses, turns)
    made = Sockets(lambda _: app, lambda _: str(tmp_path), Bounds(connections=64, pace_s=0.0))
    assert made.follow(["page"]) == {}
    yield Door(tmp_path / "api.sock", visits, uses)
    uses.hold.set()
    made.close()


def test_a_session_speaks_for_its_container_alone(door):
    """Whatever alice's session asks for is asked for alice, read and changed."""
    door.uses.give("alice", "GPU-1")
    for name, cards in (("alice", 1), ("bob", 0)):
        status, told = door.ask("GET", "/v1/status", session=f"{name}-session")
        assert (status, told["instance"], len(told["gpus"])) == (200, name, cards)
    door.uses.asked.clear()
    for way, body in CHANGES.items():
        door.ask("POST", f"/v1/{way}", body, session="bob-session")
    assert [asked[:2] for asked in door.uses.asked] == [(way, "bob") for way in CHANGES]


@pytest.mark.parametrize("session", [None, "", "x", "alice-link", "ALICE-SESSION", "x" * 5000, "é"])
def test_without_a_session_nothing_is_read_or_changed(door, session):
    """401 on every way that needs one, whatever is shown in its place."""
    for method, way, body in _ways():
        status, told = door.ask(method, way, body, session=session)
        assert (status, told["error"]["code"]) == (401, "not_allowed"), way
    assert door.uses.asked == []


def test_a_session_is_shown_in_one_place_only(door):
    """Two of them are none, nor does an address, a cookie or another scheme carry one."""
    two = "Authorization: Bearer alice-session\r\n"
    assert door.ask("GET", "/v1/me", session="bob-session", head=two)[0] == 401
    assert door.ask("GET", "/v1/me?session=alice-session")[0] == 401
    assert door.ask("GET", "/v1/me", head="Cookie: session=alice-session\r\n")[0] == 401
    assert door.ask("GET", "/v1/me", head="Authorization: Basic alice-session\r\n")[0] == 401


def test_a_viewer_reads_and_changes_nothing_of_a_container(door):
    """It has none: 403, and `me` says what it is."""
    for method, way, body in _ways():
        status, told = door.ask(method, way, body, session="viewer-session")
        if way in ("/v1/me", "/v1/leave"):
            assert status == 200
            door.visits.sessions["viewer-session"] = None
        else:
            assert (status, told["error"]["code"]) == (403, "not_allowed"), way
    assert door.uses.asked == []


def test_a_link_is_entered_once_and_a_session_is_left(door):
    """Then both are over."""
    status, told = door.ask("POST", "/v1/enter", {"token": "alice-link"})
    assert (status, told["name"], told["kind"], told["expires"]) == (200, "alice", "person", "2027-03-08T08:00:00Z")
    status, failed = door.ask("POST", "/v1/enter", {"token": "alice-link"})
    assert (status, failed["error"]["code"]) == (403, "not_allowed")
    assert door.ask("POST", "/v1/leave", session=told["session"]) == (200, {"state": "done"})
    assert door.ask("GET", "/v1/me", session=told["session"])[0] == 401


def test_an_invitation_needs_no_session_and_gives_none(door):
    """Who it is for, then a key; another text gets neither."""
    assert door.ask("POST", "/v1/invited", {"token": "carol-invite"})[1]["name"] == "carol"
    status, told = door.ask("POST", "/v1/key", {"token": "carol-invite", "key": "ssh-ed25519 AAAA\n"})
    assert (status, told["ssh"], "session" in told) == (200, None, False)
    for way in ("invited", "key"):
        assert door.ask("POST", f"/v1/{way}", {"token": "carol-link", "key": "k"}, session="bob-session")[0] in (
            400,
            403,
        )
    assert door.visits.keys == [("carol-invite", "ssh-ed25519 AAAA\n")]


def test_the_page_makes_no_links_and_knows_no_other_ways(door):
    """Links are made inside containers and by root; paths that play tricks lead nowhere."""
    tricks = ["/v1/web", "/v1/../v1/status", "//v1/status", "/v1/status/", "/v1/status%2f", "/V1/status"]
    tricks += ["/v1/alice/status", "/v1/status;alice", "/v1/%2e%2e/v1/status", "/alice/api.sock"]
    for way in [*tricks, "/docs", "/openapi.json", "/"]:
        for method in ("GET", "POST", "PUT", "OPTIONS"):
            status, told = door.ask(method, way, session="alice-session")
            assert (status, told["error"]["code"]) == (404, "not_found"), (method, way)
    assert door.uses.asked == []


def test_one_container_does_not_keep_the_page_from_another(door):
    """Alice's questions hang: those beyond her share are refused, and bob is answered."""
    door.uses.hold.clear()
    entered = threading.Semaphore(0)

    def wait(_):
        entered.release()
        return door.ask("GET", "/v1/status", session="alice-session")

    with ThreadPoolExecutor(AT_ONCE + 4) as pool:
        asked = [pool.submit(wait, number) for number in range(AT_ONCE + 4)]
        late = [status for status, _ in (one.result(30) for one in _first(asked, 4))]
        assert late == [429] * 4
        assert door.ask("GET", "/v1/why", session="bob-session")[0] == 200
        door.uses.hold.set()
        statuses = sorted(one.result(60)[0] for one in asked)
    assert statuses == [200] * AT_ONCE + [429] * 4


def test_a_fault_of_ours_shows_nothing_and_says_whose_question_it_was(door):
    """The daemon's log learns which."""
    door.uses.broken = True
    status, told = door.ask("GET", "/v1/status", session="alice-session")
    assert (status, told["error"]["code"]) == (500, "internal")
    assert "secret" not in json.dumps(told)
    assert [(name, str(error)) for name, error in door.visits.faults] == [("alice", "/secret/path")]


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"\xff", b"[" * 40_000, {"token": 1}, {"token": "../x"}, {"tok": "x"}],
    ids=lambda body: repr(body)[:14],
)
def test_a_misshapen_question_is_answered_as_one(door, body):
    """On the ways that need no session as well."""
    for way in ("enter", "invited", "key"):
        status, told = door.ask("POST", f"/v1/{way}", body)
        assert (status, told["error"]["code"]) == (400, "usage")
    assert door.visits.faults == []


@pytest.mark.parametrize("way", ["enter", "key", "reserve", "leave"])
def test_what_is_too_large_is_refused_unread(door, way):
    """Whoever sends it: 64 KiB is the most."""
    status, told = door.ask("POST", f"/v1/{way}", b'{"token": "' + b"x" * BODY_BYTES + b'"}', session="alice-session")
    assert (status, told["error"]["code"]) == (413, "usage")
    assert door.uses.asked == []


def test_a_session_has_turns_as_a_container_has(tmp_path):
    """Some changes at once; of further ones a few wait for their turn, and the rest is refused; another's go on."""

    def ask(session: str = "alice-session") -> int:
        return door.ask("POST", "/v1/extend", {"seconds": 60}, session=session)[0]

    with ThreadPoolExecutor(8) as pool:
        with _opened(tmp_path, lambda: Turns(at_once=TURNS, every_s=3600)) as door:
            assert [ask() for _ in range(TURNS)] == [200] * TURNS
            late = [pool.submit(ask) for _ in range(WAITING + 2)]
            assert [one.result() for one in _first(late, 2)] == [429] * 2
            assert ask("bob-session") == 200
            assert sum(one.done() for one in late) == 2
        assert sorted(one.result() for one in late) == [0] * WAITING + [429] * 2, "their turn never came"


def _ways() -> list[tuple[str, str, object]]:
    """All ways that need a session."""
    reads = [("GET", f"/v1/{way}", None) for way in (*READS, "me")]
    changes = [("POST", f"/v1/{way}", body) for way, body in CHANGES.items()]
    return [*reads, *changes, ("POST", "/v1/may", {"gpus": 1}), ("POST", "/v1/leave", None)]


def _first(asked, number):
    """Those that end first."""
    from concurrent.futures import as_completed  # noqa: PLC0415

    found = []
    for one in as_completed(asked, timeout=30):
        found.append(one)
        if len(found) == number:
            return found
    return found
