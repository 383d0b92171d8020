"""Where a host elsewhere is reached: `[user@]host[:port]`, as `ssh` takes it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lxgpu.errors import LxgpuError

_PLACE = re.compile(r"(?:([a-z_][a-z0-9_-]*)@)?(?:\[([0-9a-fA-F:.]+)\]|([A-Za-z0-9](?:[A-Za-z0-9.-]*)))(?::(\d{1,5}))?")
_LAST_PORT = 65535


@dataclass(frozen=True, slots=True)
class SshPlace:
    """An account on another host."""

    user: str
    host: str
    port: int = 22


def ssh_place(text: str) -> SshPlace:
    """Reads a place; root's account unless another is named.

    Raises:
        LxgpuError: `usage`.
    """
    found = _PLACE.fullmatch(text)
    port = int(found[4] or 22) if found else 0
    if found is None or not 0 < port <= _LAST_PORT:
        why = "places are given like gpu2.lab.example, root@gpu2.lab.example:22 or root@[2001:db8::2]"
        raise LxgpuError("usage", f"{text!r} is no place for SSH", why=why)
    return SshPlace(found[1] or "root", found[2] or found[3], port)
