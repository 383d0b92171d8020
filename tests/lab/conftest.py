"""A real LXD with pretend cards for the tests in this folder: one lab a test session (and worker), its own name."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import count

import pytest
from labkit import Launch, lab_for, lab_name, lxc

from lxgpu.lab import Lab, LabSpec


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    """A lab with four cards of one model, shared by all tests of the session: leave its cards free."""
    yield from lab_for(LabSpec(name=lab_name("a"), gpus=4, models=("RTX 3090",)))


@pytest.fixture(scope="session")
def mappable_lab() -> Iterator[Lab]:
    """A second lab beside the first: two T4, of which the last can be mapped into memory."""
    yield from lab_for(LabSpec(name=lab_name("b"), gpus=2, models=("T4",), mappable=True))


@pytest.fixture
def launch() -> Iterator[Launch]:
    """`launch(lab, *card_indices)` starts a container with these cards and returns its name; it goes after the test."""
    made: list[tuple[Lab, str]] = []
    numbers = count(1)

    def start(lab: Lab, *cards: int) -> str:
        name = f"{lab.name}-{os.getpid()}-{next(numbers)}"
        made.append((lab, name))
        lxc(lab, "launch", "base", name, "--quiet")
        for index in cards:
            lxc(lab, "config", "device", "add", name, f"gpu{index}", "gpu", f"pci={lab.gpus[index].pci}")
        return name

    yield start
    for lab, name in made:
        lxc(lab, "delete", "--force", name, check=False)
