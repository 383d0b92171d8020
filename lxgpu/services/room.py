"""Is there room to shrink a disk: asked of the kernel inside, since what LXD tells of use is not what its limit counts.

On btrfs LXD shows exclusive bytes and limits referenced ones, the image included; and once a limit has been set below
what is used, LXD 5.0 cannot raise it any more. A file of the size that is to be given up can be allocated exactly if
the rest is enough, and the kernel refuses it at once if not.
"""

from __future__ import annotations

from lxgpu.errors import LxgpuError
from lxgpu.model.instance import Instance, Power, Sighting
from lxgpu.services.site import Site
from lxgpu.services.wanted import home_path
from lxgpu.units import format_size

MARGIN = 64 * 1024**2
"""Bytes that must stay free beyond what is used now: LXD itself writes into the container's file system."""
MEASURE_S = 300.0
_ALLOCATE = 'sync -f "$1"; fallocate -l "$2" "$1/.lxgpu-room"; s=$?; rm -f "$1/.lxgpu-room"; sync -f "$1"; exit $s'
_COUNT = 'used=$(du -sxB1 "$1" | cut -f1); echo "$used bytes are used"; [ "$used" -le "$2" ]'


def check_room(site: Site, row: Instance, seen: Sighting, disk_bytes: int) -> None:
    """Refuse to make the disk limit of a container smaller than what its system or its home uses.

    Only where the limit shrinks and the pool enforces it. Errors: `conflict` (it does not run, so nothing can be
    measured), `disk_in_use`.
    """
    old = row.limits.disk_bytes
    if (old is not None and old <= disk_bytes) or not site.engine.pool(site.settings.pool).enforces_quota:
        return
    if seen.power is not Power.RUNNING:
        raise LxgpuError(
            "conflict",
            f"the disk of {row.name} cannot be made smaller while it does not run",
            why="what is used can only be measured in the running container",
            fix=f"lxgpu start {row.name}, then repeat",
        )
    for what, path in (("system", "/"), ("home", home_path(row.owner))):
        script, size = (_COUNT, disk_bytes - MARGIN) if old is None else (_ALLOCATE, old - disk_bytes + MARGIN)
        argv = ["sh", "-c", script, "sh", path, str(size)]
        ran = site.engine.run(row.name, argv, environment={}, timeout_s=MEASURE_S)
        if ran.status != 0:
            raise LxgpuError(
                "disk_in_use",
                f"the {what} of {row.name} uses more than {format_size(disk_bytes)} leaves room for",
                why=[*ran.output.strip().splitlines()[-2:], f"{format_size(MARGIN)} must stay free"],
                fix=f"delete something below {path}, or ask for more",
            )
