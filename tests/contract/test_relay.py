"""What a relay promises of a program's end, asked of the real one and of the fake."""

from __future__ import annotations

import os
import signal
from contextlib import nullcontext
from pathlib import Path

import pytest
from fakes.relay import FakeRelay

from lxgpu.drivers.relay import PipeRelay
from lxgpu.errors import LxgpuError
from lxgpu.ports import Call, Streams


@pytest.fixture(params=["real", "fake"])
def relay(request):
    """Each relay, in use."""
    with PipeRelay(lambda _call: ([], {})) if request.param == "real" else nullcontext(FakeRelay()) as made:
        yield made


def call(folder: Path, start) -> Call:
    """A program that does as it is told."""
    return Call("run-1", ("true",), {}, "/", str(folder / "relay"), start, lambda _pid, _number: None, 60.0, 124)


def test_a_program_is_started_once_and_its_error_is_told(relay, tmp_path):
    """What LXD says goes to who asked."""
    started = []

    def fails():
        started.append(1)
        raise LxgpuError("engine", "it does not run")

    with pytest.raises(LxgpuError, match="it does not run"):
        relay.carry(call(tmp_path, fails), Streams(-1, 1, 2))
    assert started == [1]


def test_its_end_is_the_end(relay, tmp_path):
    """Nothing is waited for but the program."""
    assert relay.carry(call(tmp_path, lambda: 0), Streams(-1, 1, 2)) == 0
    assert list(relay.heard) == []


def test_a_signal_breaks_what_is_made_and_is_only_heard_elsewhere():
    """Once: what is undone then is not broken again."""
    done = []

    def make():
        with relay.breaking():
            try:
                done.append("began")
                os.kill(os.getpid(), signal.SIGTERM)
            except KeyboardInterrupt:
                os.kill(os.getpid(), signal.SIGTERM)
                done.append("undone")
                raise

    with PipeRelay(lambda _call: ([], {})) as relay:
        with pytest.raises(KeyboardInterrupt):
            make()
        os.kill(os.getpid(), signal.SIGINT)
        assert list(relay.heard) == [15, 15, 2]
        with pytest.raises(KeyboardInterrupt):
            make()
    assert done == ["began", "undone"]


def test_a_signal_that_was_ignored_stays_so():
    """As of a program that a shell has started in the background."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with PipeRelay(lambda _call: ([], {})) as relay:
            os.kill(os.getpid(), signal.SIGINT)
            assert list(relay.heard) == []
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
