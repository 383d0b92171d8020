"""What tests on a real LXD share: the names of their labs, and the lxc program."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from lxgpu.lab import Lab, LabSpec, down, up
from lxgpu.lab.status import names

Launch = Callable[..., str]
"""`launch(lab, *card_indices)` starts a container with these cards and returns its name."""

_OWNER = re.compile(r"t(?P<letter>[a-z])(?P<pid>\d+)")


def lab_name(letter: str) -> str:
    """A name for a lab of this process: `ta123`, so that a later session knows whose it was."""
    return f"t{letter}{os.getpid()}"


def sweep() -> None:
    """Take down the labs that killed test sessions left."""
    for name in names():
        owner = _OWNER.fullmatch(name)
        if owner and not Path("/proc", owner["pid"]).exists():
            down(name)


def lab_for(spec: LabSpec) -> Iterator[Lab]:
    """The body of a fixture: a lab, taken down afterwards whatever happens."""
    sweep()
    try:
        yield up(spec)
    finally:
        down(spec.name)


def lxc(lab: Lab, *words: str, check: bool = True) -> str:
    """Run the lxc program on a lab and return what it prints."""
    env = {**os.environ, "LXD_DIR": str(lab.lxd_dir), "LXD_CONF": str(lab.paths.client)}
    done = subprocess.run(["lxc", *words], env=env, check=False, capture_output=True, text=True, timeout=120)
    assert not check or done.returncode == 0, f"lxc {' '.join(words)}: {done.stderr}"
    return done.stdout
