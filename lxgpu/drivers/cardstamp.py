"""Whether the kernel still has the same cards under the same drivers: by the entries of a few directories of sysfs.

Each object of sysfs has an inode number that no later one gets again, so what was removed and came back shows.
Source: the kernel's fs/kernfs/dir.c (ids are handed out in turn, and on 64-bit machines never twice).
"""

from __future__ import annotations

import os
from pathlib import Path

_SYS = Path("/sys")
_PLACES = ("bus/pci/drivers/nvidia", "class/drm", "module/nvidia", "module/nvidia_drm")


def card_stamp(sys: Path = _SYS) -> str:
    """A text that changes whenever a card comes, goes or is bound anew, or a driver of cards is loaded."""
    return ";".join(f"{place}={_entries(sys / place)}" for place in _PLACES)


def _entries(directory: Path) -> str:
    try:
        own = directory.stat().st_ino
        with os.scandir(directory) as entries:
            names = sorted(f"{entry.name}:{entry.inode()}" for entry in entries)
    except FileNotFoundError:
        return "-"
    return ",".join([str(own), *names])
