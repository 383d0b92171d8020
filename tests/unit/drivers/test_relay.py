"""Bytes, signals and the end of a program pass through the relay as if there were none."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = """
import os, signal, subprocess, sys
from lxgpu.drivers.relay import PipeRelay
from lxgpu.ports import Call
from lxgpu.services.runprogram import _KILL, _START, TIME_OVER

pipes, folder, limit_s, *words = sys.argv[1:]

def start():
    # As LXD does: the wrapper is no leader of its group, and streams of its own lead nowhere.
    argv = ["timeout", "1000", "sh", "-c", _START, pipes, folder, *words]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return done.returncode if done.returncode >= 0 else 128 - done.returncode

def send(pid, number):
    word = signal.Signals(number).name.removeprefix("SIG")
    subprocess.run(["sh", "-c", _KILL, word, str(pid)])

call = Call("run-1", words, {}, folder, pipes, start, send, limit_s=float(limit_s), over=TIME_OVER)
import lxgpu.drivers.relay as module
module.GRACE_S = float(os.environ.get("GRACE_S", "10"))
with PipeRelay(lambda call: ([], {})) as relay:
    status = relay.carry(call, None)
os._exit(status)
"""
"""A process like `lxgpu run`, whose container is this machine."""


def begun(folder: Path, *words: str, limit_s: float = 60, **more: object) -> subprocess.Popen[bytes]:
    """A program under the relay, begun; what a background job of a shell is deaf to, it hears."""
    hears = ["/usr/bin/env", "--default-signal=HUP,INT"]
    argv = [*hears, sys.executable, "-c", HERE, str(folder / "relay"), "/", str(limit_s), *words]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **more.pop("env", {})}
    usual = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(argv, env=env, **{**usual, **more})


def ended(folder: Path, *words: str, given: bytes = b"", limit_s: float = 60) -> tuple[int, bytes, bytes]:
    """A program under the relay, to its end: status, output, errors."""
    with begun(folder, *words, limit_s=limit_s, stdin=subprocess.PIPE) as process:
        out, err = process.communicate(given, timeout=60)
    return process.returncode, out, err


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["true"], 0),
        (["sh", "-c", "exit 7"], 7),
        (["sh", "-c", "kill -9 $$"], 137),
        (["no-such-program"], 127),
        (["/etc/passwd"], 126),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_the_status_is_the_programs(tmp_path, words, status):
    """Its own, that of a signal that ended it, 127 for one that is not there, 126 for one that is no program."""
    assert ended(tmp_path, *words)[0] == status


def test_bytes_pass_in_both_directions(tmp_path):
    """More than any pipe holds, of any value, output and errors apart, and the end of the input is an end inside."""
    given = os.urandom(3_000_000)
    status, out, err = ended(tmp_path, "sh", "-c", "tee /dev/stderr", given=given)
    assert status == 0
    assert [hashlib.sha256(text).hexdigest() for text in (out, err)] == [hashlib.sha256(given).hexdigest()] * 2


def test_output_comes_while_the_program_runs(tmp_path):
    """And input goes there: each line is answered before the next is sent."""
    with begun(tmp_path, "cat", stdin=subprocess.PIPE, bufsize=0) as process:
        for line in (b"one\n", b"two\n"):
            process.stdin.write(line)
            assert process.stdout.readline() == line
        process.stdin.close()
        assert process.wait(timeout=60) == 0


def test_input_that_nobody_reads_holds_nothing_up(tmp_path):
    """A program that ends before its input does."""
    assert ended(tmp_path, "sh", "-c", "exit 3", given=bytes(500_000))[0] == 3


def test_a_reader_that_goes_away_ends_the_program(tmp_path):
    """As `| head` does: its next write tells it."""
    with begun(tmp_path, "yes") as process:
        process.stdout.read(10)
        process.stdout.close()
        assert process.wait(timeout=60) == 141


def test_what_stays_in_the_background_is_not_waited_for(tmp_path):
    """The program's end is the end, though a child of its has the output open."""
    status, out, _ = ended(tmp_path, "sh", "-c", "sleep 50 & echo there")
    assert (status, out) == (0, b"there\n")


@pytest.mark.parametrize(("name", "number"), [("INT", 2), ("TERM", 15), ("HUP", 1)])
def test_a_signal_is_the_programs(tmp_path, name, number):
    """It may put things in order, and its status counts."""
    script = f"trap 'echo told; exit 5' {name}; echo ready; while :; do sleep 0.05; done"
    with begun(tmp_path, "sh", "-c", script, bufsize=0) as process:
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(number)
        assert process.stdout.readline() == b"told\n"
        assert process.wait(timeout=60) == 5


def test_a_signal_finds_what_the_program_started(tmp_path):
    """A shell's child too, as Ctrl-C on a terminal does."""
    with begun(tmp_path, "sh", "-c", "echo ready; sleep 50; echo never", bufsize=0) as process:
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(2)
        out, _ = process.communicate(timeout=60)
        assert (process.returncode, out) == (130, b"")


def test_a_program_that_does_not_listen_is_given_up(tmp_path):
    """After its grace, or at the second signal: the status is the signal's, the container's end is its own."""
    deaf = ["sh", "-c", "trap '' INT TERM; echo ready; sleep 50"]
    with begun(tmp_path, *deaf, env={"GRACE_S": "0.2"}, bufsize=0) as process:
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(15)
        assert process.wait(timeout=60) == 143
    with begun(tmp_path, *deaf, env={"GRACE_S": "1000"}, bufsize=0) as process:
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(2)
        process.send_signal(15)
        assert process.wait(timeout=60) == 130


@pytest.mark.parametrize(
    "script", ["sleep 50", "trap 'exit 0' TERM; while :; do sleep 0.05; done", "trap '' TERM; sleep 50"]
)
def test_the_end_of_its_time_is_told_by_the_status(tmp_path, script):
    """TERM, then the end, and 124 whatever the program makes of it."""
    with begun(tmp_path, "sh", "-c", script, limit_s=0.5, env={"GRACE_S": "0.5"}) as process:
        process.communicate(timeout=60)
        assert process.returncode == 124


def test_nothing_is_left_of_the_pipes(tmp_path):
    """The folder goes with the program."""
    ended(tmp_path, "true")
    assert not list(tmp_path.iterdir())
