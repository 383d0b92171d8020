"""The kernel's stamp of cards and drivers."""

from __future__ import annotations

import os
from pathlib import Path

from lxgpu.drivers.cardstamp import card_stamp

PLACES = ("bus/pci/drivers/nvidia/0000:01:00.0", "class/drm/card0", "module/nvidia/x", "module/nvidia_drm/x")


def test_it_stays_while_nothing_moves(tmp_path: Path) -> None:
    """The same text each time, and a text also where there is no driver at all."""
    assert card_stamp(tmp_path) == card_stamp(tmp_path)
    for place in PLACES:
        (tmp_path / place).mkdir(parents=True)
    assert card_stamp(tmp_path) == card_stamp(tmp_path)
    assert card_stamp() == card_stamp()


def test_it_moves_with_every_card_and_driver_that_comes_or_goes(tmp_path: Path) -> None:
    """A card bound, a node more, and a driver that was taken out and loaded again, with all its names as before."""
    seen = [card_stamp(tmp_path)]
    for place in PLACES:
        (tmp_path / place).mkdir(parents=True)
        seen.append(card_stamp(tmp_path))
    drm = tmp_path / "class/drm/card0"
    again = drm.with_name("again")
    again.mkdir()  # an inode number of its own, as the kernel gives it to what comes back
    drm.rmdir()
    again.rename(drm)
    seen.append(card_stamp(tmp_path))
    assert len(set(seen)) == len(seen)
    assert os.listdir(drm.parent) == ["card0"]  # noqa: PTH208 - the names are as they were
