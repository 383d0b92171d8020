"""Where the files are that come with lxgpu: profiles and templates, from a checkout or from the installed package."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Literal

from lxgpu.errors import LxgpuError


def shipped(what: Literal["profiles", "templates"]) -> Path:
    """The folder of the shipped files of that kind.

    Raises:
        LxgpuError: `internal`: the package is not whole.
    """
    package = Path(str(files("lxgpu")))
    installed, checkout = package / what, package.parent / what
    if installed.is_dir():
        return installed
    if (package.parent / "pyproject.toml").is_file() and checkout.is_dir():
        return checkout
    raise LxgpuError("internal", f"the {what} that come with lxgpu are missing", why=f"looked in {installed}")
