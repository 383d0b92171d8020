"""The checkpoint tool is called for exactly the right process, and only where it can work; a stand-in tool is used."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lxgpu.drivers.parking import CudaCheckpoint
from lxgpu.drivers.processes import read_stat
from lxgpu.ports import Process


@pytest.fixture
def tool(tmp_path: Path) -> Path:
    """A stand-in that writes down its words."""
    path = tmp_path / "cuda-checkpoint"
    path.write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/calls\n')
    path.chmod(0o755)
    return path


@pytest.fixture
def sleeper() -> Iterator[Process]:
    """A program."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as running:
        yield Process(running.pid, read_stat(running.pid).start_time)
        running.kill()


def calls(tool: Path, number: int) -> list[str]:
    """What the stand-in was called with, once it was so often."""
    place = tool.parent / "calls"
    for _ in range(500):
        if place.exists() and place.read_text().count("\n") >= number:
            break
        time.sleep(0.01)
    return place.read_text().splitlines()


def test_away_and_back(tool, sleeper):
    """Both ways are one toggle of that pid."""
    parker = CudaCheckpoint(str(tool))
    assert parker.park(sleeper, need_bytes=1) == ""
    assert calls(tool, 1) == [f"--toggle --pid {sleeper.pid}"]
    assert parker.unpark(sleeper) == ""
    assert calls(tool, 2) == [f"--toggle --pid {sleeper.pid}"] * 2


def test_what_is_refused(tool, sleeper):
    """Another process of that pid, too little memory, no such tool, nobody there: each says why, and nothing is run."""
    parker = CudaCheckpoint(str(tool), available=lambda: 1000)
    assert parker.park(sleeper, need_bytes=1001) == "there is not enough main memory for what it has on the card"
    assert parker.unpark(Process(sleeper.pid, sleeper.start_time + 1)) == "it has ended"
    assert CudaCheckpoint("/no/such/tool").unpark(sleeper) == "the host has no /no/such/tool"
    assert parker.park(Process(2**22 - 1, 1), need_bytes=1).startswith("it cannot be looked into")
    assert not (tool.parent / "calls").exists()


def test_nccl_is_refused(tool, tmp_path):
    """A process with NCCL loaded: this one, with a file of that name mapped."""
    library = tmp_path / "libnccl.so.2"
    library.write_bytes(b"x" * 4096)
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ):
        me = Process(os.getpid(), read_stat(os.getpid()).start_time)
        assert CudaCheckpoint(str(tool)).park(me, need_bytes=1) == "it uses NCCL"
