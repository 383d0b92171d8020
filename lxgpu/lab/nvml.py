"""Building the stand-in NVML library."""

from __future__ import annotations

from importlib.resources import as_file, files
from typing import TYPE_CHECKING

from lxgpu.lab.programs import run

if TYPE_CHECKING:
    from lxgpu.lab.record import Lab

LIBRARY = "libnvidia-ml.so.1"
FLAGS = ("-O2", "-Wall", "-Wextra", "-shared", "-fPIC", f"-Wl,-soname,{LIBRARY}")


def build(lab: Lab) -> None:
    """Compile the library into the lab's folder, unless the source is older than what is there."""
    library = lab.paths.nvml / LIBRARY
    with as_file(files("lxgpu.lab")) as folder:
        source, parts = folder / "nvml_stub.c", tuple(folder.glob("nvml_*.c"))
        if library.exists() and library.stat().st_mtime > max(part.stat().st_mtime for part in parts):
            return
        fresh = library.with_suffix(".new")
        run(["gcc", *FLAGS, "-o", str(fresh), str(source), "-ldl", "-pthread"])
        fresh.replace(library)
