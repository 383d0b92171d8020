"""Reading demand: traces of several kinds, each known by its header, and lxgpu's own history."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

from lxgpu.errors import LxgpuError
from lxgpu.simulate.jobs import Workload
from lxgpu.simulate.readers.csvkinds import CHRONUS, LAB, PHILLY
from lxgpu.simulate.readers.kinds import TraceKind
from lxgpu.simulate.readers.opening import Lines, opened
from lxgpu.simulate.readers.sacct import SACCT
from lxgpu.simulate.readers.swf import looks_like_swf, read_swf
from lxgpu.simulate.readers.tables import read_table

KINDS: tuple[TraceKind, ...] = (LAB, PHILLY, CHRONUS, SACCT)


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
        if looks_like_swf(first):
            return read_swf(lines, chain([first], rest))
        for kind in KINDS:
            header = _columns(first, kind)
            if not kind.lacking(header):
                return read_table(lines, rest, kind, header)
        raise _unknown(lines, first)


def _columns(line: str, kind: TraceKind) -> list[str]:
    """The names in a header; a separator at its end makes none."""
    names = [name.strip() for name in line.split(kind.separator)]
    return names[:-1] if not names[-1] else names


def _unknown(lines: Lines, first: str) -> LxgpuError:
    """No kind has such a header: the nearest one, and what it lacks for that."""
    lacking = {kind.name: kind.lacking(_columns(first, kind)) for kind in KINDS}
    near = min(KINDS, key=lambda kind: len(lacking[kind.name]) / len(kind.lacking(())))
    text = "no known kind of trace has such a header"
    if len(lacking[near.name]) < len(near.lacking(())):
        text += f"; for a {near.name} it lacks {', '.join(lacking[near.name])}"
    return lines.error([lines.problem(text)], fix=_KNOWN)


_KNOWN = "a trace begins with one of these: " + "; ".join(
    [*(f"{kind.name} ({kind.header})" for kind in KINDS), "SWF (a comment after ';', or 18 numbers)"]
)
