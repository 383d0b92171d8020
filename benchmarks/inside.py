"""What a container costs: the same loops inside and on the host, on the same file system."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks.containers import KEY
from benchmarks.measure import HERE, LXGPU, Result, pairs, run


def loops(env: Mapping[str, str], *, runs: int = 5) -> list[Result]:
    """CPU, memory and files; the host's files lie in the same btrfs pool, seen from LXD's mount namespace."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "loops"
        run("gcc", "-O1", "-static", "-o", str(program), str(HERE / "loops.c"))
        run(
            *LXGPU,
            "create",
            "looper",
            "--cpu",
            "64",
            "--memory",
            "64GiB",
            "--disk",
            "8GiB",
            "--ssh-key",
            "-",
            "-q",
            env=env,
            stdin=KEY,
        )
        run("lxc", "file", "push", str(program), "looper/usr/local/bin/loops", "--mode", "0755", env=env)
        results = [_one(env, kind, program, runs=runs, namespace=_namespace(env)) for kind in ("cpu", "memory", "file")]
        run(*LXGPU, "delete", "looper", "--purge", "--yes", "-q", env=env)
    return results


def _one(env: Mapping[str, str], kind: str, program: Path, *, runs: int, namespace: str) -> Result:
    pool = f"{env['LXD_DIR']}/storage-pools/default"

    def both() -> Iterator[tuple[float, float]]:
        for _ in range(runs):
            inside = float(run("lxc", "exec", "looper", "--", "loops", kind, "/root", env=env))
            outside = float(run("nsenter", "-t", namespace, "-m", str(program), kind, pool))
            yield inside, outside

    return pairs(f"{kind}-bound loop inside", "the same on the host", 1.02, both())


def _namespace(env: Mapping[str, str]) -> str:
    """A process of the lab's own mount namespace: its LXD."""
    found = run("lxc", "query", "/1.0", env=env)
    return str(json.loads(found)["environment"]["server_pid"])
