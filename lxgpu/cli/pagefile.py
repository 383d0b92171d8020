"""Pages that commands write: can it be written, is said before the work; written whole after it."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Sequence
from pathlib import Path

from lxgpu.cli.render import tame
from lxgpu.errors import LxgpuError


def check(path: Path, inputs: Sequence[Path] = ()) -> None:
    """See that a page can be written, before anything takes its time; `inputs` are files that it must not replace.

    Raises:
        LxgpuError: `usage`: the file cannot be written, or is one of the inputs.
    """
    try:
        why = _obstacle(path, inputs)
    except OSError as error:
        raise _unwritten(path, error.strerror or str(error)) from error
    if why:
        raise _unwritten(path, why)


def write(path: Path, text: str) -> None:
    """Write a page.

    Raises:
        LxgpuError: `usage`: the file cannot be written.
    """
    try:
        replace(path, tame(text))
    except OSError as error:
        raise _unwritten(path, error.strerror or str(error)) from error


def _obstacle(path: Path, inputs: Sequence[Path]) -> str:
    """Why the page cannot be written there, or nothing."""
    folder = path.parent
    if path.is_dir():
        return "it is a folder"
    if not folder.is_dir():
        return f"there is no folder {folder}"
    if path.exists() and (taken := next((one for one in inputs if one.exists() and path.samefile(one)), None)):
        return f"it is {taken}, which is read here" if taken != path else "it is read here, and would be lost"
    return "" if os.access(path if path.exists() else folder, os.W_OK) else "you may not write there"


def replace(path: Path, text: str) -> None:
    """Put the text there at once or not at all: where a link leads, and with the mode that an older page has."""
    place = Path(os.path.realpath(path))
    there = place.exists()
    if (there and not place.is_file()) or not os.access(place.parent, os.W_OK):
        place.write_text(text, encoding="utf-8")  # a pipe, or a file in a folder that takes no other
        return
    fresh = place.with_name(f".lxgpu-{secrets.token_hex(8)}")
    try:
        with fresh.open("x", encoding="utf-8") as file:
            if there:
                os.fchmod(file.fileno(), stat.S_IMODE(place.stat().st_mode))
            file.write(text)
        fresh.replace(place)
    except BaseException:  # Ctrl-C too
        fresh.unlink(missing_ok=True)
        raise


def _unwritten(path: Path, why: str) -> LxgpuError:
    return LxgpuError("usage", f"--html: {path} cannot be written", why=why, fix="name another file")
