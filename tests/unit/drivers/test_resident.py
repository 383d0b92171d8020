"""What holds the daemon to the machine, tried with real processes: the lock, the wake, signals, systemd's socket."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime

import pytest

from lxgpu.drivers.only_one import OnlyOne, runner
from lxgpu.drivers.stopping import Stop, StoppableClock, StoppedError
from lxgpu.drivers.systemd import ServiceManager
from lxgpu.drivers.wake import FILE, Wake, poke
from lxgpu.errors import LxgpuError

NOW = datetime(2027, 3, 1, 8, 0, tzinfo=UTC)
HOLD = (
    "import sys, pathlib, datetime; from lxgpu.drivers.only_one import OnlyOne;"
    "OnlyOne(pathlib.Path(sys.argv[1]), now=datetime.datetime.now(datetime.UTC)); print('held', flush=True);"
    "sys.stdin.read()"
)

POKE = "import sys, pathlib; from lxgpu.drivers.wake import poke; poke(pathlib.Path(sys.argv[1]))"


def python(program, *words):
    """A process of its own, once it has said its first line."""
    process = subprocess.Popen(
        [sys.executable, "-c", program, *map(str, words)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline()
    return process


def ended(process, *, kill=False):
    """How it ended: status, output, errors."""
    if kill:
        process.kill()
    out, err = process.communicate(timeout=30)
    return process.returncode, out, err


# ---- one daemon


def test_a_second_one_is_told_who_has_it(tmp_path):
    """Exit status 6, with the pid; and nobody is at work before and after."""
    assert runner(tmp_path) is None
    first = python(HOLD, tmp_path)
    found = runner(tmp_path)
    assert found is not None
    assert found.pid == first.pid
    with pytest.raises(LxgpuError) as caught:
        OnlyOne(tmp_path, now=NOW)
    assert (caught.value.code, int(caught.value.status)) == ("daemon_runs", 6)
    assert str(first.pid) in caught.value.why[0]
    ended(first)
    assert runner(tmp_path) is None


def test_killed_it_leaves_no_lock(tmp_path):
    """Kill -9: the kernel gives the lock back, and the next one has it at once."""
    first = python(HOLD, tmp_path)
    ended(first, kill=True)
    assert runner(tmp_path) is None
    held = OnlyOne(tmp_path, now=NOW)
    assert runner(tmp_path) == runner(tmp_path)
    found = runner(tmp_path)
    assert found is not None
    assert (found.pid, found.started_at) == (os.getpid(), NOW)
    held.close()


def test_whoever_looks_all_the_time_keeps_nobody_from_starting(tmp_path):
    """`daemon status` in a loop holds the lock for moments."""
    stop = threading.Event()

    def look():
        while not stop.is_set():
            runner(tmp_path)

    OnlyOne(tmp_path, now=NOW).close()
    lookers = [threading.Thread(target=look) for _ in range(3)]
    for looker in lookers:
        looker.start()
    try:
        for _ in range(20):
            OnlyOne(tmp_path, now=NOW).close()
    finally:
        stop.set()
        for looker in lookers:
            looker.join()


def test_only_root_may_look_at_the_lock(tmp_path):
    """A user who could lock the file could keep the daemon from starting."""
    held = OnlyOne(tmp_path, now=NOW)
    assert stat.S_IMODE((tmp_path / "daemon.lock").stat().st_mode) == 0o600
    held.close()


# ---- the wake


def test_a_poke_wakes_at_once_and_counts_once(tmp_path):
    """A hundred pokes are one; the next wait is a whole one again."""
    wake = Wake(tmp_path)
    for _ in range(100):
        assert poke(tmp_path)
    began = time.monotonic()
    assert wake.wait(30) is True
    assert time.monotonic() - began < 5
    assert wake.wait(0.05) is False
    wake.close()


def test_a_poke_from_another_process_ends_a_wait(tmp_path):
    """As `reserve` does it."""
    wake = Wake(tmp_path)
    timer = threading.Timer(
        0.2,
        subprocess.run,
        [
            [
                sys.executable,
                "-c",
                f"from pathlib import Path; from lxgpu.drivers.wake import poke; poke(Path({str(tmp_path)!r}))",
            ]
        ],
        {"check": True},
    )
    timer.start()
    assert wake.wait(30) is True
    timer.join()
    wake.close()


def test_nobody_to_wake_is_no_error(tmp_path):
    """No daemon, a killed one, a file of that name, a folder that is not there: False, at once."""
    assert poke(tmp_path) is False
    assert poke(tmp_path / "nowhere") is False
    wake = Wake(tmp_path)
    wake.close()
    assert stat.S_ISFIFO((tmp_path / FILE).stat().st_mode)
    assert poke(tmp_path) is False
    (tmp_path / FILE).unlink()
    (tmp_path / FILE).write_text("")
    assert poke(tmp_path) is False
    Wake(tmp_path).close()
    assert stat.S_ISFIFO((tmp_path / FILE).stat().st_mode), "what is in the way is replaced"


def test_more_pokes_than_the_pipe_holds_block_nobody(tmp_path):
    """A daemon that hangs does not make commands hang."""
    wake = Wake(tmp_path)
    for _ in range(70_000):
        wake.poke()
    assert poke(tmp_path)
    assert wake.wait(0) is True
    assert wake.wait(0) is False
    wake.close()


def test_a_path_longer_than_a_sockets_may_be(tmp_path):
    """Labs lie deep."""
    deep = tmp_path.joinpath(*["a-rather-long-name-of-a-folder"] * 5)
    deep.mkdir(parents=True)
    wake = Wake(deep)
    assert poke(deep)
    assert wake.wait(0) is True
    wake.close()


# ---- the end

LOOP = (
    "import sys, pathlib; from lxgpu.drivers.stopping import *; from lxgpu.drivers.wake import Wake\n"
    "from lxgpu.drivers import stopping\n"
    "stopping.PATIENCE_S, stopping.LONGEST_S = 0.5, 1.5\n"
    "stop = Stop(); wake = Wake(pathlib.Path(sys.argv[1]), also=stop.handle)\n"
    "clock = StoppableClock(stop, lambda: None)\n"
    "stop.on_signals(wake=wake.handle, reload=lambda: print('reload', flush=True))\n"
    "stop.end_in_time(lambda: print('last words', flush=True))\n"
    "print('ready', flush=True)\n"
)
WAITS = LOOP + "\nwhile not stop.asked: wake.wait(60)\nprint('done', flush=True)"
STEP = LOOP + "\ntry: clock.sleep(float(sys.argv[2])); print('whole')\nexcept StoppedError: print('cut short')"
HANGS = LOOP + "\nimport threading; threading.Event().wait(60)"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_wait_at_once_and_in_good_order(tmp_path, number):
    """Exit status 0."""
    process = python(WAITS, tmp_path)
    began = time.monotonic()
    process.send_signal(number)
    assert ended(process) == (0, "done\n", "")
    assert time.monotonic() - began < 5


@pytest.mark.parametrize(("seconds", "told"), [(0.4, "whole\n"), (60, "cut short\n")])
def test_the_step_in_hand_may_end_but_not_wait_for_ever(tmp_path, seconds, told):
    """A short wait is waited out, a long one is left where it stands."""
    process = python(STEP, tmp_path, seconds)
    process.send_signal(signal.SIGTERM)
    assert ended(process) == (0, told, "")


def test_a_step_that_hears_nothing_is_ended_in_time(tmp_path):
    """Ten seconds are promised; what is not done stands in the journal, so the end is a clean one."""
    process = python(HANGS, tmp_path)
    process.send_signal(signal.SIGTERM)
    assert ended(process) == (0, "last words\n", "")


def test_a_second_signal_ends_at_once(tmp_path):
    """Whoever presses Ctrl-C twice means it."""
    process = python(HANGS.replace("1.5", "50"), tmp_path)
    process.send_signal(signal.SIGINT)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    assert ended(process)[0] == -signal.SIGINT


def test_a_signal_that_reaches_another_thread_ends_the_wait_too(tmp_path):
    """The kernel may choose any thread; the main one, which runs the handler, is woken all the same."""
    aside = "threading.Timer(0.3, lambda: signal.pthread_kill(threading.get_ident(), signal.SIGTERM)).start()\n"
    process = python(f"import threading, signal\n{LOOP}{aside}{WAITS.removeprefix(LOOP)}", tmp_path)
    began = time.monotonic()
    assert ended(process) == (0, "done\n", "")
    assert time.monotonic() - began < 5


def test_sighup_reloads_and_ends_nothing(tmp_path):
    """Systemctl reload."""
    process = python(WAITS, tmp_path)
    process.send_signal(signal.SIGHUP)
    assert process.stdout is not None
    assert process.stdout.readline() == "reload\n"
    process.send_signal(signal.SIGTERM)
    assert ended(process) == (0, "done\n", "")


def test_a_wait_is_a_sign_of_life_and_whole_while_nobody_asks(monkeypatch):
    """Steps that wait for minutes do not look like a hang to systemd; other threads may ask for the end."""
    signs, stop = [], Stop()
    clock = StoppableClock(stop, lambda: signs.append(1))
    began = time.monotonic()
    clock.sleep(0.05)
    assert time.monotonic() - began >= 0.05
    assert signs == [1]
    monkeypatch.setattr("lxgpu.drivers.stopping.PATIENCE_S", 0.1)
    threading.Timer(0.1, stop.ask).start()
    with pytest.raises(StoppedError):
        clock.sleep(60)
    assert not issubclass(StoppedError, Exception)


# ---- systemd


@pytest.fixture
def heard(tmp_path):
    """A socket like systemd's, and how to hear the next message on it."""
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        server.bind(path)
        server.settimeout(5)
        yield path, lambda: server.recv(4096).decode().split("\n")


def test_systemd_hears_what_it_is_told(heard):
    """One datagram a message, a line a fact; line breaks in a status make no new facts."""
    path, hear = heard
    environ = {"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid()), "HOME": "/"}
    manager = ServiceManager(environ)
    assert environ == {"HOME": "/"}, "no child speaks for the service"
    assert (manager.there, manager.watchdog_s) == (True, 30.0)
    manager.tell("READY=1", "STATUS=one\nMAINPID=1")
    assert hear() == ["READY=1", "STATUS=one MAINPID=1"]


def test_an_abstract_socket_is_found():
    """Systemd may use one."""
    name = f"lxgpu-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        server.bind(f"\0{name}")
        server.settimeout(5)
        ServiceManager({"NOTIFY_SOCKET": f"@{name}"}).tell("WATCHDOG=1")
        assert server.recv(100) == b"WATCHDOG=1"


def test_without_systemd_and_with_a_dead_one_nothing_happens(tmp_path):
    """A service manager that does not listen stops nobody."""
    assert not ServiceManager({}).there
    ServiceManager({}).tell("READY=1")
    ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "gone")}).tell("READY=1")
    assert ServiceManager({"WATCHDOG_USEC": "1000000", "WATCHDOG_PID": "1"}).watchdog_s is None
