"""The words of `lxgpu run`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lxgpu.cli.run import _job
from lxgpu.errors import LxgpuError


def options(**given: object) -> dict[str, object]:
    """What click gives when nothing is said."""
    return {"copy": "", "fetched": (), "variables": (), **given}


def test_variables_are_given_or_ones_own(monkeypatch, tmp_path):
    """`NAME=VALUE` as it stands, whatever is in the value; `NAME` alone from the caller's environment."""
    monkeypatch.setenv("TOKEN", "s=1 ")
    job = _job(("true",), options(variables=("A=b=c", "TOKEN", "EMPTY="), copy=str(tmp_path)), 60)
    assert job.environment == {"A": "b=c", "TOKEN": "s=1 ", "EMPTY": ""}


@pytest.mark.parametrize(
    "wrong",
    [
        {"copy": "/no/such/folder"},
        {"fetched": ("report.xml",)},
        {"copy": "/etc", "fetched": ("/etc/passwd",)},
        {"copy": "/etc", "fetched": ("../x",)},
        {"copy": "/etc", "fetched": ("",)},
        {"variables": ("=x",)},
        {"variables": ("1A=x",)},
    ],
)
def test_what_does_not_fit_is_refused(wrong):
    """Before anything is made."""
    with pytest.raises(LxgpuError) as refused:
        _job(("true",), options(**wrong), 60)
    assert refused.value.code == "usage"


@pytest.mark.parametrize(
    ("words", "status"), [((), 2), (("--gpus", "x", "--", "true"), 2), (("--", "true"), 8), (("true", "-x"), 8)]
)
def test_the_program_has_its_own_words(tmp_path: Path, words: tuple[str, ...], status: int) -> None:
    """A command is needed; options behind it are its own, with `--` and without. Here no LXD answers (8)."""
    env = {
        **{key: value for key, value in os.environ.items() if not key.startswith(("LXGPU_", "SUDO_"))},
        "LXGPU_STATE_DIR": str(tmp_path / "state"),
        "LXGPU_RUN_DIR": str(tmp_path / "run"),
        "LXD_DIR": str(tmp_path / "no-lxd"),
    }
    argv = [sys.executable, "-m", "lxgpu", "run", "--owner", "alice", *words]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, "error[" in done.stderr, done.stdout) == (status, True, "")
