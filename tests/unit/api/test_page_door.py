"""The page's door: what a session may do, what none may, and that nobody reads or changes what is another's."""

from __future__ import annotations

import fcntl
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
from guest_client import answer, dial
from page_client import wait_for
from visitors import Visitors

from lxgpu.api.desks import AT_ONCE
from lxgpu.api.gate import BODY_BYTES
from lxgpu.api.page import STRANGERS, page_app
from lxgpu.api.serving import Bounds, Sockets
from lxgpu.api.turns import WAITING, Turns
from lxgpu.services.passbook import LOCK

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
    """The page's socket; who comes is real, and what containers ask for a fake."""

    path: Path
    people: Visitors
    uses: FakeGuests

    def ask(self, method: str, way: str, body: object = None, *, session: str | None = None, head: str = "") -> Any:
        """One question with a session, by its name or as it is; status and answer."""
        content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        text = self.people.texts.get(session, session)
        shown = f"Authorization: Bearer {text}\r\n" if text is not None else ""
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
    people, uses = Visitors(tmp_path), FakeGuests()
    app = page_app(people.visits, uses, turns)
    made = Sockets(lambda _: app, lambda _: str(tmp_path), Bounds(connections=64, pace_s=0.0))
    assert made.follow(["page"]) == {}
    yield Door(tmp_path / "api.sock", people, uses)
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
    alice = door.people.texts["alice-session"]
    two = f"Authorization: Bearer {alice}\r\n"
    assert door.ask("GET", "/v1/me", session="bob-session", head=two)[0] == 401
    assert door.ask("GET", f"/v1/me?session={alice}")[0] == 401
    assert door.ask("GET", "/v1/me", head=f"Cookie: session={alice}\r\n")[0] == 401
    assert door.ask("GET", "/v1/me", head=f"Authorization: Basic {alice}\r\n")[0] == 401


def test_a_viewer_reads_and_changes_nothing_of_a_container(door):
    """It has none: 403, and `me` says what it is."""
    for method, way, body in _ways():
        status, told = door.ask(method, way, body, session="viewer-session")
        if way in ("/v1/me", "/v1/leave"):
            assert status == 200
            door.people.texts["viewer-session"] = door.people.come_in()
        else:
            assert (status, told["error"]["code"]) == (403, "not_allowed"), way
    assert door.uses.asked == []


def test_a_link_is_entered_once_and_a_session_is_left(door):
    """Then both are over."""
    link = {"token": door.people.texts["alice-link"]}
    status, told = door.ask("POST", "/v1/enter", link)
    assert (status, told["name"], told["kind"], told["expires"]) == (200, "alice", "person", "2027-03-08T08:00:00Z")
    status, failed = door.ask("POST", "/v1/enter", link)
    assert (status, failed["error"]["code"]) == (403, "not_allowed")
    assert door.ask("POST", "/v1/leave", session=told["session"]) == (200, {"state": "done"})
    assert door.ask("GET", "/v1/me", session=told["session"])[0] == 401


def test_an_invitation_needs_no_session_and_gives_none(door):
    """Who it is for, then a key; another text gets neither."""
    carol, line = {"token": door.people.texts["carol-invite"]}, door.people.site.login.new_key("laptop")[1]
    assert door.ask("POST", "/v1/invited", carol)[1]["name"] == "carol"
    status, told = door.ask("POST", "/v1/key", {**carol, "key": line})
    assert (status, told["ssh"], "session" in told) == (200, None, False)
    for way in ("invited", "key"):
        other = {"token": door.people.texts["alice-link"], "key": "k"}
        assert door.ask("POST", f"/v1/{way}", other, session="bob-session")[0] in (400, 403)
    assert [key.line for key in door.people.site.inventory.read().keys if key.person == "carol"] == [line.strip()]


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
    (said,) = door.people.faults
    assert "(alice)" in said
    assert said.endswith("/secret/path")


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
    assert door.people.faults == []


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


class Held:
    """The inventory, held up before it is read: `came` says that somebody reads, `go` lets all go on."""

    def __init__(self, people):
        self.came, self.go = threading.Event(), threading.Event()
        self._read = people.site.inventory.read
        people.site.inventory.read = self

    def __call__(self):
        """The rows, in the end."""
        self.came.set()
        assert self.go.wait(30)
        return self._read()


def test_strangers_have_room_of_their_own(door):
    """Those who come in wait for the inventory: some more wait with them, the rest is refused, and no session waits."""
    link, held = {"token": door.people.texts["alice-link"]}, Held(door.people)
    with ThreadPoolExecutor(STRANGERS + 3) as pool:
        asked = [pool.submit(door.ask, "POST", "/v1/enter", link) for _ in range(STRANGERS + 3)]
        assert [one.result(30)[0] for one in _first(asked, 3)] == [429] * 3
        assert door.ask("GET", "/v1/me", session="x")[0] == 401
        held.go.set()
        statuses = sorted(one.result(60)[0] for one in asked)
    assert statuses == [200] + [403] * (STRANGERS - 1) + [429] * 3


@pytest.mark.parametrize("way", ["enter", "invited", "key"])
def test_a_text_that_nobody_gave_out_is_refused_before_anything_else(door, way):
    """No lock is asked for, the inventory is not read, and no key is looked at."""
    held = Held(door.people)
    body = {"token": "x" * 43} | ({"key": "no key"} if way == "key" else {})
    with (door.people.site.settings.state_dir / LOCK).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert door.ask("POST", f"/v1/{way}", body)[0] == 403
    assert not held.came.is_set()


def test_a_link_whose_answer_nobody_heard_opens_again(door):
    """The caller went away before: no session is left over, and the link is as it was."""
    link, held = {"token": door.people.texts["alice-link"]}, Held(door.people)
    body = json.dumps(link).encode()
    with dial(door.path) as line:
        head = f"POST /v1/enter HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
        line.sendall(f"{head}\r\n\r\n".encode() + body)
        assert held.came.wait(30)
    before = door.people.sessions
    assert door.ask("GET", "/v1/me", session="x")[0] == 401  # so by now it is known that the caller is gone
    held.go.set()
    wait_for(lambda: door.ask("POST", "/v1/enter", link)[0] == 200)
    assert door.people.sessions == before + 1


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
