"""What a container costs: the same loops inside and on the host, in the very same directory.

Both sides are counted by the kernel's memory controller, as every login of a host with systemd is, and the host's
files lie in the container's own subvolume, whose quota is the price of a disk limit and not of a container. They take
turns at going first: whatever warms up or fills up does so for both.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from benchmarks.containers import KEY
from benchmarks.measure import LXGPU, pairs, run
from benchmarks.table import HERE, Result


def loops(env: Mapping[str, str], *, runs: int = 15) -> list[Result]:
    """CPU, memory and files; the host sees the container's directory from LXD's mount namespace."""
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
        with _counted() as cgroup:
            host = ["sh", "-c", 'echo $$ >"$0/cgroup.procs" && exec "$@"', str(cgroup)]
            host += ["nsenter", "-t", _namespace(env), "-m", str(program)]
            results = [_one(env, kind, host, runs=runs) for kind in ("cpu", "memory", "file")]
        run(*LXGPU, "delete", "looper", "--purge", "--yes", "-q", env=env)
    return results


def _one(env: Mapping[str, str], kind: str, host: list[str], *, runs: int) -> Result:
    directory = f"{env['LXD_DIR']}/storage-pools/default/containers/looper/rootfs/root"

    def inside() -> float:
        return float(run("lxc", "exec", "looper", "--", "loops", kind, "/root", env=env))

    def outside() -> float:
        return float(run(*host, kind, directory))

    def both() -> Iterator[tuple[float, float]]:
        for number in range(runs + 1):
            if number % 2:
                pair = inside(), outside()
            else:
                last = outside()
                pair = inside(), last
            if number:  # the first pair warms the caches
                yield pair

    return pairs(f"{kind}-bound loop inside", "the same on the host", 1.02, both())


@contextmanager
def _counted() -> Iterator[Path]:
    """A cgroup of the host whose memory is counted."""
    from lxgpu.drivers.cgroups import UNIFIED, Cgroups  # noqa: PLC0415 - only this part needs it

    tree = Cgroups().tree("memory") or Cgroups().tree(UNIFIED)
    if tree is None:
        raise SystemExit("no cgroups are mounted")
    made = tree / f"lxgpu-bench-{os.getpid()}"
    made.mkdir()
    try:
        yield made
    finally:
        made.rmdir()


def _namespace(env: Mapping[str, str]) -> str:
    """A process of the lab's own mount namespace: its LXD."""
    found = run("lxc", "query", "/1.0", env=env)
    return str(json.loads(found)["environment"]["server_pid"])
