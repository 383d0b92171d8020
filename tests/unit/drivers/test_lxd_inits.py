"""A remembered init is the very process that LXD named, or none."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

import pytest

from lxgpu.drivers.lxd_inits import Inits


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    """Some process that has just begun."""
    with subprocess.Popen(["sleep", "100"]) as made:
        yield made
        made.kill()


def later(inits: Inits) -> int:
    """A moment clearly after now."""
    return inits.now() + 10


def test_a_living_init_is_known_and_an_ended_one_is_not(process: subprocess.Popen[bytes]) -> None:
    """What has ended is gone at once, as a zombie too."""
    inits = Inits()
    inits.keep("u", process.pid, asked=later(inits))
    assert inits.living("u") == process.pid
    assert inits.living("another") is None
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert inits.living("u") is None


def test_what_began_after_the_question_is_not_believed(process: subprocess.Popen[bytes]) -> None:
    """LXD may have named an earlier process of that pid."""
    inits = Inits()
    inits.keep("u", process.pid, asked=inits.now() - 1000)
    assert inits.living("u") is None


def test_a_later_process_of_the_same_pid_is_not_it(
    process: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pid is used again; with its start it is not."""
    inits = Inits()
    inits.keep("u", process.pid, asked=later(inits))
    monkeypatch.setattr("lxgpu.drivers.lxd_inits._began", lambda _pid: 1)
    assert inits.living("u") is None


def test_a_stop_makes_it_forget_and_a_container_without_identity_is_never_known() -> None:
    """No pid, no memory; and no name to remember under, no memory."""
    inits = Inits()
    inits.keep("u", os.getpid(), asked=later(inits))
    inits.keep("u", None, asked=later(inits))
    inits.keep("", os.getpid(), asked=later(inits))
    assert inits.living("u") is None
    assert inits.living("") is None
