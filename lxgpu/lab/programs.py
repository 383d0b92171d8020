"""Running the machine's programs, and saying up front which of them are missing."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from lxgpu.errors import LxgpuError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# program -> Debian's package; the image's tools are needed only when an image has to be built
NEEDED: dict[str, str] = {
    "lxd": "lxd",
    "lxc": "lxd-client",
    "lxcfs": "lxcfs",
    "mkfs.btrfs": "btrfs-progs",
    "dnsmasq": "dnsmasq-base",
    "gcc": "gcc",
    "nft": "nftables",
    "ip": "iproute2",
    "newuidmap": "uidmap",
    "rsync": "rsync",
    "chroot": "coreutils",
    "nsenter": "util-linux",
    "unshare": "util-linux",
    "setsid": "util-linux",
    "setpriv": "util-linux",
    "mount": "mount",
    "losetup": "mount",
}
NEEDED_FOR_IMAGE: dict[str, str] = {
    "debootstrap": "debootstrap",
    "tar": "tar",
    "chroot": "coreutils",
    "unshare": "util-linux",
    "setpriv": "util-linux",
    "mount": "mount",
}
HEADERS = {"/usr/include/stdio.h": "libc6-dev"}
CONSOLES = Path("/dev/tty0")
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def search_path() -> str:
    """The caller's PATH, and the system's folders after it, which a user's PATH may lack."""
    return f"{os.environ.get('PATH', '')}:{SYSTEM_PATH}".lstrip(":")


def missing_packages(needed: Mapping[str, str]) -> list[str]:
    """The Debian packages of those programs that this machine lacks."""
    path = search_path()
    return sorted({package for program, package in needed.items() if shutil.which(program, path=path) is None})


def check_programs(*, for_image: bool) -> None:
    """Check that all programs are there and that we may use them.

    Raises:
        LxgpuError: `not_allowed` for anybody but root; `unavailable`, with the packages to install.
    """
    if os.geteuid() != 0:
        raise LxgpuError("not_allowed", "the lab needs root", why="it makes mounts and devices", fix="run it with sudo")
    if not CONSOLES.exists():
        raise LxgpuError(
            "unavailable",
            "this kernel has no text consoles",
            why="the pretend cards take spare ones for their nodes",
            fix="run the lab on a machine or in a virtual machine with Debian's or Ubuntu's kernel",
        )
    packages = missing_packages(NEEDED | (NEEDED_FOR_IMAGE if for_image else {}))
    packages += [package for header, package in HEADERS.items() if not Path(header).exists()]
    if packages:
        raise LxgpuError(
            "unavailable",
            "the lab lacks programs of this machine",
            why=f"missing packages: {', '.join(packages)}",
            fix=f"apt-get install --no-install-recommends {' '.join(packages)}",
        )


def check_image_programs() -> None:
    """Check what building an image needs, on a server as in a lab; errors as `check_programs`."""
    if os.geteuid() != 0:
        why = "a root file system has files of all owners"
        raise LxgpuError("not_allowed", "building an image needs root", why=why, fix="run it with sudo")
    packages = missing_packages(NEEDED_FOR_IMAGE)
    if packages:
        raise LxgpuError(
            "unavailable",
            "building an image lacks programs of this machine",
            why=f"missing packages: {', '.join(packages)}",
            fix=f"apt-get install --no-install-recommends {' '.join(packages)}",
        )


def run(
    argv: Sequence[str], *, text: str | None = None, env: Mapping[str, str] | None = None, limit: float = 60
) -> str:
    """Run a program to its end and return what it printed.

    Raises:
        LxgpuError: `lab_step`, with the program's own words, when it fails or takes longer than `limit` seconds.
    """
    full = {**os.environ, "PATH": search_path(), "LC_ALL": "C.UTF-8", **(env or {})}
    try:
        done = subprocess.run(argv, input=text, env=full, timeout=limit, capture_output=True, text=True, check=False)
    except subprocess.TimeoutExpired as error:
        raise LxgpuError(
            "lab_step", f"{argv[0]} did not end within {limit:g} s", why=f"command: {' '.join(argv)}", fix="try again"
        ) from error
    if done.returncode != 0:
        words = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        raise LxgpuError(
            "lab_step",
            f"{argv[0]} failed with status {done.returncode}",
            why=[f"command: {' '.join(argv)}", *words[-5:]],
            fix="mend the cause, then run the same lab command again",
        )
    return done.stdout
