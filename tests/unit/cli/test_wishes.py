"""What `lxgpu create` refuses before it looks at anything."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


def create(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """`lxgpu create` with nothing of this machine's: no LXD, no settings, no inventory."""
    env = {
        **{key: value for key, value in os.environ.items() if not key.startswith("LXGPU_")},
        "LXGPU_STATE_DIR": str(folder / "state"),
        "LXGPU_RUN_DIR": str(folder / "run"),
        "LXD_DIR": str(folder / "no-lxd"),
    }
    return subprocess.run(
        [sys.executable, "-m", "lxgpu", "create", *words], env=env, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("root",), "bad_name"),
        (("nobody",), "bad_name"),
        (("alice", "--owner", "daemon"), "bad_name"),
        (("alice", "--memory", "1B"), "usage"),
        (("alice", "--memory", "8MiB"), "usage"),
        (("alice", "--disk", "1MiB"), "usage"),
        (("alice", "--gpus", "-1"), "usage"),
    ],
)
def test_refused_with_status_2_before_anything_is_made(tmp_path: Path, words: tuple[str, ...], code: str) -> None:
    """System accounts, and sizes in which no system starts; not even the inventory has been made by then."""
    done = create(*words, folder=tmp_path)
    assert done.returncode == 2
    assert f"error[{code}]" in done.stderr
    assert not list(tmp_path.glob("state/*.db"))
