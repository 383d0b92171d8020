"""A text with a name: the file that mistakes are shown in, as `file:line:column`, with the line and a caret."""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from lxgpu.errors import LxgpuError, Problem
from lxgpu.regular import open_regular

LARGEST_FILE = 16 * 1024 * 1024
"""Bytes (and characters) of the largest file that is read: a mistaken path, or an attack."""
MEND = "mend the lines that are named, then repeat; nothing was changed"
"""The next step after mistakes in a file."""
_BREAK = re.compile("\r\n|[\r\n\x85\u2028\u2029]")
_WIDEST = 160
"""Characters of a shown line; of a longer one the part around the caret is shown."""


@dataclass(frozen=True, slots=True, order=True)
class Mark:
    """A place in a text; line and column count from 1, columns in characters."""

    line: int
    column: int


@dataclass(frozen=True)
class Source:
    """A text and the name it is shown under, usually the path that was given."""

    name: str
    text: str

    @cached_property
    def lines(self) -> list[str]:
        """The lines, cut where YAML cuts them."""
        return _BREAK.split(self.text)

    def mark_at(self, offset: int) -> Mark:
        """The place of the character with that number, counted from 0."""
        before = _BREAK.split(self.text[:offset])
        return Mark(len(before), len(before[-1]) + 1)

    def at(self, mark: Mark) -> str:
        """The character at a place; empty at the end of a line."""
        line = self.lines[mark.line - 1] if mark.line <= len(self.lines) else ""
        return line[mark.column - 1 : mark.column]

    def problem(self, mark: Mark, text: str, *, path: str) -> Problem:
        """A mistake at a place; `path` is the way to the value inside the file, such as `users.bob.limit`."""
        where = f"{self.name}:{mark.line}:{mark.column}" + (f": {path}" if path else "")
        return Problem(text=text, where=where, excerpt=self.excerpt(mark))

    def excerpt(self, mark: Mark) -> str:
        """The line of a place and a line with a caret below the column; empty when the line is not there."""
        if not 0 < mark.line <= len(self.lines):
            return ""
        line = self.lines[mark.line - 1]
        before = mark.column - 1
        start = max(0, before - _WIDEST // 2) if len(line) > _WIDEST else 0
        shown = "".join(map(_printable, line[start : start + _WIDEST])).rstrip()
        pad = "".join("\t" if char == "\t" else " " * _width(char) for char in line[start:before])
        return f"{shown}\n{pad}^"

    def error(self, problems: Iterable[Problem]) -> LxgpuError:
        """The error that lists all mistakes of this text, in the order of the lines."""
        found = sorted(problems, key=_place)
        count = "a mistake" if len(found) == 1 else f"{len(found)} mistakes"
        return LxgpuError("bad_file", f"{self.name} has {count}", problems=found, fix=MEND)


def read_source(path: Path) -> Source:
    """Reads a UTF-8 file, with or without a byte order mark.

    Raises:
        LxgpuError: `bad_file`: it cannot be read, is too long, or is no UTF-8.
    """
    try:
        with open_regular(path) as file:
            raw = file.read(LARGEST_FILE + 1)
    except OSError as error:
        reason = error.strerror or str(error)
        raise LxgpuError(
            "bad_file", f"{path} cannot be read", why=reason, fix="name a file that is there and may be read"
        ) from error
    if len(raw) > LARGEST_FILE:
        raise LxgpuError(
            "bad_file",
            f"{path} is too long",
            why=f"a file has at most {LARGEST_FILE} bytes",
            fix="is it the right file? Leave out what is not needed",
        )
    return decode(raw, name=str(path))


def decode(raw: bytes, *, name: str) -> Source:
    """Turns bytes into a source.

    Raises:
        LxgpuError: `bad_file`: the bytes are no UTF-8.
    """
    raw = raw.removeprefix(codecs.BOM_UTF8)
    try:
        return Source(name=name, text=raw.decode())
    except UnicodeDecodeError as error:
        good = Source(name=name, text=raw[: error.start].decode())
        problem = good.problem(good.mark_at(len(good.text)), f"the byte 0x{raw[error.start]:02X} is no UTF-8", path="")
        raise LxgpuError(
            "bad_file", f"{name} is no UTF-8 text", problems=[problem], fix="save the file as UTF-8"
        ) from error


def _place(problem: Problem) -> tuple[int, int]:
    match = re.search(r":([0-9]+):([0-9]+)(?::|$)", problem.where)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _printable(char: str) -> str:
    return char if char.isprintable() or char == "\t" else "�"


def _width(char: str) -> int:
    """Columns that a character takes on a terminal."""
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
