"""Limits that bite: what was asked for, read back from the host's cgroups and the pool."""

from __future__ import annotations

from lxgpu.errors import LxgpuError
from lxgpu.model.instance import Limits, Sighting
from lxgpu.ports import Pool
from lxgpu.services.site import Site
from lxgpu.services.wanted import Picture
from lxgpu.units import format_size


def check_limits(site: Site, wanted: Picture, seen: Sighting) -> None:
    """Compare the limits of a running container with those asked for.

    Error `limits_failed` names each that does not hold. A disk limit that the pool cannot enforce is said, and
    refused where the settings want it so.
    """
    if seen.init_pid is None:
        return
    found, asked = site.probe.limits(seen.init_pid), wanted.instance.limits
    faults = [
        f"{name}: asked for {want}, the host's cgroup has {have}"
        for name, want, have in _pairs(asked, found)
        if want is not None and have != want
    ]
    if asked.cpu is not None and (found.cpu is None or found.cpu > asked.cpu):
        faults.append(f"cpu: asked for {asked.cpu}, the host's cgroup has {found.cpu}")
    elif asked.cpu is not None and found.cpu is not None and found.cpu < asked.cpu:
        site.say(f"note: {asked.cpu} CPUs were asked for, the host has {found.cpu}")
    if faults:
        raise LxgpuError(
            "limits_failed",
            f"the limits of {wanted.instance.name} do not hold on this host",
            why=faults,
            fix="lxgpu doctor looks at the cgroup controllers",
        )


def check_disk(site: Site, pool: Pool, asked: Limits) -> None:
    """Say, or refuse by setting, that a pool cannot hold a disk limit."""
    if asked.disk_bytes is None or pool.enforces_quota:
        return
    text = f"pool {pool.name} ({pool.driver}) does not enforce a disk limit of {format_size(asked.disk_bytes)}"
    if site.settings.quota_unenforced == "refuse":
        raise LxgpuError(
            "quota_unenforced", text, fix="use a btrfs or zfs pool, or set quota_unenforced: warn in config.yaml"
        )
    site.say(f"note: {text}")


def _pairs(asked: Limits, found: Limits) -> list[tuple[str, int | None, int | None]]:
    return [
        ("memory", asked.memory_bytes, found.memory_bytes),
        ("processes", asked.processes, found.processes),
    ]
