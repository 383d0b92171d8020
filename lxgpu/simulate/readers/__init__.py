"""Reading demand: traces of several kinds, each known by its header, and lxgpu's own history."""

from __future__ import annotations

from pathlib import Path

from lxgpu.errors import LxgpuError
from lxgpu.simulate.jobs import Workload
from lxgpu.simulate.readers.csvkinds import CHRONUS, LAB, PHILLY
from lxgpu.simulate.readers.kinds import Kind
from lxgpu.simulate.readers.opening import Lines, opened
from lxgpu.simulate.readers.tables import read_table

KINDS: tuple[Kind, ...] = (LAB, PHILLY, CHRONUS)


def read(path: Path) -> Workload:
    """Reads a trace as it is; gzipped ones too. Its kind is known by its first line.

    Raises:
        LxgpuError: `bad_file`: it cannot be read, is of no known kind, or has mistakes.
    """
    with opened(path) as lines:
        rest = iter(lines)
        first = next(rest, None)
        if first is None:
            raise LxgpuError("bad_file", f"{path} is empty", fix=_KNOWN)
        for kind in KINDS:
            header = [name.strip() for name in first.split(kind.separator)]
            if set(kind.columns) <= set(header):
                return read_table(lines, rest, kind, header)
        raise _unknown(lines, first)


def _unknown(lines: Lines, first: str) -> LxgpuError:
    """No kind has such a header: the nearest one, and what it lacks for that."""
    names = {kind: {name.strip() for name in first.split(kind.separator)} for kind in KINDS}
    near = max(KINDS, key=lambda kind: len(names[kind].intersection(kind.columns)) / len(kind.columns))
    lacking = [name for name in near.columns if name not in names[near]]
    text = "no known kind of trace has such a header"
    if len(lacking) < len(near.columns):
        text += f"; for a {near.name} it lacks {', '.join(lacking)}"
    return lines.error([lines.problem(text)], fix=_KNOWN)


_KNOWN = "a trace begins with one of these: " + "; ".join(
    f"{kind.name} ({kind.separator.join(kind.columns)})" for kind in KINDS
)
