"""What all benchmarks share: a lab, timing in pairs, medians, and the table."""

from __future__ import annotations

import json
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

HERE = Path(__file__).parent
LXGPU = [sys.executable, "-m", "lxgpu"]


@dataclass(frozen=True, slots=True)
class Result:
    """Ours against a named rival in the same run: medians in seconds over `runs` pairs, and their ratio."""

    name: str
    rival: str
    ours_s: float
    rival_s: float
    ratio: float
    goal: float
    runs: int

    @property
    def met(self) -> bool:
        """Whether the ratio is within the goal."""
        return self.ratio <= self.goal


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


def write_results(results: Sequence[Result], target: Path) -> None:
    """results.json, and the same as a table beside it; what was not measured this time stays."""
    known = json.loads(target.read_text(encoding="utf-8")) if target.exists() else []
    fresh = {result.name: result for result in results}
    kept = [fresh.get(row["name"], Result(**row)) for row in known]
    results = [*kept, *(result for name, result in fresh.items() if name not in {row["name"] for row in known})]
    target.write_text(json.dumps([asdict(result) for result in results], indent=2) + "\n", encoding="utf-8")
    rows = [
        "| what | rival | ours (s) | rival (s) | ratio | goal | |",
        "|---|---|---|---|---|---|---|",
        *(
            f"| {item.name} | {item.rival} | {item.ours_s:.3f} | {item.rival_s:.3f} | {item.ratio:.2f} "
            f"| ≤ {item.goal:g} | {'met' if item.met else 'missed'} |"
            for item in results
        ),
    ]
    target.with_suffix(".md").write_text("\n".join(rows) + "\n", encoding="utf-8")
    sys.stdout.write("\n".join(rows) + "\n")
