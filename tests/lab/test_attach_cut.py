"""LXD killed in the middle of an attach: whatever it leaves, the next command gives the card whole."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import pytest
from house import House, house_for, until

from lxgpu.lab import Lab, LabSpec, up

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def house(lab: Lab) -> Iterator[House]:
    """The lab, empty before and after."""
    yield from house_for(lab)


@pytest.fixture(scope="module")
def alice(house: House) -> str:
    """A running container."""
    name = f"{house.lab.name}a"
    house.ok("create", name)
    return name


def node_files(house: House, name: str) -> list[str]:
    """LXD's node files of cards, on the host."""
    folder = house.lab.lxd_dir / "devices" / name
    return [entry.name for entry in folder.glob("unix.gpu*")]


@pytest.mark.parametrize(("held", "delay_ms"), [(0, 0), (0, 6), (1, 2)])
def test_the_card_arrives_whole_without_a_restart(house: House, alice: str, held: int, delay_ms: int) -> None:
    """Killed as the first node file appears and some milliseconds later; with and without a card held already."""
    if held:
        house.ok("attach", alice, "--gpus", f"{held}")
    files, init = len(node_files(house, alice)), house.init(alice)
    process = house.start("attach", alice, "--gpus", "+1")
    assert until(lambda: len(node_files(house, alice)) > files or process.poll() is not None)
    time.sleep(delay_ms / 1000)
    os.kill(house.daemon(), signal.SIGKILL)
    process.communicate()
    spec = LabSpec(name=house.lab.name, gpus=len(house.lab.gpus), models=("RTX 3090",))
    up(spec)
    house.ok("attach", alice, "--gpus", f"{held + 1}")
    assert house.init(alice) == init, "it was restarted"
    assert len(house.cards_of(alice)) == held + 1
    for card in house.cards_of(alice):
        inside = house.sh(alice, f"ls {' '.join(node.path for node in card.nodes)} /dev/nvidiactl /dev/nvidia-uvm")
        assert len(inside.split()) == len(card.nodes) + 2
    house.settled()
    house.ok("release", alice, "--all", "--yes")
    assert node_files(house, alice) == []
    assert house.sh(alice, "ls /dev/nvidia* 2>/dev/null; true") == ""
    house.settled()
