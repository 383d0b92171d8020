"""A trace file as lines of text, one after the other, plain or gzipped, with whatever line ends it has."""

from __future__ import annotations

import gzip
import io
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from lxgpu.errors import LxgpuError, Problem
from lxgpu.regular import open_regular

LONGEST = 1 << 20
"""Characters of the longest line that is read; a longer one is no trace (a device, an image of a disk)."""
_GZIP = b"\x1f\x8b"
_SHOWN = 160
_COMMENT = ";"


class Lines:
    """The lines of a file, without their ends; it knows where it is, so that a mistake can be shown in its place."""

    def __init__(self, name: str, file: IO[str]) -> None:
        self.name, self.number, self.text = name, 0, ""
        self._file = file

    def __iter__(self) -> Iterator[str]:
        """Gives each line that has something in it.

        Raises:
            LxgpuError: `bad_file`: it is no UTF-8 text (comments may be anything), or has a line without an end.
        """
        while line := self._file.readline(LONGEST):
            self.number += 1
            self.text = text = line.rstrip("\r\n")
            if len(line) == LONGEST:
                raise self.error([self.problem("the line is too long for a trace")])
            if not text.isascii() and not text.startswith(_COMMENT) and not _is_text(text):
                raise self.error([self.problem("this is no UTF-8 text")], fix="save the file as UTF-8")
            if text and not text.isspace():
                yield text

    def problem(self, text: str, *, at: int = 0, path: str = "") -> Problem:
        """A mistake in the present line; `at` counts its characters from 0, `path` names the value."""
        where = f"{self.name}:{self.number}:{at + 1}" + (f": {path}" if path else "")
        start = max(0, at - _SHOWN // 2) if len(self.text) > _SHOWN else 0
        shown = "".join(char if char.isprintable() else " " for char in self.text[start : start + _SHOWN])
        return Problem(text, where, f"{shown.rstrip()}\n{' ' * (at - start)}^" if shown.strip() else "")

    def error(self, problems: list[Problem], *, fix: str = "", all_of_them: bool = True) -> LxgpuError:
        """The error that lists the mistakes found; `all_of_them`: the file was read to its end."""
        count = "a mistake" if len(problems) == 1 else f"{len(problems)} mistakes"
        count = count if all_of_them else f"at least {count}"
        return LxgpuError("bad_file", f"{self.name} has {count}", problems=problems, fix=fix)


@contextmanager
def opened(path: Path) -> Iterator[Lines]:
    """Opens a file, gzipped or not (by its first bytes, not by its name), with or without a byte order mark.

    `-` is what comes in.

    Raises:
        LxgpuError: `bad_file`: it cannot be read to its end.
    """
    try:
        with os.fdopen(0, "rb", closefd=False) if str(path) == "-" else open_regular(path) as raw:
            packed = raw.peek(len(_GZIP)).startswith(_GZIP)
            data = cast("IO[bytes]", gzip.GzipFile(fileobj=raw) if packed else raw)
            with io.TextIOWrapper(data, "utf-8-sig", errors="surrogateescape") as file:
                yield Lines("what came in" if str(path) == "-" else str(path), file)
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise LxgpuError("bad_file", f"{path} cannot be read", why=reason) from error


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
