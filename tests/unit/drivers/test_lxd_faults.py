"""What the engine driver makes of a server that answers late, wrongly, twice or not at all."""

from __future__ import annotations

import json
import os
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from importlib import import_module
from pathlib import Path

import pytest
from plain_instance import wait_for

from lxgpu.drivers.engine import LxdEngine
from lxgpu.errors import LxgpuError
from lxgpu.ports import Change

INSTANCE = {
    "name": "a",
    "status": "Stopped",
    "config": {"user.a": "1"},
    "devices": {},
    "profiles": [],
    "ephemeral": False,
}
RUNNING = {"type": "sync", "metadata": {"status_code": 103, "status": "Running"}}
DONE = {"type": "sync", "metadata": {"status_code": 200, "status": "Success"}}
ASYNC = {"type": "async", "operation": "/1.0/operations/op1"}
Reply = tuple[int, dict[str, object]] | str


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """A unix socket that answers by a script: a reply for each request, the last one again and again."""

    daemon_threads = True

    def __init__(self, path: Path) -> None:
        self.script: dict[tuple[str, str], list[Reply]] = {}
        self.seen: list[tuple[str, str]] = []
        self.bodies: list[dict[str, object]] = []
        self.tags: list[str | None] = []
        super().__init__(str(path), Handler)
        self.say("GET", "/1.0", (200, {"type": "sync", "metadata": {"api_extensions": [], "auth": "trusted"}}))

    def say(self, method: str, path: str, *replies: Reply) -> None:
        """Sets the replies to one method and path."""
        self.script[method, path] = list(replies)

    def count(self, method: str, path: str) -> int:
        """How often that was asked."""
        return self.seen.count((method, path))


class Handler(BaseHTTPRequestHandler):
    """Looks the reply up; `close` hangs up, `hang` is silent."""

    protocol_version = "HTTP/1.1"
    server: Server

    def handle_one_request(self) -> None:
        """One request, however it is called."""
        self.raw_requestline = self.rfile.readline()
        if not self.raw_requestline or not self.parse_request():
            self.close_connection = True
            return
        path = self.path.partition("?")[0]
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.seen.append((self.command, path))
        if body:
            self.server.bodies.append(json.loads(body))
            self.server.tags.append(self.headers.get("If-Match"))
        replies = self.server.script.get((self.command, path), [(404, {"error": "Not Found"})])
        reply = replies.pop(0) if len(replies) > 1 else replies[0]
        if isinstance(reply, str):
            time.sleep(0.6 if reply == "hang" else 0)
            self.close_connection = True
            return
        status, content = reply
        text = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.send_header("ETag", '"tag"')
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A scripted server with one instance `a`."""
    with Server(tmp_path / "unix.socket") as found:
        thread = threading.Thread(target=found.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        found.say("GET", "/1.0/instances/a", (200, {"type": "sync", "metadata": INSTANCE}))
        found.say("GET", "/1.0/operations/op1/wait", (200, DONE))
        yield found
        found.shutdown()
        thread.join()


@pytest.fixture
def engine(server: Server) -> LxdEngine:
    """A driver with a short deadline, in which importing pylxd has no place."""
    import_module("pylxd.client")
    return LxdEngine(str(server.server_address), timeout_s=0.4)


def code_of(call: Callable[[], object]) -> str:
    """The code of the error that it must raise."""
    with pytest.raises(LxgpuError) as caught:
        call()
    return caught.value.code


def change(engine: LxdEngine) -> None:
    """Any write."""
    engine.update("a", Change(config={"user.b": "2"}), etag='"tag"')


def test_a_write_is_one_whole_put_under_the_etag(server, engine):
    """What was read goes back with the change over it, guarded, and nothing else is sent."""
    server.say("PUT", "/1.0/instances/a", (202, ASYNC))
    change(engine)
    assert server.bodies == [
        {"config": {"user.a": "1", "user.b": "2"}, "devices": {}, "profiles": [], "ephemeral": False},
    ]
    assert server.tags == ['"tag"']


@pytest.mark.parametrize("silence", ["close", "hang"])
def test_a_write_without_an_answer_is_unknown(server, engine, silence):
    """It was sent, so nobody can say that it was not done; it is not sent again."""
    server.say("PUT", "/1.0/instances/a", silence)
    assert code_of(lambda: change(engine)) == "outcome_unknown"
    assert server.count("PUT", "/1.0/instances/a") == 1


@pytest.mark.parametrize("silence", ["close", "hang"])
def test_a_question_without_an_answer_is_unavailable(server, engine, silence):
    """Nothing was asked to be changed."""
    server.say("GET", "/1.0/instances/a", silence)
    assert code_of(lambda: engine.instance("a")) == "unavailable"


@pytest.mark.parametrize(
    "silence", ["close", "hang", (500, {"error": "database is locked"}), (503, {"error": "stopping"})]
)
def test_a_write_whose_end_cannot_be_learnt_is_unknown(server, engine, silence):
    """The operation was begun; that asking after it failed says nothing of it."""
    server.say("PUT", "/1.0/instances/a", (202, ASYNC))
    server.say("GET", "/1.0/operations/op1/wait", silence)
    assert code_of(lambda: change(engine)) == "outcome_unknown"


def test_an_operation_that_goes_on_is_unknown_at_the_deadline(server, engine):
    """The wait ends in time though the operation does not."""
    server.say("PUT", "/1.0/instances/a", (202, ASYNC))
    server.say("GET", "/1.0/operations/op1/wait", (200, RUNNING))
    begun = time.monotonic()
    assert code_of(lambda: change(engine)) == "outcome_unknown"
    assert 0.35 < time.monotonic() - begun < 10


def test_an_error_in_place_of_an_operation_is_looked_into(server, engine):
    """Incus answers the wait for a failed operation with its error alone: its state and its words are fetched."""
    server.say("PUT", "/1.0/instances/a", (202, ASYNC))
    server.say("GET", "/1.0/operations/op1/wait", (200, {"type": "error", "error": "some words", "error_code": 500}))
    server.say(
        "GET", "/1.0/operations/op1", (200, {"type": "sync", "metadata": {"status_code": 400, "err": "the words"}})
    )
    with pytest.raises(LxgpuError) as caught:
        change(engine)
    assert (caught.value.code, caught.value.why) == ("engine", ("the words",))
    server.say("GET", "/1.0/operations/op1", (200, DONE))
    change(engine)


def test_an_operation_that_is_forgotten_has_ended(server, engine):
    """LXD forgets operations seconds after their end: that is no error, and the caller reads back."""
    server.say("PUT", "/1.0/instances/a", (202, ASYNC))
    server.say("GET", "/1.0/operations/op1/wait", (404, {"error": "Operation not found"}))
    change(engine)


def test_a_busy_instance_is_tried_again(server, engine):
    """LXD began nothing, so the write may be repeated, whole, from the reading on."""
    busy = {"type": "error", "error": 'Instance is busy running a "stop" operation'}
    failed = {
        "type": "sync",
        "metadata": {"status_code": 400, "err": "A matching non-reusable operation has now succeeded"},
    }
    server.say("PUT", "/1.0/instances/a", (400, busy), (202, ASYNC))
    server.say("GET", "/1.0/operations/op1/wait", (200, failed), (200, DONE))
    change(engine)
    assert server.count("PUT", "/1.0/instances/a") == 3
    assert server.count("GET", "/1.0/instances/a") == 3


def test_an_instance_that_stays_busy_is_a_conflict_at_the_deadline(server, engine):
    """Repeating has an end."""
    server.say(
        "PUT", "/1.0/instances/a", (400, {"type": "error", "error": 'Instance is busy running a "stop" operation'})
    )
    begun = time.monotonic()
    assert code_of(lambda: change(engine)) == "conflict"
    assert time.monotonic() - begun < 10


def test_any_other_refusal_is_not_repeated(server, engine):
    """An error that says nothing of the outcome must not be answered with a second write."""
    server.say("PUT", "/1.0/instances/a", (500, {"type": "error", "error": "disk quota exceeded"}))
    assert code_of(lambda: change(engine)) == "engine"
    assert server.count("PUT", "/1.0/instances/a") == 1


def test_a_stale_write_is_repeated_only_when_no_etag_was_given(server, engine):
    """With an ETag the caller has to look again; without, the driver does."""
    server.say("PUT", "/1.0/instances/a", (412, {"type": "error", "error": "ETag doesn't match"}), (202, ASYNC))
    assert code_of(lambda: change(engine)) == "conflict"
    server.say("PUT", "/1.0/instances/a", (412, {"type": "error", "error": "ETag doesn't match"}), (202, ASYNC))
    engine.update("a", Change(config={"user.b": "2"}), etag=None)


def test_another_etag_is_seen_before_anything_is_sent(server, engine):
    """The reading already tells that somebody else was there."""
    assert code_of(lambda: engine.update("a", Change(), etag='"older"')) == "conflict"
    assert server.count("PUT", "/1.0/instances/a") == 0


def test_a_daemon_that_went_away_is_unavailable(server, engine, tmp_path):
    """A session that worked before tells "nobody listens" and not "unknown"."""
    server.say("PUT", "/1.0/instances/a", (202, ASYNC))
    change(engine)
    server.shutdown()
    server.server_close()
    assert code_of(lambda: engine.instance("a")) == "unavailable"
    assert code_of(lambda: change(engine)) == "unavailable"
    (tmp_path / "unix.socket").unlink()
    assert code_of(lambda: engine.start("a")) == "unavailable"


def test_half_an_answer_is_no_answer(tmp_path):
    """A list that was cut must not look like a host with fewer instances."""
    path = tmp_path / "cut.socket"

    class Cut(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.rfile.readline()
            self.wfile.write(b'HTTP/1.0 200 OK\r\nContent-Length: 1000\r\n\r\n{"metadata": []}')

    with socketserver.UnixStreamServer(str(path), Cut) as half:
        thread = threading.Thread(target=half.handle_request)
        thread.start()
        assert code_of(lambda: LxdEngine(str(path), timeout_s=1).instances()) == "unavailable"
        thread.join()


def test_a_list_is_one_request_and_loads_no_library(server, engine):
    """`ls` costs one request, whatever the number of instances."""
    server.say("GET", "/1.0/instances", (200, {"type": "sync", "metadata": [INSTANCE, INSTANCE | {"name": "b"}]}))
    assert [seen.name for seen in engine.instances(with_state=False)] == ["a", "b"]
    assert engine.requests == len(server.seen) == 1


def test_what_was_just_read_is_written_back_without_reading_again(server, engine):
    """The ETag of the last reading guards the PUT, which LXD itself refuses if anything has changed since."""
    server.say("PUT", "/1.0/instances/a", (202, ASYNC))
    seen = engine.instance("a", with_state=False)
    engine.update("a", Change(config={"user.b": "2"}), etag=seen.etag)
    assert server.count("GET", "/1.0/instances/a") == 1
    assert (server.tags, server.bodies[0]["config"]) == (['"tag"'], {"user.a": "1", "user.b": "2"})
    engine.update("a", Change(config={"user.b": "3"}), etag=seen.etag)
    assert server.count("GET", "/1.0/instances/a") == 2


def test_another_tag_than_that_of_the_last_reading_reads_again(server, engine):
    """What was read is only a basis for a write under its own ETag."""
    server.say("PUT", "/1.0/instances/a", (202, ASYNC))
    engine.instance("a", with_state=False)
    assert code_of(lambda: engine.update("a", Change(config={"user.b": "2"}), etag='"older"')) == "conflict"
    assert server.count("GET", "/1.0/instances/a") == 2
    assert not server.bodies


def test_a_glimpse_asks_for_the_state_once(server, engine):
    """A running container's init is looked up, and then known for as long as it lives."""
    config = {"volatile.uuid": "u"}
    state = {"state": {"pid": os.getpid(), "network": {}, "disk": {}}}
    server.say(
        "GET", "/1.0/instances/a", (200, {"metadata": INSTANCE | {"status": "Running", "config": config} | state})
    )
    assert [engine.glimpse("a").init_pid for _ in range(3)] == [os.getpid()] * 3
    assert server.count("GET", "/1.0/instances/a") == 2 + 1 + 1
    server.say("GET", "/1.0/instances/a", (404, {"error": "not found"}))
    assert engine.glimpse("a") is None


def test_a_hasty_engine_asks_a_silent_server_once(server):
    """A look of many questions at an LXD that hangs takes one deadline; after as long again it is asked anew."""
    server.say("GET", "/1.0/instances/a", "hang")
    engine = LxdEngine(str(server.server_address), timeout_s=0.2, hasty=True)
    for _ in range(5):
        assert code_of(lambda: engine.instance("a")) == "unavailable"
    assert server.count("GET", "/1.0/instances/a") == 1
    server.say("GET", "/1.0/instances/a", (200, {"type": "sync", "metadata": INSTANCE}))
    assert wait_for(lambda: code_or_none(engine) is None)


def code_or_none(engine: LxdEngine) -> str | None:
    """The code of the error of a look, if it ends in one."""
    try:
        engine.instance("a")
    except LxgpuError as error:
        return error.code
    return None


def test_a_proxy_in_the_environment_is_ignored(server, engine, monkeypatch):
    """HTTP_PROXY is for the network; it once broke unix sockets (pylxd#525)."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    server.say("PUT", "/1.0/instances/a", (202, ASYNC))
    change(engine)


def test_nothing_happens_before_the_first_call():
    """Making an engine does no I/O, so that settings and tests may make one anywhere."""
    assert LxdEngine("/no/such/socket").requests == 0
