"""The lab's stand-in for libnvidia-ml, built in a directory of a test's own."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from lxgpu.model.gpu import Gpu

_SOURCE = Path(__file__).parents[1] / "lxgpu/lab/nvml_stub.c"
_NAME = "libnvidia-ml.so.1"


class Library:
    """The library and what it says; `directory` belongs into LD_LIBRARY_PATH."""

    def __init__(self, directory: Path, gpus: Sequence[Gpu]) -> None:
        self.directory = directory
        self._gpus = gpus
        argv = ["gcc", "-O1", "-shared", "-fPIC", f"-Wl,-soname,{_NAME}", "-o", _NAME, str(_SOURCE), "-ldl", "-pthread"]
        subprocess.run(argv, cwd=directory, check=True)
        self.write()

    def write(
        self,
        lines: Iterable[str] = (),
        *,
        faults: Mapping[str, str] | None = None,
        busy: Mapping[str, int] | None = None,
    ) -> None:
        """Say this from now on: the cards with their faults and use, and further lines of the library's own kind."""
        text = ["driver 550.54.15 12040"]
        for gpu in self._gpus:
            fault, used = (faults or {}).get(gpu.uuid, "-"), (busy or {}).get(gpu.uuid, 0)
            text.append(f"gpu {gpu.index} {gpu.uuid} {gpu.index} {gpu.pci} 24576 2204 350 {used} {fault} {gpu.model}")
        fresh = self.directory / "state.new"
        fresh.write_text("\n".join([*text, *lines, ""]))
        fresh.replace(self.directory / "state")
