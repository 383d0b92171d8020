"""The process that makes a lab's namespaces and then keeps them: `python -m lxgpu.lab.inside NAME`.

It is started inside a new, private mount namespace and a new network namespace. When all mounts are made it says
`ready PID` on its standard output and turns into a `sleep`, which holds namespaces and claims until it is ended.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from lxgpu.lab import record
from lxgpu.lab.devices import REAL_DRM, REAL_PCI, fill_dev
from lxgpu.lab.programs import run

# Other file systems below /dev that containers and LXD expect to be there.
BELOW_DEV = ("pts", "shm", "mqueue", "hugepages")
LXCFS_MOUNT = Path("/var/lib/lxcfs")
CONSOLE_FLAGS = os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK


def make_mounts(lab: record.Lab) -> None:
    """Lay a private /dev, the pretend PCI bus and an empty place for lxcfs over the machine's own."""
    host = lab.paths.host
    own_sys(host)
    dev = host / "dev"
    run(["mount", "-t", "tmpfs", "-o", "mode=755,size=16m", "lxgpu-dev", str(dev)])
    fill_dev(dev, lab.gpus)
    for name in BELOW_DEV:
        if Path("/dev", name).is_mount():
            (dev / name).mkdir(exist_ok=True)
            run(["mount", "--rbind", f"/dev/{name}", str(dev / name)])
    run(["mount", "--rbind", str(dev), "/dev"])
    # With a mount over part of /sys the kernel refuses sysfs in new user namespaces, unless a whole one is there too.
    run(["mount", "-t", "sysfs", "lxgpu-sys", str(host / "sys")])
    run(["mount", "--bind", str(host / "pci"), str(REAL_PCI)])
    if REAL_DRM.is_dir():  # where LXD looks for graphics cards first
        run(["mount", "--bind", str(host / "drm"), str(REAL_DRM)])
    LXCFS_MOUNT.mkdir(parents=True, exist_ok=True)
    run(["mount", "-t", "tmpfs", "-o", "mode=755,size=1m", "lxgpu-lxcfs", str(LXCFS_MOUNT)])


def own_sys(host: Path) -> None:
    """A sysfs that shows this network namespace's links, with all that was mounted below the old one."""
    mounts = (line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines())
    below = sorted({point for point in mounts if point.startswith("/sys/")})
    tops = [point for point in below if not any(point.startswith(f"{other}/") for other in below)]
    for number, point in enumerate(tops):
        kept = host / "kept" / str(number)
        kept.mkdir(parents=True, exist_ok=True)
        run(["mount", "--rbind", point, str(kept)])
    run(["mount", "-t", "sysfs", "lxgpu-sys", "/sys"])
    for number, point in enumerate(tops):
        if Path(point).is_dir():
            run(["mount", "--rbind", str(host / "kept" / str(number)), point])


def open_consoles(lab: record.Lab) -> None:
    """Keep the cards' consoles open: while one is, its screen device can be opened too, and no other lab takes it."""
    for card in lab.gpus:
        os.set_inheritable(os.open(f"/dev/tty{card.console}", CONSOLE_FLAGS), True)  # noqa: FBT003 -- the name says it


def main(name: str) -> None:
    """Make the namespace of the lab of that name, report, and become its holder."""
    lab = record.require(name)
    make_mounts(lab)
    open_consoles(lab)
    os.write(1, f"ready {os.getpid()}\n".encode())
    quiet = os.open("/dev/null", os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(quiet, descriptor)
    os.chdir("/")
    os.execvp("sleep", [f"lxgpu-lab-{name}", "infinity"])  # noqa: S606 -- no shell: the pid must stay


if __name__ == "__main__":
    main(sys.argv[1])
