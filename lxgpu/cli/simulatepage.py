"""`lxgpu simulate --html`: can it be written, is said before the runs; written whole after them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lxgpu.errors import LxgpuError

if TYPE_CHECKING:
    from lxgpu.simulate.jobs import Lab, Workload
    from lxgpu.simulate.runs import Run

TEMPLATE = "simulate/page.html.j2"


def check(path: Path) -> None:
    """See that there will be a page, before anything takes its time.

    Raises:
        LxgpuError: `no_plots`: matplotlib is missing. `usage`: the file cannot be written.
    """
    from lxgpu.simulate.plots import need  # noqa: PLC0415 -- for pages only

    need()
    folder = path.parent
    if path.is_dir():
        raise _unwritten(path, "it is a folder")
    if not folder.is_dir():
        raise _unwritten(path, f"there is no folder {folder}")
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise _unwritten(path, "you may not write there")


def write(path: Path, workload: Workload, lab: Lab, runs: Sequence[Run]) -> None:
    """Write the page.

    Raises:
        LxgpuError: `usage`: the file cannot be written. `bad_file`: a template of the lab's own is wrong.
    """
    from lxgpu import __version__, wiring  # noqa: PLC0415 -- for pages only
    from lxgpu.simulate.page import page_of  # noqa: PLC0415

    text = wiring.texts().render(TEMPLATE, page=page_of(workload, lab, runs), version=__version__)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise _unwritten(path, error.strerror or str(error)) from error


def _unwritten(path: Path, why: str) -> LxgpuError:
    return LxgpuError("usage", f"--html: {path} cannot be written", why=why, fix="name another file")
