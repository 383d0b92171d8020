"""Building the base image: a small Debian with systemd and sshd, made by debootstrap."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING

from lxgpu.errors import LxgpuError
from lxgpu.lab import image_recipe as recipe
from lxgpu.lab.programs import check_image_programs, run, search_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

APT = Path("/etc/apt")
# The lines of debootstrap that say where it stands; it has one a package besides.
PHASES = (
    "I: Retrieving Packages", "I: Checking component", "I: Installing core", "I: Unpacking required",
    "I: Configuring required", "I: Unpacking the base", "I: Configuring the base", "I: Base system installed",
)  # fmt: skip
DEBIAN_MIRROR = re.compile(r"(?<![\w#+])(https?://\S+/debian/?)(?=\s|$)", re.MULTILINE)
# The whole build hangs from one process that ends with us, and everything in its pid namespace with it.
CAGE = ("setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--propagation", "private", "--pid", "--fork",
        "--kill-child", "--mount-proc")  # fmt: skip


def build_root(target: Path, progress: Callable[[str], None]) -> None:
    """Build the image's root file system in the empty folder `target`; needs the network, takes about a minute.

    Args:
        target: the folder to fill; on an error or an interruption half of it stays, for the caller to remove.
        progress: called with one line of text at a time.

    Raises:
        LxgpuError: `unavailable` when tools are missing, `lab_step` when the build fails.
    """
    check_image_programs()
    _debootstrap(target, progress)
    progress("image: settings")
    for name, text in recipe.FILES.items():
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.write_text(text)
    for name, to in recipe.LINKS.items():
        (target / name).unlink(missing_ok=True)
        (target / name).symlink_to(to)
    _write_sources(target)
    _set_units(target)
    for pattern in recipe.REMOVED:
        for path in target.glob(pattern):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def _debootstrap(target: Path, progress: Callable[[str], None]) -> None:
    mirror = host_mirror()
    command = [*CAGE, "debootstrap", "--variant=minbase", f"--include={','.join(recipe.PACKAGES)}", recipe.SUITE]
    command += [str(target), *([mirror] if mirror else [])]
    env = {**os.environ, **_proxies(), "PATH": search_path(), "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}
    last: deque[str] = deque(maxlen=6)
    with subprocess.Popen(
        command, env=env, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as build:
        try:
            for line in build.stdout or ():
                last.append(line.rstrip())
                if line.startswith(PHASES):
                    progress(f"image: {line[3:].strip()}")
        except BaseException:
            build.kill()
            build.communicate()  # its children die with it: the pipe closes when the last one has
            raise
    if build.returncode != 0:
        raise LxgpuError(
            "lab_step",
            f"debootstrap failed with status {build.returncode}",
            why=list(last),
            fix="the first image needs a Debian mirror: check the network and /etc/apt, then repeat",
        )


def host_mirror() -> str | None:
    """The Debian mirror that this machine's apt uses, or None: then debootstrap takes its own default."""
    return next((mirror for text in _apt_sources() if (mirror := find_mirror(text))), None)


def find_mirror(text: str) -> str | None:
    """The first Debian archive in the text of a sources file, comments aside; None for Ubuntu's, say."""
    lines = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    found = DEBIAN_MIRROR.search(lines)
    return found[1].rstrip("/") if found else None


def _apt_sources() -> Iterator[str]:
    folder = APT / "sources.list.d"
    for path in (*sorted(folder.glob("*.sources")), APT / "sources.list", *sorted(folder.glob("*.list"))):
        if path.is_file():
            yield path.read_text(errors="replace")


def _proxies() -> dict[str, str]:
    """The proxies of apt's settings, as the variables that debootstrap's downloader reads."""
    words = run(["apt-config", "shell", "http_proxy", "Acquire::http::Proxy", "https_proxy", "Acquire::https::Proxy"])
    found = re.findall(r"^(https?_proxy)='(.*)'$", words, re.MULTILINE)
    return {name: value for name, value in found if value and value != "DIRECT"}


def _write_sources(target: Path) -> None:
    """Point the image at Debian's public mirror as debootstrap knows it: ours may be reachable from here only."""
    program = shutil.which("debootstrap", path=search_path())
    default = re.search(r'^DEF_MIRROR="(\S+)"', Path(program).read_text(), re.MULTILINE) if program else None
    if default is None:
        return  # debootstrap has written the mirror it used
    mirror, suite = default[1].rstrip("/"), recipe.SUITE
    lines = [f"deb {mirror} {suite} main", f"deb {mirror} {suite}-updates main"]
    lines.append(f"deb {mirror}-security {suite}-security main")
    (target / "etc/apt/sources.list").write_text("\n".join(lines) + "\n")


def _set_units(target: Path) -> None:
    units = target / "etc/systemd/system"
    for unit in recipe.MASKED:
        (units / unit).unlink(missing_ok=True)
        (units / unit).symlink_to("/dev/null")
    run(["chroot", str(target), "systemctl", "enable", *recipe.ENABLED])
