"""A few lines for everybody who sits at a terminal of an instance, written from the host.

Nothing runs inside, so it works with a full disk, a full process table and a frozen container, and
never waits: a terminal stopped with Ctrl-S counts as missed. Sources: pts(4), openat2(2).
"""

from __future__ import annotations

import os
import stat

from lxgpu.drivers.rooted import below_root
from lxgpu.drivers.syscalls import RESOLVE_BENEATH, RESOLVE_NO_SYMLINKS, RESOLVE_NO_XDEV, openat2

PTS_MAJORS = range(136, 144)
_LONGEST = 1000
"""Characters (4 bytes each at most): a terminal takes 4096 bytes at once, and a warning is a few lines."""


def plain_text(text: str) -> str:
    """The text without anything that could steer a terminal: printable characters and line ends only."""
    lines = text[:_LONGEST].splitlines()
    return "\n".join("".join(char if char.isprintable() else "?" for char in line) for line in lines)


def tell_terminals(init: int, text: str) -> tuple[int, int]:
    """Write to each terminal of the instance: (delivered, missed). Its console is none: nobody sits there.

    Raises:
        OSError: there is no such instance, or it has no /dev/pts.
    """
    message = ("\r\n" + plain_text(text).replace("\n", "\r\n") + "\r\n").encode()
    delivered = missed = 0
    console = _console(init)
    with below_root(init, "dev/pts", os.O_RDONLY | os.O_DIRECTORY) as directory:
        for name in filter(str.isdigit, os.listdir(directory)):  # noqa: PTH208 - a descriptor, no path
            whole = _write(directory, name, message, console)
            delivered += whole is True
            missed += whole is False
    return delivered, missed


def _console(init: int) -> tuple[int, int] | None:
    """The terminal behind the instance's /dev/console: (file system, number); None where there is none."""
    try:
        with below_root(init, "dev/console", os.O_PATH) as handle:
            seen = os.fstat(handle)
    except OSError:
        return None
    return seen.st_dev, seen.st_rdev


def _write(directory: int, name: str, message: bytes, console: tuple[int, int] | None) -> bool | None:
    """Whether the whole message went out; None when nobody can sit here."""
    flags = os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK
    try:
        handle = openat2(directory, name, flags, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV)
    except OSError:
        return None
    try:
        seen = os.fstat(handle)
        if not stat.S_ISCHR(seen.st_mode) or os.major(seen.st_rdev) not in PTS_MAJORS:
            return None
        if (seen.st_dev, seen.st_rdev) == console:
            return None
        return os.write(handle, message) == len(message)
    except OSError:  # stopped (EAGAIN), or closed at this moment (EIO)
        return False
    finally:
        os.close(handle)
