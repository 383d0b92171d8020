"""Processes of their own, and disks of their own, for the inventory."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

HEAD = """
import os, sys
from pathlib import Path
import inventory_rows as make
from lxgpu.errors import LxgpuError
from lxgpu.inventory.store import open_inventory, open_readonly
from lxgpu.ports import VersionMovedError
path = Path(sys.argv[1])
"""

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start Python on a script, with the inventory's path as its argument; pipes for stdin and stdout."""
    begun: list[subprocess.Popen[str]] = []

    def begin(script: str, path: Path) -> subprocess.Popen[str]:
        argv = [sys.executable, "-c", HEAD + script, str(path)]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        child = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
        begun.append(child)
        return child

    yield begin
    for child in begun:
        child.kill()
        child.communicate()


@pytest.fixture
def small_disk(tmp_path) -> Iterator[Path]:
    """A file system of 512 KiB."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount")
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k,mode=700", "lxgpu-test", folder], check=True)
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)
