"""What the benchmarks share: a lab, timing in pairs, and medians."""

from __future__ import annotations

import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping

from benchmarks.table import Result

LXGPU = [sys.executable, "-m", "lxgpu"]


def pairs(name: str, rival: str, goal: float, measured: Iterable[tuple[float, float]]) -> Result:
    """The result of (ours, rival) pairs taken in turn."""
    both = list(measured)
    ours, theirs = (statistics.median(column) for column in zip(*both, strict=True))
    ratio = statistics.median(mine / other for mine, other in both)
    return Result(name, rival, round(ours, 4), round(theirs, 4), round(ratio, 3), goal, len(both))


def took(action: Callable[..., object], *words: object) -> float:
    """Seconds an action takes."""
    start = time.perf_counter()
    action(*words)
    return time.perf_counter() - start


def run(*words: str, env: Mapping[str, str] | None = None, stdin: str | None = None) -> str:
    """A program's output; its failure ends the benchmark with what it wrote."""
    done = subprocess.run(words, env=env, input=stdin, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def lab_environment(name: str, *, gpus: int) -> dict[str, str]:
    """Bring a lab up and give the variables that point at it."""
    run(*LXGPU, "lab", "up", "--name", name, "--gpus", str(gpus))
    lines = run(*LXGPU, "lab", "env", "--name", name).splitlines()
    told = dict(line.removeprefix("export ").split("=", 1) for line in lines if line.startswith("export "))
    return {**os.environ, **{key: value.strip("'\"") for key, value in told.items()}, "PYLXD_WARNINGS": "none"}


def wait_for_banner(address: str, *, timeout_s: float = 60) -> None:
    """Poll until an SSH server answers."""
    ends = time.monotonic() + timeout_s
    while time.monotonic() < ends:
        try:
            with socket.create_connection((address, 22), timeout=1) as connection:
                connection.settimeout(2)
                if connection.recv(4) == b"SSH-":
                    return
        except OSError:
            time.sleep(0.01)
    raise SystemExit(f"no SSH banner from {address}")
