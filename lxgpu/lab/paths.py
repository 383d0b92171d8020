"""Where a lab keeps its things.

Everything of a lab lies in one directory, so that taking it down is taking the directory away. Only two
things lie outside: the cache of base images, which all labs share, and the lock beside the directory.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

# LXD keeps sockets below its directory, and the kernel cuts a socket's path at 108 bytes.
LONGEST_DIRECTORY = 70


def lab_root() -> Path:
    """The folder that holds the labs: `LXGPU_LAB_ROOT`, or /var/lib/lxgpu-lab."""
    return Path(os.environ.get("LXGPU_LAB_ROOT") or "/var/lib/lxgpu-lab").absolute()


def cache_dir() -> Path:
    """The folder of built images: `LXGPU_CACHE_DIR`, or /var/cache/lxgpu."""
    return Path(os.environ.get("LXGPU_CACHE_DIR") or "/var/cache/lxgpu").absolute()


@dataclass(frozen=True, slots=True)
class Paths:
    """The places inside one lab's directory."""

    directory: Path

    @property
    def record(self) -> Path:
        """What was chosen for this lab, JSON."""
        return self.directory / "lab.json"

    @property
    def lxd(self) -> Path:
        """`LXD_DIR`."""
        return self.directory / "lxd"

    @property
    def socket(self) -> Path:
        """LXD's API."""
        return self.lxd / "unix.socket"

    @property
    def host(self) -> Path:
        """What LXD sees instead of the machine's own hardware: pci/, driver/, bin/, dev/, sys/."""
        return self.directory / "host"

    @property
    def nvml(self) -> Path:
        """The folder of the stand-in NVML library, for `LD_LIBRARY_PATH`."""
        return self.directory / "nvml"

    @property
    def nvml_state(self) -> Path:
        """The text file that the stand-in library answers from."""
        return self.nvml / "state"

    @property
    def config(self) -> Path:
        """The settings file for lxgpu in this lab."""
        return self.directory / "etc" / "config.yaml"

    @property
    def policy(self) -> Path:
        """The policy file for lxgpu in this lab."""
        return self.directory / "etc" / "policy.yaml"

    @property
    def state(self) -> Path:
        """The inventory of this lab."""
        return self.directory / "state"

    @property
    def run(self) -> Path:
        """Sockets, and the lab's own pid files."""
        return self.directory / "run"

    @property
    def log(self) -> Path:
        """Logs of the daemons."""
        return self.directory / "log"

    @property
    def kernel_log(self) -> Path:
        """The file that takes the part of the kernel's log."""
        return self.log / "kernel.log"

    @property
    def client(self) -> Path:
        """`LXD_CONF`: keeps the lxc client from writing to the caller's home."""
        return self.directory / "client"

    def make(self) -> None:
        """Make the directory and its folders; only root can look inside."""
        self.directory.mkdir(mode=0o711, parents=True, exist_ok=True)
        for folder in (self.lxd, self.host, self.nvml, self.config.parent, self.state, self.run, self.log, self.client):
            folder.mkdir(mode=0o711, exist_ok=True)


def paths_of(name: str) -> Paths:
    """The places of the lab of that name, whether it exists or not."""
    return Paths(lab_root() / name)
