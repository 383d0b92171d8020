"""What a container may use, as the host's cgroups have it: the proof that LXD did what it was asked.

Sources: the kernel's Documentation/admin-guide/cgroup-v1/{cpusets,memory,pids}.rst and cgroup-v2.rst.
"""

from __future__ import annotations

import math

from lxgpu.drivers.cgroups import UNIFIED, Cgroups, no_cgroup
from lxgpu.model.instance import Limits

_NO_LIMIT_BYTES = 1 << 62
"""Version 1 writes "no limit" as the largest number of pages that fits, just below 2^63 bytes."""


def read_limits(cgroups: Cgroups, init: int) -> Limits:
    """CPUs (count), memory (bytes) and processes of the instance's top cgroups; None where none is set.

    CPUs are always a number where CPU sets are in use, since they are always bounded by the host's own.

    Raises:
        LxgpuError: `unavailable`: the instance has no cgroup of its own.
    """
    if all(cgroups.top(init, name) is None for name in ("cpuset", "memory", "pids", UNIFIED)):
        raise no_cgroup(init)
    return Limits(
        cpu=_cpu(cgroups, init),
        memory_bytes=_number(cgroups, init, ("memory", "memory.limit_in_bytes"), (UNIFIED, "memory.max")),
        processes=_number(cgroups, init, ("pids", "pids.max"), (UNIFIED, "pids.max")),
    )


def count_cpus(text: str) -> int:
    """The CPUs in a list such as `0-3,8`."""
    spans = [span.partition("-") for span in text.strip().split(",") if span]
    return sum(int(last or first) - int(first) + 1 for first, _, last in spans)


def _cpu(cgroups: Cgroups, init: int) -> int | None:
    """The CPUs of the set, or fewer where the time is bounded (half a CPU's time counts as one CPU)."""
    sets = (("cpuset", "cpuset.cpus"), (UNIFIED, "cpuset.cpus"), (UNIFIED, "cpuset.cpus.effective"))
    listed = next((text for place in sets if (text := _read(cgroups, init, *place))), None)
    bounds = [] if listed is None else [count_cpus(listed)]
    quota, period = _read(cgroups, init, "cpu", "cpu.cfs_quota_us"), _read(cgroups, init, "cpu", "cpu.cfs_period_us")
    if quota is None or period is None:
        quota, _, period = (_read(cgroups, init, UNIFIED, "cpu.max") or "max 100000").partition(" ")
    if quota not in {"max", "-1"}:
        bounds.append(math.ceil(int(quota) / int(period)))
    return min(bounds, default=None)


def _number(cgroups: Cgroups, init: int, *places: tuple[str, str]) -> int | None:
    for controller, name in places:
        text = _read(cgroups, init, controller, name)
        if text is not None:
            return None if text == "max" or int(text) >= _NO_LIMIT_BYTES else int(text)
    return None


def _read(cgroups: Cgroups, init: int, controller: str, name: str) -> str | None:
    directory = cgroups.top(init, controller)
    try:
        return None if directory is None else (directory / name).read_text().strip()
    except FileNotFoundError:
        return None
