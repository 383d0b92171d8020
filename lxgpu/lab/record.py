"""The lab's record: what was chosen for it, on disk before anything is made, and the lock around changes."""

from __future__ import annotations

import fcntl
import json
import os
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from lxgpu.errors import LxgpuError
from lxgpu.lab.paths import Paths, lab_root, paths_of
from lxgpu.lab.spec import Card

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Lab:
    """A lab as chosen and made. `holder` is the pid and start time of the process that keeps its namespace."""

    name: str
    directory: Path
    gpus: tuple[Card, ...]
    bridge: str
    subnet: str
    engine: str = "lxd"
    holder: tuple[int, int] | None = None
    consoles: tuple[int, ...] = field(default=())

    @property
    def paths(self) -> Paths:
        """The places inside the lab's directory."""
        return Paths(self.directory)

    @property
    def lxd_dir(self) -> Path:
        """`LXD_DIR` of the lab's daemon."""
        return self.paths.lxd

    @property
    def socket(self) -> Path:
        """The daemon's API socket."""
        return self.paths.socket

    @property
    def address(self) -> str:
        """The bridge's own IPv4 address."""
        return self.subnet.split("/")[0].removesuffix(".0") + ".1"

    def env(self) -> dict[str, str]:
        """The variables that point lxgpu, lxc and pynvml at this lab."""
        paths = self.paths
        before = [part for part in os.environ.get("LD_LIBRARY_PATH", "").split(":") if part and part != str(paths.nvml)]
        return {
            "LXGPU_CONFIG": str(paths.config),
            "LXGPU_POLICY": str(paths.policy),
            "LXGPU_STATE_DIR": str(paths.state),
            "LXGPU_RUN_DIR": str(paths.run),
            "LXGPU_LAB": self.name,
            "LXD_DIR": str(paths.lxd),
            "LD_LIBRARY_PATH": ":".join([str(paths.nvml), *before]),
        }


def write_atomically(path: Path, text: str) -> None:
    """Replace a file's text so that a reader sees the old or the new one, never half."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(path)


def save(lab: Lab) -> None:
    """Write the record."""
    data = asdict(lab)
    del data["directory"]
    write_atomically(lab.paths.record, json.dumps(data, indent=1) + "\n")


def load(name: str) -> Lab | None:
    """The record of the lab of that name, or None when there is none."""
    paths = paths_of(name)
    try:
        data: dict[str, Any] = json.loads(paths.record.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    cards = tuple(Card(**card) for card in data.pop("gpus"))
    holder = data.pop("holder")
    consoles = tuple(data.pop("consoles"))
    lab = Lab(directory=paths.directory, gpus=cards, consoles=consoles, **data)
    return replace(lab, holder=(holder[0], holder[1])) if holder else lab


def require(name: str) -> Lab:
    """The record of the lab of that name.

    Raises:
        LxgpuError: `not_found`.
    """
    lab = load(name)
    if lab is None:
        raise LxgpuError(
            "not_found",
            f"there is no lab {name!r}",
            why=f"{paths_of(name).record} does not exist",
            fix=f"lxgpu lab up --name {name}",
        )
    return lab


@contextmanager
def locked(name: str) -> Iterator[None]:
    """Hold the lock of the lab of that name; waits for an `up` or `down` that is under way.

    The lock file goes with the lab, so whoever waited on a file that has been removed meanwhile takes a new one.
    """
    root = lab_root()
    lock = root / f".{name}.lock"
    while True:
        root.mkdir(mode=0o711, parents=True, exist_ok=True)
        with suppress(FileNotFoundError):  # somebody took the folder or the file away meanwhile
            handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(handle, fcntl.LOCK_EX)
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(handle), lock.stat()):
                    break
            os.close(handle)
    try:
        yield
    finally:
        if not paths_of(name).directory.exists():
            lock.unlink(missing_ok=True)
            with suppress(OSError):  # other labs lie there
                root.rmdir()
        os.close(handle)
