"""Where LXD or Incus listens."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

SNAP = "/var/snap/lxd/common/lxd/unix.socket"
PLACES = (SNAP, "/var/lib/lxd/unix.socket", "/var/lib/incus/unix.socket")


def find_socket() -> str:
    """Returns the socket to use: the one LXD_DIR or INCUS_DIR names, else the first of the usual places that is there.

    When there is none it is the last of the places tried first, so that the error of connecting names it.
    """
    for variable in ("LXD_DIR", "INCUS_DIR"):
        directory = os.environ.get(variable)
        if directory:
            return str(Path(directory) / "unix.socket")
    return next(_present(), PLACES[1])


def _present() -> Iterator[str]:
    return (place for place in PLACES if os.path.lexists(place))
