"""People's homes handed in: each an archive on this host, before their container is taken away."""

from __future__ import annotations

from pathlib import Path

from lxgpu.errors import LxgpuError
from lxgpu.ports import Relay, Streams
from lxgpu.services.lending import ready_instance
from lxgpu.services.runprogram import Program, run_inside
from lxgpu.services.site import Site
from lxgpu.services.wanted import home_path

LIMIT_S = 4 * 3600.0
"""A home that takes longer to pack is not handed in."""
_CHANGED = 1
"""As tar ends when a file changed while it was read; all others are whole."""


def archive_of(folder: str, name: str) -> str:
    """The archive of a container's home in a folder."""
    return str(Path(folder) / f"{name}.tar.gz")


def check_folder(folder: str, names: tuple[str, ...]) -> None:
    """Before anything is done: error `usage` where archives cannot be written, or would meet older ones."""
    if not Path(folder).is_dir():
        raise LxgpuError("usage", f"there is no folder {folder}", fix=f"mkdir {folder}")
    there = [path for name in names if Path(path := archive_of(folder, name)).exists()]
    if there:
        why = [f"{path} is there already" for path in there[:10]]
        raise LxgpuError("usage", "archives would meet older ones", why=why, fix="give another folder, or move those")


def hand_in(site: Site, name: str, folder: str, relay: Relay) -> str:
    """Pack the home of a container into the folder, read from inside by its root; the archive's path.

    What is mounted below the home is left out.

    Errors: `not_found`; `not_ready`: it does not run; `conflict`: another command packs it; `interrupted`: a signal
    came; `usage`: the archive cannot be written, or is none; `engine`: the home cannot be read.
    """
    with site.locks.hold(f"home.{name}", wait_s=0, once=True) as mine:
        if not mine:
            raise LxgpuError("conflict", f"another command packs the home of {name}", fix="repeat when that is over")
        return _packed(site, name, folder, relay)


def _packed(site: Site, name: str, folder: str, relay: Relay) -> str:
    row = ready_instance(site, name)
    path = archive_of(folder, name)
    if not row.running:
        fix = f"lxgpu start {name}"
        raise LxgpuError("not_ready", f"{name} does not run", why="its home is read from inside", fix=fix)
    site.say("packing the home")
    home = home_path(row.owner)
    words = ("tar", "-c", "-z", "-f", "-", "--one-file-system", "-C", str(Path(home).parent), "--", Path(home).name)
    with relay.kept(path) as target:
        status = run_inside(site, name, Program(words, limit_s=LIMIT_S), relay, Streams(-1, target, 2))
        if relay.heard:
            raise LxgpuError("interrupted", f"{name}: a signal came while its home was packed")
        if status not in {0, _CHANGED}:
            why = f"tar inside ended with status {status}"
            raise LxgpuError("engine", f"the home of {name} could not be packed", why=why, fix=f"lxgpu show {name}")
    return path
