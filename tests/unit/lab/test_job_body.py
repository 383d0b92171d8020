"""The pretend job as a program: what it holds, and how it ends. Here on the host, on nodes that every machine has."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import lxgpu.lab.job_body as body

ZERO = (1, 5)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[object]:
    """`start(hold=…)` starts a job that holds a node of /dev/zero's number and returns what it answered."""
    node = tmp_path / "renderD999"
    node.symlink_to("/dev/zero")
    pids: list[int] = []

    def run(**wish: object) -> dict[str, int]:
        job = {"nodes": [str(node)], "hold": "open", "ignore_term": False, "respawn": False, "seconds": 60, **wish}
        done = subprocess.run(
            [sys.executable, "-", json.dumps({**job, "comm": "lxgpu-job"})],
            input=Path(body.__file__).read_text(),
            capture_output=True,
            text=True,
            check=True,
            timeout=20,
        )
        answer: dict[str, int] = json.loads(done.stdout)
        pids.extend(pid for pid in (answer.get("supervisor"), answer.get("pid")) if pid)
        return answer

    yield run
    for pid in pids:
        if _runs(pid):
            os.kill(pid, signal.SIGKILL)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in {"Z", "X"}
    except FileNotFoundError:
        return False


def _until(what, limit: float = 10) -> bool:
    deadline = time.monotonic() + limit
    while not what():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def _numbers(pid: int, folder: str) -> set[tuple[int, int]]:
    """The device numbers behind a process's open files or mappings."""
    found = set()
    for entry in Path(f"/proc/{pid}/{folder}").iterdir():
        number = entry.stat().st_rdev if entry.exists() else 0
        found.add((os.major(number), os.minor(number)))
    return found


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_open(start) -> None:
    """The plain job keeps the node open, has no terminal and bears its name."""
    pid = start()["pid"]
    assert ZERO in _numbers(pid, "fd")
    assert Path(f"/proc/{pid}/comm").read_text() == "lxgpu-job\n"
    assert os.getsid(pid) != os.getsid(0)


def test_map(start) -> None:
    """A mapping alone: no open file tells of the card, only /proc/PID/map_files."""
    pid = start(hold="map")["pid"]
    assert ZERO not in _numbers(pid, "fd")
    assert ZERO in _numbers(pid, "map_files")


def test_fd_passed(start) -> None:
    """Parked in a socket: neither open files nor mappings tell, only the count in the socket's fdinfo."""
    pid = start(hold="fd-passed")["pid"]
    assert ZERO not in _numbers(pid, "fd") | _numbers(pid, "map_files")
    infos = [entry.read_text() for entry in Path(f"/proc/{pid}/fdinfo").iterdir()]
    assert sum("scm_fds: 1\n" in info for info in infos) == 1, infos


def test_term(start) -> None:
    """SIGTERM ends a job, but not one that ignores it."""
    polite, deaf = start()["pid"], start(ignore_term=True)["pid"]
    for pid in (polite, deaf):
        os.kill(pid, signal.SIGTERM)
    assert _until(lambda: not _runs(polite))
    assert _runs(deaf)


def test_respawn(start) -> None:
    """Killed, a respawning job comes back under another pid; its parent holds nothing; ending the parent ends it."""
    answer = start(respawn=True)
    supervisor, first = answer["supervisor"], answer["pid"]
    assert ZERO not in _numbers(supervisor, "fd") | _numbers(supervisor, "map_files")
    os.kill(first, signal.SIGKILL)
    assert _until(lambda: _children(supervisor) and _children(supervisor) != [first])
    second = _children(supervisor)[0]
    assert _until(lambda: _runs(second) and ZERO in _numbers(second, "fd"))
    os.kill(supervisor, signal.SIGKILL)
    os.kill(second, signal.SIGKILL)


def test_respawn_that_can_never_start(start) -> None:
    """A restart loop whose first try cannot take the card is an error, not a loop."""
    assert "No such file" in start(respawn=True, nodes=["/dev/no-such-node"])["error"]


def test_time_is_over(start) -> None:
    """A job for a while ends by itself, and so does a restart loop."""
    plain, loop = start(seconds=0.3)["pid"], start(seconds=0.3, respawn=True)
    assert _until(lambda: not _runs(plain))
    assert _until(lambda: not _runs(loop["supervisor"]) and not _runs(loop["pid"]))


def test_node_that_cannot_be_opened(start, tmp_path: Path) -> None:
    """Without the node, or with one that cannot be mapped, the job says so and does not run."""
    (tmp_path / "render-null").symlink_to("/dev/null")
    assert start(nodes=["/dev/no-such-node"]) == {"error": "No such file or directory: /dev/no-such-node"}
    assert start(nodes=[str(tmp_path / "render-null")], hold="map") == {"error": "the node cannot be mapped"}
