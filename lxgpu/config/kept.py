"""Checked values of a file, kept as JSON beside the inventory, so that an unchanged file is not checked again.

Reading what is kept takes 1 ms; YAML and pydantic take 150. A file of this kind is root's alone (mode 0600), and one
that somebody else could have written, or that another version of lxgpu wrote, stands for nothing.
"""

from __future__ import annotations

import json
import os
import time

from lxgpu import __version__

TYPE_CHECKING = False  # `lxgpu ls` reads this, and counts every import
if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

_FRESH_S = 2.0
"""A file changed this recently may change again within the same time stamp: its stamp says nothing yet."""


def stamp(path: Path | str) -> list[int] | None:
    """What changes when the file does: device, inode, size, times.

    Returns:
        Numbers to compare; none of them when there is no file; None when it is too fresh to tell.
    """
    try:
        found = os.stat(path)  # noqa: PTH116 -- pathlib is not loaded for this
    except OSError:
        return []
    if abs(time.time() - found.st_mtime) < _FRESH_S:
        return None
    return [found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns]


def read_kept(kept: Path | str) -> dict[str, Any] | None:
    """What `keep` wrote there; None when nothing is there that can be believed."""
    try:
        with open(kept, encoding="utf-8") as file:  # noqa: PTH123 -- as above
            found = os.fstat(file.fileno())
            value = json.load(file)
    except (OSError, ValueError):
        return None
    safe = found.st_uid in (0, os.geteuid()) and not found.st_mode & 0o022
    if not safe or not isinstance(value, dict) or value.get("lxgpu") != __version__:
        return None
    return value


def keep(kept: Path, **values: object) -> str:
    """Writes values aside and moves them into place; returns why that failed, or nothing."""
    aside = kept.with_name(f".{kept.name}.{os.getpid()}")
    text = json.dumps({"lxgpu": __version__, **values})
    try:
        kept.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        aside.replace(kept)
    except OSError as error:
        from contextlib import suppress  # noqa: PLC0415 -- for the error only

        with suppress(OSError):
            aside.unlink()
        return f"{kept}: {error.strerror or error}"
    return ""
