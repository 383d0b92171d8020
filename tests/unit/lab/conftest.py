"""A lab on paper: its record and files in a folder of the test, no LXD."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from lxgpu.lab import nvml, state
from lxgpu.lab.record import Lab
from lxgpu.lab.spec import LabSpec, plan_cards


@pytest.fixture(scope="session")
def built_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stand-in library, compiled once."""
    lab = Lab(name="built", directory=tmp_path_factory.mktemp("nvml"), gpus=(), bridge="", subnet="")
    lab.paths.make()
    nvml.build(lab)
    return lab.paths.nvml / nvml.LIBRARY


@pytest.fixture
def paper_lab(tmp_path: Path, built_library: Path) -> Lab:
    """Three cards of different models, with the NVML stand-in built and nothing running."""
    spec = LabSpec(name="paper", models=("RTX 3090", "A100 80GB", "T4"))
    cards = plan_cards(spec, consoles=(20, 21, 22), taken_pci=())
    lab = Lab(name="paper", directory=tmp_path / "paper", gpus=cards, bridge="lg-paper", subnet="10.99.1.0/24")
    lab.paths.make()
    lab.paths.kernel_log.touch()
    shutil.copy(built_library, lab.paths.nvml)
    with state.editing(lab):
        pass
    return lab
