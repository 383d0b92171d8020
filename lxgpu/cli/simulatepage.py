"""`lxgpu simulate --html`: can it be written, is said before the runs; written whole after them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lxgpu.cli import pagefile

if TYPE_CHECKING:
    from lxgpu.cli.render import Output
    from lxgpu.simulate.jobs import Lab, Workload
    from lxgpu.simulate.runs import Run

TEMPLATE = "simulate/page.html.j2"


def check(out: Output, path: Path, inputs: Sequence[Path]) -> None:
    """See that there will be a page, before anything takes its time; `inputs` are files that it must not replace.

    Raises:
        LxgpuError: `no_plots`: matplotlib is missing. `usage`: the file cannot be written, or is one of the inputs.
    """
    from lxgpu.simulate.plots import need  # noqa: PLC0415 -- for pages only

    need()
    pagefile.check(out, path, inputs)


def write(out: Output, path: Path, workload: Workload, lab: Lab, runs: Sequence[Run]) -> None:
    """Write the page, and tell where it is.

    Raises:
        LxgpuError: `usage`: the file cannot be written. `bad_file`: a template of the lab's own is wrong.
    """
    from lxgpu import __version__, wiring  # noqa: PLC0415 -- for pages only
    from lxgpu.simulate.page import page_of  # noqa: PLC0415

    page = page_of(workload, lab, runs)
    pagefile.write(out, path, wiring.texts().render(TEMPLATE, page=page, version=__version__))
