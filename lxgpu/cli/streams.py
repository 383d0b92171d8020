"""What becomes of stdout once it takes nothing more. Light to load: each command does."""

from __future__ import annotations

import os
import sys


class OutputClosedError(Exception):
    """Whoever read our stdout went away, as `head` does."""


def refused(error: OSError) -> Exception:
    """What is to be raised for a result that stdout does not take: an error in words, if there is somebody to tell."""
    if isinstance(error, BrokenPipeError):
        return OutputClosedError()
    from lxgpu.errors import LxgpuError  # noqa: PLC0415 -- for the error only

    let_go()
    why = error.strerror or str(error)
    return LxgpuError("usage", "the result cannot be written", why=why, fix="send it elsewhere")


def let_go() -> None:
    """Let stdout lead nowhere: Python writes what is left once more when it ends, and nobody could be told of that."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
