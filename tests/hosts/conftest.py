"""One lab for all tests of this folder; in it stands the bare server, and lxgpu's own playbooks run on it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from labkit import lab_for, lab_name

from lxgpu.lab import Lab, LabSpec


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    """A lab with two cards."""
    yield from lab_for(LabSpec(name=lab_name("h"), gpus=2, models=("RTX 3090",)))


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout, as `make wheel` makes it."""
    target = tmp_path_factory.mktemp("dist")
    root = Path(__file__).resolve().parents[2]
    argv = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(target), str(root)]
    subprocess.run(argv, check=True, timeout=300)
    return next(target.glob("lxgpu-*.whl"))
