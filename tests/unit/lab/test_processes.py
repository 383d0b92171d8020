"""Whose process is it: marks and namespaces decide, names never do."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from lxgpu.lab.processes import MARK, Process, end_all, lab_processes, started_at


@pytest.fixture
def start() -> Iterator[object]:
    """`start(mark)` runs a sleep with that mark in its environment (None: with no mark)."""
    running: list[subprocess.Popen[bytes]] = []

    def run(mark: Path | None, extra: Mapping[str, str] | None = None) -> int:
        env = {"PATH": os.environ["PATH"], **(extra or {}), **({MARK: str(mark)} if mark else {})}
        running.append(subprocess.Popen(["sleep", "300"], env=env))
        path = Path(f"/proc/{running[-1].pid}/comm")
        deadline = time.monotonic() + 5
        while path.read_text() != "sleep\n" and time.monotonic() < deadline:
            time.sleep(0.01)
        return running[-1].pid

    yield run
    for process in running:
        process.kill()
        process.wait()


def _pids(directory: Path) -> set[int]:
    return {process.pid for process in lab_processes(directory)}


def test_mark_of_that_directory_only(tmp_path: Path, start) -> None:
    """A process is the lab's when it carries the mark of exactly that directory."""
    mine, longer, other = start(tmp_path / "a"), start(tmp_path / "ab"), start(tmp_path / "b")
    plain = start(None)
    mentions = start(None, {"SOMETHING": str(tmp_path / "a"), "LXD_DIR": str(tmp_path / "a/lxd")})
    assert _pids(tmp_path / "a") == {mine}
    assert not {longer, other, plain, mentions} & _pids(tmp_path / "a")


def test_the_caller_is_never_its_own_victim(tmp_path: Path) -> None:
    """A command that was started from inside a lab, mark and all, does not end itself or its shell."""
    env = {**os.environ, MARK: str(tmp_path)}
    code = f"from pathlib import Path; from lxgpu.lab.processes import end_all; print(end_all(Path({str(tmp_path)!r})))"
    done = subprocess.run(
        ["sh", "-c", '"$@"; echo survived', "sh", sys.executable, "-c", code],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["[]", "survived"]


def test_end_all(tmp_path: Path, start) -> None:
    """All of the lab's processes are ended, at once, and nobody else's."""
    mine = [start(tmp_path / "a") for _ in range(3)]
    other = start(tmp_path / "b")
    assert end_all(tmp_path / "a", limit=10) == []
    assert [started_at(pid) for pid in mine] == [None] * 3
    assert started_at(other) is not None


def test_a_pid_used_again_is_another_process(start) -> None:
    """A process is its pid and its start: the same pid with another start is not it."""
    pid = start(None)
    began = started_at(pid)
    assert began is not None
    assert Process(pid, began).alive()
    assert not Process(pid, began - 1).alive()
    assert "sleep 300" in Process(pid, began).command()


def test_zombies_have_ended(tmp_path: Path) -> None:
    """A process that has ended but was not waited for yet does not count as running."""
    process = subprocess.Popen(["true"], env={MARK: str(tmp_path), "PATH": os.environ["PATH"]})
    deadline = time.monotonic() + 5
    while started_at(process.pid) is not None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert Path(f"/proc/{process.pid}").exists()
    assert _pids(tmp_path) == set()
    process.wait()
