"""Create and list: against `lxc` on the same LXD, with the same image and pool."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.measure import LXGPU, pairs, run, took, wait_for_banner
from benchmarks.table import Result

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBqv8nm9yQq6bq1zZcFuLwCBr3YQ0mJ9m0mE6m3ZlC0T benchmark"


def create(env: Mapping[str, str], *, runs: int) -> Result:
    """`lxgpu create` until the verified login, and `lxc launch` until the SSH banner."""
    gateway = json.loads(run("lxc", "query", f"/1.0/networks/{_bridge(env)}", env=env))["config"]["ipv4.address"]
    prefix = gateway.rsplit(".", 1)[0]

    def both() -> Iterator[tuple[float, float]]:
        for number in range(runs + 1):
            ours, theirs, address = f"bench{number}", f"rival{number}", f"{prefix}.{10 + number}"
            mine = took(_create, env, ours)
            other = took(_launch, env, theirs, address)
            run(*LXGPU, "delete", ours, "--purge", "--yes", "-q", env=env)
            run("lxc", "delete", "-f", theirs, env=env)
            if number:  # the first pair prepares the template and warms the caches
                yield mine, other

    return pairs("create to verified login", "lxc launch + polling for the SSH banner", 1.3, both())


def batch(env: Mapping[str, str], *, people: int = 20, runs: int = 5) -> Result:
    """A class of twenty by --from, and twenty `lxc launch` in a row."""

    def both() -> Iterator[tuple[float, float]]:
        for _ in range(runs):
            with tempfile.TemporaryDirectory() as folder:
                file = Path(folder) / "class.csv"
                names = [f"pupil{number}" for number in range(people)]
                file.write_text("name,key\n" + "".join(f"{name},{KEY}\n" for name in names))
                mine = took(_create_all, env, file)
            delete_all(env, names)
            rivals = [f"rival{number}" for number in range(people)]
            other = took(_launch_all, env, rivals)
            run("lxc", "delete", "-f", *rivals, env=env)
            yield mine, other

    return pairs(f"{people} people by --from", f"{people} x lxc launch in a row", 0.6, both())


def listing(env: Mapping[str, str], *, people: int = 60, runs: int = 7) -> Result:
    """`lxgpu ls` and `lxc list -c ns` with sixty containers."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "class.csv"
        file.write_text("name,key\n" + "".join(f"pupil{number},{KEY}\n" for number in range(people)))
        run(*LXGPU, "create", "--from", str(file), "-q", env=env)
    measured = [
        (took(_quiet, env, *LXGPU, "ls"), took(_quiet, env, "lxc", "list", "-c", "ns")) for _ in range(runs + 1)
    ]
    delete_all(env, [f"pupil{number}" for number in range(people)])
    return pairs(f"ls with {people} containers", "lxc list -c ns", 3, measured[1:])


def starting(*, runs: int = 15) -> Result:
    """`lxgpu --help` and a Python that does nothing."""
    script = str(Path(sys.executable).with_name("lxgpu"))
    measured = [
        (took(_quiet, {}, script, "--help"), took(_quiet, {}, sys.executable, "-c", "pass")) for _ in range(runs)
    ]
    return pairs("lxgpu --help", "python -c pass", 5, measured[1:])


def _quiet(env: Mapping[str, str], *words: str) -> None:
    run(*words, env=env or None)


def _create(env: Mapping[str, str], name: str) -> None:
    run(*LXGPU, "create", name, "--gpus", "1", "--ssh-key", "-", "-q", env=env, stdin=KEY)


def _create_all(env: Mapping[str, str], file: Path) -> None:
    run(*LXGPU, "create", "--from", str(file), "-q", env=env)


def delete_all(env: Mapping[str, str], names: list[str]) -> None:
    """Take containers and homes away, four at a time."""
    with ThreadPoolExecutor(max_workers=4) as pool:
        done = [pool.submit(run, *LXGPU, "delete", name, "--purge", "--yes", "-q", env=env) for name in names]
        for one in done:
            one.result()


def _launch_all(env: Mapping[str, str], names: list[str]) -> None:
    for name in names:
        run("lxc", "launch", "base", name, env=env)


def _launch(env: Mapping[str, str], name: str, address: str) -> None:
    run("lxc", "launch", "base", name, "-d", f"eth0,ipv4.address={address}", env=env)
    wait_for_banner(address)


def _bridge(env: Mapping[str, str]) -> str:
    devices = json.loads(run("lxc", "query", "/1.0/profiles/default", env=env))["devices"]
    return str(devices["eth0"]["network"])
