"""Resource limits that this host can give: without CAP_SYS_RESOURCE nobody may raise one above what he has.

LXD hands `limits.kernel.*` to the container's first process and fails the start when the kernel refuses, so what is
out of reach is brought down to what is possible; doctor says so.
"""

from __future__ import annotations

import resource
from collections.abc import Mapping
from pathlib import Path

PREFIX = "limits.kernel."
_CAP_SYS_RESOURCE = 24
_STATUS = Path("/proc/self/status")


def may_raise(status: Path = _STATUS) -> bool:
    """Whether limits can be raised at will here, by lxgpu and so by the LXD beside it."""
    line = next(line for line in status.read_text().splitlines() if line.startswith("CapEff:"))
    return bool(int(line.split()[1], 16) >> _CAP_SYS_RESOURCE & 1)


def within_reach(config: Mapping[str, str]) -> dict[str, str]:
    """The configuration with each `limits.kernel.*` at most what this host can give."""
    if not any(key.startswith(PREFIX) for key in config) or may_raise():
        return dict(config)
    return {key: _lowered(key, value) if key.startswith(PREFIX) else value for key, value in config.items()}


def _lowered(key: str, value: str) -> str:
    number = getattr(resource, f"RLIMIT_{key.removeprefix(PREFIX).upper()}", None)
    if number is None:
        return value
    hard = resource.getrlimit(number)[1]
    if hard == resource.RLIM_INFINITY:
        return value
    return str(hard if value == "unlimited" else min(hard, int(value)))
