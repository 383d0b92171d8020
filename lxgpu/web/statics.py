"""The page's own files, in memory: each under a name that changes with its content, packed once."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lxgpu.web.calendar import COLUMNS

TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


@dataclass(frozen=True, slots=True)
class File:
    """A file as it is sent. `packed` is the same by gzip."""

    kind: str
    plain: bytes
    packed: bytes
    mark: str


class Statics:
    """All files below a folder that a browser may ask for; nothing else is ever read."""

    def __init__(self, folder: Path) -> None:
        found = {
            path.relative_to(folder).as_posix(): path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.suffix in TYPES and path.is_file()
        }
        found["columns.css"] = _columns()
        self.files: Mapping[str, File] = {name: _file(name, content) for name, content in found.items()}

    def address(self, name: str) -> str:
        """Where a page finds a file."""
        return f"/static/{self.files[name].mark}/{name}"


def _file(name: str, content: bytes) -> File:
    mark = hashlib.sha256(content).hexdigest()[:12]
    return File(TYPES[Path(name).suffix], content, gzip.compress(content, mtime=0), mark)


def _columns() -> bytes:
    """The places of the calendar's grid: a page may not say `style=`, so each place has a class."""
    starts = "".join(f".a{at}{{grid-column-start:{at}}}" for at in range(1, COLUMNS + 1))
    widths = "".join(f".w{span}{{grid-column-end:span {span}}}" for span in range(1, COLUMNS + 1))
    return (starts + widths).encode()
