"""What LXD leaves in the kernel when it is killed: links, firewall chains, cgroups; finding and removing it."""

from __future__ import annotations

import json
import re
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from lxgpu.lab import processes
from lxgpu.lab.link import table
from lxgpu.lab.programs import run, search_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# A second cgroup of the same container, made while the first was still there.
NUMBERED = re.compile(r"-\d+$")
CGROUP_NAME = re.compile(r"^lxc\.(?:payload|monitor)\.")


def attempt(argv: Sequence[str]) -> None:
    """Run a program that may find its work done already; what matters is looked at afterwards."""
    subprocess.run(argv, env={"PATH": search_path()}, check=False, capture_output=True)


def mounts_below(directory: Path) -> list[str]:
    """Mount points below the directory that show in our own mount namespace."""
    points = (line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines())
    return [point for point in points if point.startswith(f"{directory}/")]


def remove_network(bridge: str) -> None:
    """Remove the link or bridge of that name, what is plugged into it, and the firewall's rules."""
    attempt(["nft", "delete", "table", "ip", table(bridge)])
    if Path("/sys/class/net", bridge).exists():
        for port in json.loads(run(["ip", "-j", "link", "show", "master", bridge])):
            attempt(["ip", "link", "delete", port["ifname"]])
        attempt(["ip", "link", "delete", bridge])
    listing = json.loads(run(["nft", "-j", "list", "chains"]))["nftables"]
    chains = [entry["chain"] for entry in listing if "chain" in entry and entry["chain"]["table"] == "lxd"]
    mine = [chain for chain in chains if chain["name"].endswith(f".{bridge}")]
    for chain in mine:
        attempt(["nft", "flush", "chain", chain["family"], "lxd", chain["name"]])
        attempt(["nft", "delete", "chain", chain["family"], "lxd", chain["name"]])
    for family in {chain["family"] for chain in mine}:
        if all(chain in mine for chain in chains if chain["family"] == family):
            attempt(["nft", "delete", "table", family, "lxd"])


def cgroups(directory: Path) -> set[Path]:
    """The cgroups of the lab's containers, in every hierarchy: of those that run, and of those known by name."""
    tops = set()
    for process in processes.lab_processes(directory):
        for _, path in processes.cgroups_of(process.pid):
            if top := processes.PAYLOAD.match(path):
                tops.add(top["top"].rpartition("/")[2])
    names = [entry.name for entry in Path(directory, "lxd/containers").glob("*")]
    tops |= {f"lxc.{part}.{name}" for name in names for part in ("payload", "monitor")}
    return {path for path in _container_cgroups() if NUMBERED.sub("", path.name) in tops or path.name in tops}


def remove_cgroups(paths: Iterable[Path], *, limit: float = 3) -> list[Path]:
    """Remove those in which nobody lives; return the ones that stay although nobody does.

    One with processes is another daemon's container of the same name.
    """
    deadline = time.monotonic() + limit
    left = [path for path in paths if path.exists()]
    while True:
        empty = [path for path in left if not _inhabited(path)]
        for path in empty:
            for folder in sorted((procs.parent for procs in path.glob("**/cgroup.procs")), reverse=True):
                with suppress(OSError):  # still letting go of its last process
                    folder.rmdir()
        left = [path for path in empty if path.exists()]
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.05)


def _inhabited(path: Path) -> bool:
    for procs in path.glob("**/cgroup.procs"):
        with suppress(OSError):  # gone meanwhile
            if procs.read_text():
                return True
    return False


def _container_cgroups() -> Iterable[Path]:
    for pattern in ("lxc.*", "*/lxc.*"):
        yield from (path for path in processes.CGROUPS.glob(pattern) if CGROUP_NAME.match(path.name))
