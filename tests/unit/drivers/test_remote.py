"""A probe far away: what is asked is answered in time or unavailable, and never anything else."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
from contextlib import suppress
from itertools import count, pairwise

import pytest
from fakes.probe import FakeProbe
from fakes.system import FakeClock
from far_probe import FarHost, Line
from probe_worlds import CARD, FakeWorld

from lxgpu.drivers.child import Child
from lxgpu.drivers.probe import LocalProbe
from lxgpu.drivers.probe_serve import ProbeServer, now
from lxgpu.drivers.remote import RemoteProbe
from lxgpu.drivers.wire import PROTOCOL, line_of
from lxgpu.errors import LxgpuError

HELLO = {"hello": PROTOCOL, "version": "1", "host": "gpu2", "clock": 0.0}
SOON_S = 0.05


class Script:
    """A peer that says what it is told to and reads nothing."""

    def __init__(self, lines):
        self.lines = lines
        self.connected = 0
        self.ends = []

    def connect(self):
        """A new connection, on which all of it is said at once."""
        self.connected += 1
        ours, theirs = socket.socketpair()
        self.ends += [ours, theirs]
        for line in self.lines:
            theirs.sendall(line if isinstance(line, bytes) else line_of(line))
        return Line(ours)


@pytest.fixture
def script():
    """Makes peers that say what they are told to."""
    made = []

    def script(*lines):
        made.append(Script(lines))
        return made[-1]

    yield script
    for end in (end for one in made for end in one.ends):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()


@pytest.fixture
def host():
    """A far host that answers."""
    made = FarHost(FakeWorld().probe)
    yield made
    made.close()


def unavailable(ask):
    """The error of a question that has no answer."""
    with pytest.raises(LxgpuError) as raised:
        ask()
    assert raised.value.code == "unavailable"
    return raised.value


def why(ask):
    """Its reasons as one text."""
    return "; ".join(unavailable(ask).why)


def test_one_connection_serves_all_questions(host):
    """It is opened at the first, stays, and takes along what is remembered of the cards."""
    probe = RemoteProbe("gpu2", host.connect, known=lambda: {CARD.pci: CARD.uuid})
    assert host.connected == 0
    assert {probe.boot_id() for _ in range(5)} == {"boot-1"}
    assert (host.connected, host.known) == (1, {CARD.pci: CARD.uuid})


def test_many_ask_at_once(host):
    """Each hears the answer to its own question."""
    probe, wrong = RemoteProbe("gpu2", host.connect), []

    def ask(number):
        for _ in range(20):
            found = probe.read_file(41, "/none", most=number), probe.tell(41, "x"), probe.logins(42)
            wrong.extend([found] if found != (None, (0, 0), 0) else [])

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong
    assert host.connected == 1


def test_a_broken_connection_is_made_again(host):
    """Who asks meanwhile hears that the host is not to be had; the next ones are answered."""
    times = count(0, 100)
    probe = RemoteProbe("gpu2", host.connect, monotonic=lambda: next(times))
    assert probe.boot_id()
    host.cut()
    for _ in range(3):
        try:
            assert probe.boot_id() == "boot-1"
        except LxgpuError as error:
            assert error.code == "unavailable"  # noqa: PT017 -- either is right, until the end is noticed
    assert probe.boot_id() == "boot-1"
    assert host.connected == 2


def test_what_is_said_before_the_hello_does_no_harm(script):
    """A login's greeting is skipped, a hello after it counts."""
    peer = script(b"Welcome to gpu2\n", b'{"motd": 1}\n', HELLO, {"id": 1, "is": "boot-7"})
    assert RemoteProbe("gpu2", peer.connect).boot_id() == "boot-7"


def test_who_is_no_probe_is_told_with_its_words(script):
    """The shell's own message is the reason."""
    peer = script(b"sh: 1: lxgpu: not found\n")
    assert "lxgpu: not found" in why(RemoteProbe("gpu2", peer.connect, hello_s=SOON_S).boot_id)


def test_another_version_is_refused_with_the_remedy(script):
    """It may mean something else by the same words."""
    peer = script(HELLO | {"hello": "lxgpu.probe/9", "version": "9.9"})
    error = unavailable(RemoteProbe("gpu2", peer.connect).boot_id)
    assert "lxgpu 9.9" in error.why[0]
    assert "same version" in error.fix


@pytest.mark.parametrize(
    "lines",
    [
        (),
        (HELLO,),
        (HELLO, {"id": 99, "is": "boot-of-another"}),
        (HELLO, b'{"id": 1, "is": "boot'),
        (HELLO, b"\x00\xff\n"),
    ],
    ids=["silent", "no answer", "another question's", "half a line", "noise"],
)
def test_who_does_not_answer_is_unavailable(script, lines):
    """In time, and the connection is not believed any more."""
    peer, times = script(*lines), count(0, 100)
    probe = RemoteProbe("gpu2", peer.connect, answer_s=SOON_S, hello_s=SOON_S, monotonic=lambda: next(times))
    for _ in range(2):
        unavailable(probe.boot_id)
    assert peer.connected == 2


@pytest.mark.parametrize("answer", [{"is": 7}, {"is": None}, {}, {"error": {}}])
def test_an_answer_of_another_form_is_none(script, answer):
    """What is not understood is unknown."""
    unavailable(RemoteProbe("gpu2", script(HELLO, {"id": 1, **answer}).connect).boot_id)


def test_a_card_of_a_silent_host_is_never_free(script):
    """Readings tell why there are none, holders are not told at all."""
    probe = RemoteProbe("gpu2", script(HELLO).connect, answer_s=SOON_S)
    found = probe.readings()
    assert (found.items, "gpu2" in found.error) == ((), True)
    unavailable(lambda: probe.holders(None, [CARD]))


def test_a_host_that_is_away_is_left_in_peace():
    """It is tried after 1, 2, 4 … 60 seconds; in between the answer is there at once, with the cause."""
    tries, clock = [], FakeClock()

    def connect():
        tries.append(clock.monotonic())
        raise LxgpuError("unavailable", "SSH failed", why="no route to host")

    probe = RemoteProbe("gpu2", connect, monotonic=clock.monotonic)
    assert why(probe.boot_id) == "no route to host"
    for _ in range(400):
        assert "no route to host" in why(probe.boot_id)
        clock.sleep(0.5)
    waits = [round(b - a, 1) for a, b in pairwise(tries)]
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60]


def test_an_answer_ends_the_rest(host):
    """After it the next failure is the first one again."""
    clock, cut = FakeClock(), []

    def connect():
        if cut:
            raise LxgpuError("unavailable", "SSH failed", why="no route to host")
        return host.connect()

    probe = RemoteProbe("gpu2", connect, monotonic=clock.monotonic)
    for _ in range(2):
        assert probe.boot_id() == "boot-1"
        cut.append(True)
        probe.close()
        assert why(probe.boot_id) == "no route to host"
        assert "in 1 s" in why(probe.boot_id)
        clock.sleep(1)
        cut.clear()


class Slow(FakeProbe):
    """Its first question takes until a test lets it go."""

    def __init__(self):
        super().__init__(FakeClock(), lambda: (CARD,), FakeWorld().inside.get)
        self.begun, self.go = threading.Event(), threading.Event()

    def limits(self, init):
        """Slowly."""
        self.begun.set()
        self.go.wait(30)
        return super().limits(init)


def test_a_slow_question_holds_up_no_other():
    """They are answered side by side."""
    slow = Slow()
    host = FarHost(slow)
    probe = RemoteProbe("gpu2", host.connect)
    asking = threading.Thread(target=probe.limits, args=(41,))
    asking.start()
    assert slow.begun.wait(30)
    assert probe.boot_id() == "boot-1"
    slow.go.set()
    asking.join(30)
    host.close()


def test_what_comes_too_late_is_not_begun():
    """A rule that was given up and asked for anew must not be set by the first question after the second."""
    world = FakeWorld()
    ours, theirs = socket.socketpair()
    server = ProbeServer(theirs.fileno(), theirs.fileno(), lambda _known: world.probe)
    thread = threading.Thread(target=server.serve)
    thread.start()
    answers = ours.makefile("rb")
    assert json.loads(answers.readline())["hello"] == PROTOCOL
    ours.sendall(line_of({"known": {}}))
    process = {"pid": world.hold().pid, "start_time": 0}
    for before, code in ((now() - 1, "unavailable"), (now() + 60, None)):
        ours.sendall(line_of({"id": 1, "do": "signal", "with": {"process": process, "number": 9}, "before": before}))
        assert json.loads(answers.readline()).get("error", {}).get("code") == code
    ours.sendall(line_of({"id": 2, "do": "__init__", "with": {}, "before": now() + 60}))
    assert "error" in json.loads(answers.readline())
    answers.close()
    ours.close()
    thread.join(30)
    assert not thread.is_alive()
    theirs.close()


def child():
    """The command itself."""
    return Child([sys.executable, "-m", "lxgpu", "probe"], {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})


def test_the_command_serves_this_host():
    """What it says of this host is what this host says; it ends with its input."""
    made = []

    def connect():
        made.append(child())
        return made[-1]

    probe = RemoteProbe("here", connect)
    assert probe.boot_id() == LocalProbe().boot_id()
    assert isinstance(probe.listening_ports(), frozenset)
    probe.close()
    assert made[0].process.wait(30) == 0


def test_a_stopped_host_holds_nobody_up():
    """SIGSTOP: what is asked is unavailable in time, and the host is asked anew when it goes on."""
    made, times = [], count(0, 100)

    def connect():
        made.append(child())
        return made[-1]

    probe = RemoteProbe("here", connect, answer_s=3.0, monotonic=lambda: next(times))
    boot = probe.boot_id()
    os.kill(made[0].process.pid, signal.SIGSTOP)
    unavailable(probe.boot_id)
    os.kill(made[0].process.pid, signal.SIGCONT)
    assert made[0].process.wait(30) == 0
    assert probe.boot_id() == boot
    probe.close()
    assert made[1].process.wait(30) == 0


def test_a_killed_probe_is_noticed():
    """KILL at the other end: unavailable at once, then a new one."""
    made, times = [], count(0, 100)

    def connect():
        made.append(child())
        return made[-1]

    probe = RemoteProbe("here", connect, monotonic=lambda: next(times))
    boot = probe.boot_id()
    made[0].process.kill()
    made[0].process.wait(30)
    found = set()
    for _ in range(3):
        try:
            found.add(probe.boot_id())
        except LxgpuError as error:
            assert error.code == "unavailable"  # noqa: PT017 -- either is right, until the end is noticed
    assert found == {boot}
    probe.close()
    assert made[-1].process.wait(30) == 0


def test_a_program_that_is_not_there_is_told():
    """As what is missing."""
    assert "No such file" in why(RemoteProbe("gpu2", lambda: Child(["/nonexistent/lxgpu"])).boot_id)
