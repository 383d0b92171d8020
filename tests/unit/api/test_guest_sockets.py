"""The sockets: they come and go with the containers, and no caller is in another's way."""

from __future__ import annotations

import asyncio
import os
import stat
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from itertools import pairwise

import pytest
from fakes.site import make_site, newcomer
from guest_client import answer, ask, dial, request
from house import until

from lxgpu.api.app import guest_apps
from lxgpu.api.gate import BODY_BYTES
from lxgpu.api.parts import Doors
from lxgpu.api.serving import CONNECTIONS, Sockets
from lxgpu.api.turns import AT_ONCE, WAITING
from lxgpu.services.guestreasons import GuestReasons


def inside(folder):
    """The names in a folder."""
    return [path.name for path in folder.iterdir()]


def state(guests, name):
    """The HTTP status of a plain question."""
    return ask(guests.path(name), "GET", "/v1/status")[0]


def patient(guests, name):
    """The same; nothing when too many others wait."""
    with suppress(BlockingIOError):
        return state(guests, name)
    return None


def test_everybody_inside_may_connect(guests):
    """Mode 0666, whatever the umask; nothing else is left in the folder."""
    assert stat.S_IMODE(guests.path("alice").lstat().st_mode) == 0o666
    assert inside(guests.folder / "alice") == ["api.sock"]


def test_sockets_follow_the_containers(guests):
    """One that is not named any more is closed and taken away, a new one is opened, the others go on."""
    (guests.folder / "carol").mkdir()
    mark = guests.path("bob").lstat().st_ino
    assert guests.sockets.follow(["bob", "carol"]) == {}
    assert not guests.path("alice").exists()
    assert (state(guests, "bob"), state(guests, "carol")) == (200, 200)
    assert guests.path("bob").lstat().st_ino == mark


def test_what_lies_in_the_way_is_replaced_and_never_followed(guests):
    """A socket of a dead daemon, a file, and links to a file or a folder of somebody else's."""
    treasure = guests.folder / "treasure"
    treasure.write_text("mine")
    treasure.chmod(0o600)
    for number, lay in enumerate(
        [
            lambda path: path.write_text("x"),
            lambda path: path.symlink_to(treasure),
            lambda path: path.symlink_to(guests.folder / "nowhere"),
            os.mkfifo,
        ]
    ):
        name = f"guest{number}"
        (guests.folder / name).mkdir()
        lay(guests.path(name))
        (guests.folder / name / ".api.sock.0badf00d").symlink_to(treasure)
        assert guests.sockets.follow(["alice", name]) == {}
        assert stat.S_ISSOCK(guests.path(name).lstat().st_mode)
        assert state(guests, name) == 200
        assert inside(guests.folder / name) == ["api.sock"]
    assert (treasure.read_text(), stat.S_IMODE(treasure.stat().st_mode)) == ("mine", 0o600)


def test_a_folder_that_is_a_link_or_missing_is_that_containers_trouble(guests):
    """The others are served; the link's target gets no socket."""
    (guests.folder / "aim").mkdir()
    (guests.folder / "link").symlink_to(guests.folder / "aim")
    troubles = guests.sockets.follow(["alice", "link", "gone"])
    assert sorted(troubles) == ["gone", "link"]
    assert inside(guests.folder / "aim") == []
    assert state(guests, "alice") == 200


def test_a_socket_that_was_removed_comes_back(guests):
    """By hand, or with a folder made anew."""
    guests.path("alice").unlink()
    guests.sockets.follow(["alice", "bob"])
    assert state(guests, "alice") == 200


def test_a_listener_that_broke_down_is_told_of_and_set_up_again(guests):
    """A fault of ours at a container's first call costs that container a turn, and the others nothing."""
    broken = {"alice"}

    def make(name):
        if name in broken:
            broken.discard(name)
            raise RuntimeError("not today")
        return guest_apps(guests.uses)(name)

    made = Sockets(make, lambda name: str(guests.folder / name))
    try:
        assert made.follow(["alice", "bob"]) == {}
        assert state(guests, "alice") == 0
        assert state(guests, "bob") == 200
        assert made.follow(["alice", "bob"]) == {"alice": "nobody listened any more: not today"}
        assert state(guests, "alice") == 200
        assert made.follow(["alice", "bob"]) == {}
    finally:
        made.close()


def test_a_path_of_any_length_will_do(guests):
    """A socket's address has 107 bytes; the folder's path may have more."""
    deep = guests.folder / ("d" * 120) / "alice"
    deep.mkdir(parents=True)
    made = Sockets(guest_apps(guests.uses), lambda _: str(deep))
    try:
        assert made.follow(["alice"]) == {}
        with ExitStack() as stack:
            place = os.open(deep, os.O_PATH)
            stack.callback(os.close, place)
            assert ask(f"/proc/self/fd/{place}/api.sock", "GET", "/v1/status")[0] == 200
    finally:
        made.close()


def test_closing_leaves_nothing(guests):
    """No socket, no thread; and it may be opened again."""
    guests.sockets.close()
    assert not guests.path("alice").exists()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("guest")]
    assert guests.sockets.follow(["alice"]) == {}
    assert state(guests, "alice") == 200


@pytest.mark.parametrize("length", [BODY_BYTES + 1, 10**9])
def test_a_large_body_is_refused_and_not_read_to_its_end(guests, length):
    """Whether it is announced or just comes."""
    with dial(guests.path("alice")) as link:
        with suppress(BrokenPipeError, ConnectionResetError):
            link.sendall(request("POST", "/v1/keep", b"x" * (BODY_BYTES + 1), length=length))
        status, told = answer(link)
    assert (status, told["error"]["code"]) == (413, "usage")
    assert "64 KiB" in told["error"]["why"][0]
    assert told["error"]["fix"]
    assert guests.uses.asked == []


def test_a_request_with_two_lengths_is_refused(guests):
    """What one reads as its body another reads as the next request."""
    head = "POST /v1/keep HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"
    with dial(guests.path("alice")) as link:
        link.sendall(f"{head}0\r\n\r\n".encode())
        status, told = answer(link)
    assert (status, told["error"]["code"]) == (400, "usage")
    assert "Transfer-Encoding" in told["error"]["what"]
    assert told["error"]["why"]
    assert "Content-Length" in told["error"]["fix"]
    assert guests.uses.asked == []


def test_endless_headers_are_cut_off(guests):
    """A head has an end."""
    with dial(guests.path("alice")) as link:
        with suppress(BrokenPipeError, ConnectionResetError):
            link.sendall(b"GET /v1/status HTTP/1.1\r\n" + b"X: " + b"y" * 200_000)
        link.settimeout(5)
        told = b""
        with suppress(ConnectionResetError):
            told = link.recv(100)
    assert told[:12] in (b"", b"HTTP/1.1 400")
    assert state(guests, "alice") == 200


@pytest.mark.parametrize(
    "piece",
    [b"", b"GET /v1/status HTT", request("POST", "/v1/keep", b"{", length=500)],
    ids=["silent", "half a head", "half a body"],
)
def test_who_dawdles_is_cut_off(guests, piece):
    """A caller that says nothing, or stops in the middle, is rid of after the time for reading."""
    with dial(guests.path("alice")) as link:
        link.sendall(piece)
        begun = time.monotonic()
        status, told = answer(link)
        assert status == (408 if b"\r\n\r\n" in piece else 0)
        assert not status or (told["error"]["why"] and told["error"]["fix"])
        assert 0.5 < time.monotonic() - begun < 3


def test_dripping_does_not_stretch_the_time(guests):
    """A byte now and then keeps no connection open."""
    with dial(guests.path("alice")) as link:
        begun = time.monotonic()
        with suppress(BrokenPipeError, ConnectionResetError):
            while time.monotonic() - begun < 5:
                link.sendall(b"G")
                time.sleep(0.05)
        assert time.monotonic() - begun < 3


def test_a_hundred_callers_of_one_container_leave_the_others_alone(guests):
    """Bob is answered at once while alice's socket is full; she herself is served when her silent callers are cut."""
    with ExitStack() as stack:
        opened = []
        with suppress(BlockingIOError):
            while len(opened) < 100:
                opened.append(stack.enter_context(dial(guests.path("alice"))))
        assert CONNECTIONS < len(opened) < 100
        begun = time.monotonic()
        assert state(guests, "bob") == 200
        assert time.monotonic() - begun < 0.5
        assert until(lambda: patient(guests, "alice") == 200)


def test_one_question_of_a_container_is_worked_on_at_a_time(guests):
    """However many it asks, it has one thread; the others' questions are answered meanwhile."""
    guests.uses.hold.clear()
    with ThreadPoolExecutor(8) as pool:
        many = [pool.submit(state, guests, "alice") for _ in range(6)]
        while not guests.uses.inside.get("alice"):
            time.sleep(0.01)
        assert ask(guests.path("bob"), "GET", "/v1/why")[0] == 200
        guests.uses.hold.set()
        assert [one.result() for one in many] == [200] * 6
    assert guests.uses.most == {"alice": 1}


def test_changes_beyond_a_handful_wait(guests):
    """Who asks again and again waits longer each time, and holds up nobody's reading."""
    body = {"seconds": 60}
    with ThreadPoolExecutor(1) as pool:
        for _ in range(10):
            assert ask(guests.path("alice"), "POST", "/v1/extend", body)[0] == 200
        late = pool.submit(ask, guests.path("alice"), "POST", "/v1/extend", body)
        assert state(guests, "alice") == 200
        assert late.result()[0] == 0, "the connection's life (4 s here) ends before its turn comes"
    assert len(guests.uses.asked) == 11


def tasks(guests):
    """How many tasks the sockets' loop has."""

    async def number():
        return len(asyncio.all_tasks())

    return asyncio.run_coroutine_threadsafe(number(), guests.sockets._loop).result()  # noqa: SLF001 -- its memory


def test_who_asks_and_goes_away_leaves_nothing_behind(guests):
    """Hundreds of callers with padded changes, each gone before the answer: no task stays, and their changes do not."""
    before, padded = tasks(guests), b'{"seconds": 60' + b" " * 60_000 + b"}"
    for _ in range(AT_ONCE):
        assert ask(guests.path("alice"), "POST", "/v1/extend", {"seconds": 60})[0] == 200
    most, ends = 0, time.monotonic() + 3
    while time.monotonic() < ends:
        with suppress(OSError), dial(guests.path("alice")) as link:
            link.sendall(request("POST", "/v1/extend", padded))
            time.sleep(0.01)
        most = max(most, tasks(guests))
    assert most <= before + CONNECTIONS + 1
    assert until(lambda: tasks(guests) <= before + 1)
    assert len(guests.uses.asked) == AT_ONCE
    assert until(lambda: patient(guests, "alice") == 200)


def test_who_goes_away_while_it_is_worked_on_gets_no_second_thread(guests):
    """The thread cannot be stopped, so the container's next question waits for its end; others are answered."""
    guests.uses.hold.clear()
    with dial(guests.path("alice")) as link:
        link.sendall(request("GET", "/v1/status"))
        assert until(lambda: guests.uses.inside.get("alice"))
    with ThreadPoolExecutor(1) as pool:
        later = pool.submit(state, guests, "alice")
        assert ask(guests.path("bob"), "GET", "/v1/why")[0] == 200
        guests.uses.hold.set()
        assert later.result() == 200
    assert guests.uses.most == {"alice": 1}


def test_beyond_a_few_waiting_changes_the_next_is_refused(guests):
    """With a next step; looking goes on."""
    body = {"seconds": 60}
    for _ in range(AT_ONCE):
        assert ask(guests.path("alice"), "POST", "/v1/extend", body)[0] == 200
    with ThreadPoolExecutor(WAITING) as pool:
        waiting = [pool.submit(ask, guests.path("alice"), "POST", "/v1/extend", body) for _ in range(WAITING)]
        assert until(lambda: len(guests.sockets._doors["alice"].inside) == WAITING)  # noqa: SLF001 -- all are in
        status, told = ask(guests.path("alice"), "POST", "/v1/extend", body)
        assert (status, told["error"]["code"], told["error"]["fix"]) == (429, "too_often", "try again in a minute")
        assert state(guests, "alice") == 200
        assert [one.result()[0] for one in waiting] == [0] * WAITING, "their connections end before their turn comes"


def test_who_asks_without_end_takes_a_quarter_of_a_processor(guests, monkeypatch):
    """Dear questions in a row: between two there is a rest, and others have none of it."""
    took_s, spans = 0.05, []

    def dear(_name):
        begun = time.monotonic()
        time.sleep(took_s)
        spans.append((begun, time.monotonic()))
        return GuestReasons((), ())

    monkeypatch.setattr(guests.uses, "why", dear)
    with ThreadPoolExecutor(4) as pool:
        for one in [pool.submit(ask, guests.path("alice"), "GET", "/v1/why") for _ in range(6)]:
            assert one.result()[0] == 200
        begun = time.monotonic()
        assert state(guests, "bob") == 200
        assert time.monotonic() - begun < 0.5
    rests = [later[0] - sooner[1] for sooner, later in pairwise(spans)]
    assert min(rests) >= 2 * took_s


def test_who_does_not_read_the_answer_holds_nothing(guests):
    """An answer waits in the kernel; the thread that made it is free for the next."""
    with ExitStack() as stack:
        for _ in range(5):
            link = stack.enter_context(dial(guests.path("alice")))
            link.sendall(request("GET", "/v1/status"))
        assert state(guests, "alice") == 200


def test_a_container_that_goes_cuts_off_its_callers(guests):
    """What they were about to ask is of no container any more."""
    with dial(guests.path("alice")) as link:
        link.sendall(b"POST /v1/rel")
        while not guests.sockets._doors["alice"].inside:  # noqa: SLF001 -- until it has been let in
            time.sleep(0.01)
        guests.sockets.follow(["bob"])
        assert answer(link)[0] == 0


def test_one_containers_trouble_is_the_daemons_news_and_no_reason_to_stop(tmp_path):
    """Alice's folder is missing: that is told at each turn, and bob, who comes later, is served at the next."""
    (tmp_path / "bob").mkdir()
    site, part = make_site(tmp_path), Doors(lambda: None, lambda name: str(tmp_path / name), lambda: str(tmp_path))
    newcomer(site, "alice")
    (told,) = part.guests(site)
    assert told.startswith("alice: its socket cannot be made")
    newcomer(site, "bob")
    assert part.guests(site) == (told,)
    try:
        assert ask(tmp_path / "bob" / "api.sock", "GET", "/v1/status")[0] == 200
    finally:
        part.close()
