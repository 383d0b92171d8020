"""Where the files are that come with lxgpu: profiles and templates, from a checkout or from the installed package."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from lxgpu.errors import LxgpuError


def shipped(what: Literal["profiles", "templates"]) -> Path:
    """The folder of the shipped files of that kind.

    Raises:
        LxgpuError: `internal`: the package is not whole.
    """
    from importlib.resources import files  # noqa: PLC0415 -- 15 ms, and most commands need no shipped file

    package = Path(str(files("lxgpu")))
    installed, checkout = package / what, package.parent / what
    if installed.is_dir():
        return installed
    if (package.parent / "pyproject.toml").is_file() and checkout.is_dir():
        return checkout
    raise LxgpuError("internal", f"the {what} that come with lxgpu are missing", why=f"looked in {installed}")
