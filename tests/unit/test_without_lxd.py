"""Commands on a host whose LXD does not answer, run as people run them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGCxwX5Je8bgcNoDkkrBxz/PhQdDwATq6Fc2QCMtSeSh laptop"


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """Settings that point at a socket that is not there, and at folders of their own."""
    (tmp_path / "policy.yaml").write_text("version: 1\ncontact: gpu-admin@lab.example\n")
    (tmp_path / "config.yaml").write_text(
        f"hosts: [{{name: here, socket: {tmp_path}/unix.socket}}]\n"
        f"state_dir: {tmp_path}/state\nrun_dir: {tmp_path}/run\n"
    )
    return tmp_path


def lxgpu(host: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A command's end, with a key on its input."""
    env = {**os.environ, "LXGPU_CONFIG": str(host / "config.yaml"), "LXGPU_POLICY": str(host / "policy.yaml")}
    argv = [sys.executable, "-m", "lxgpu", *words]
    return subprocess.run(argv, env=env, input=KEY, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize(
    "words",
    [
        ("create", "alice", "--ssh-key", "-"),
        ("attach", "alice", "--gpus", "1"),
        ("inventory", "verify"),
        ("inventory", "rebuild", "--yes"),
    ],
    ids=" ".join,
)
def test_no_inventory_is_made_for_an_lxd_that_does_not_answer(host: Path, words: tuple[str, ...]) -> None:
    """An empty one would look like a lost one as soon as LXD is back."""
    done = lxgpu(host, *words)
    assert done.returncode == 8, done.stderr
    assert "fix:" in done.stderr
    assert not (host / "state" / "inventory.db").exists()


def test_a_backup_of_nothing_is_refused_and_makes_nothing(host: Path) -> None:
    """Rather than kept as if it were one."""
    done = lxgpu(host, "inventory", "backup", str(host / "copy.db"))
    assert "error[not_found]" in done.stderr
    assert sorted(path.name for path in host.rglob("*.db")) == []


@pytest.fixture
def silent(host: Path) -> Iterator[Path]:
    """An LXD that takes connections and says nothing, as one that was stopped in its tracks."""
    with socket.socket(socket.AF_UNIX) as wire:
        wire.bind(str(host / "unix.socket"))
        wire.listen(100)
        yield host


@pytest.mark.parametrize("words", [("status",), ("gpus",), ("ls",)], ids=" ".join)
def test_a_look_at_an_lxd_that_hangs_ends_soon(silent: Path, words: tuple[str, ...]) -> None:
    """It shows what is known without LXD, says that it did not answer, and ends with its status, in ten seconds."""
    before = time.monotonic()
    done = lxgpu(silent, *words)
    assert time.monotonic() - before < 12
    assert done.returncode == 8, done.stderr
    assert "does not answer" in done.stderr + done.stdout
