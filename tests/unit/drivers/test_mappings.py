"""Mapped files that look alike: what is asked about once must never stand for another file."""

from __future__ import annotations

import os
import subprocess

import pytest
from plain_instance import plain_instance

from lxgpu.drivers.cgroups import Cgroups
from lxgpu.drivers.holders import Findings, scan
from lxgpu.model.gpu import DeviceNode

ZERO = DeviceNode("zero", 1, 5)


@pytest.fixture
def subvolumes(tmp_path):
    """A btrfs with two subvolumes: a file in the one and a node in the other have the same inode number."""
    image, place = tmp_path / "image", tmp_path / "fs"
    place.mkdir()
    with image.open("wb") as file:
        file.truncate(200 << 20)
    subprocess.run(["mkfs.btrfs", "-q", str(image)], check=True)
    subprocess.run(["mount", "-o", "loop", str(image), str(place)], check=True)
    try:
        for name in ("a", "b"):
            subprocess.run(["btrfs", "-q", "subvolume", "create", str(place / name)], check=True)
        (place / "a" / "x").write_bytes(b"x" * 4096)
        os.mknod(place / "b" / "x", 0o020666, os.makedev(ZERO.major, ZERO.minor))
        assert (place / "a" / "x").stat().st_ino == (place / "b" / "x").stat().st_ino
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


def test_equal_inode_numbers_on_btrfs_are_two_files(subvolumes):
    """A process that maps a harmless file does not hide the one that maps the card under the same number."""
    with plain_instance([ZERO]) as inside:
        upwards = f"..{subvolumes}"
        harmless = inside.start("mapped", DeviceNode(f"{upwards}/a/x", 0, 0))
        holder = inside.start("mapped", DeviceNode(f"{upwards}/b/x", 0, 0))
        assert harmless.pid < holder.pid
        found = scan(lambda: Cgroups().members(inside.init), [ZERO], Findings()).holders([ZERO])
        assert [(one.pid, one.how) for one in found.processes] == [(holder.pid, "mapped zero")]


def test_many_processes_with_the_same_libraries(inside, card):
    """The one that maps the card among many is found, wherever it stands in the order."""
    before = [inside.start("nothing") for _ in range(5)]
    holder = inside.start("mapped", card)
    after = [inside.start("nothing") for _ in range(5)]
    found = scan(lambda: Cgroups().members(inside.init), [card], Findings()).holders([card])
    assert [one.pid for one in found.processes] == [holder.pid]
    assert len({one.pid for one in [*before, *after]}) == 10
