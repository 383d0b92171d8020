"""From rows to a workload: each row is read by its kind, all mistakes are told at once, what is left out is counted."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from lxgpu.errors import Problem
from lxgpu.simulate.jobs import MONDAY, Job, Workload, in_time
from lxgpu.simulate.readers.kinds import RowReader, TraceKind
from lxgpu.simulate.readers.opening import Lines
from lxgpu.simulate.readers.values import BadValueError

MOST_PROBLEMS = 20
"""So many mistakes are listed; after that the file is probably of another kind."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def read_table(lines: Lines, rest: Iterable[str], kind: TraceKind, header: list[str]) -> Workload:
    """Reads what comes behind the header.

    Raises:
        LxgpuError: `bad_file`: the mistakes of the file, or there is no job in it.
    """
    quoted = kind.separator == ","  # sacct quotes nothing, and its job names may have quotes
    rows = csv.reader(
        rest, delimiter=kind.separator, quoting=csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE, strict=True
    )
    make = kind.made({name: place for place, name in enumerate(header)})
    jobs, left_out = read_rows(lines, rows, make, width=len(header), separator=kind.separator)
    return workload(lines, jobs, left_out, about=kind.about(jobs), dated=kind.dated)


def read_rows(
    lines: Lines, rows: Iterable[list[str]], make: RowReader, *, width: int, separator: str
) -> tuple[list[Job], Counter[str]]:
    """Reads all rows; each has as many values as `width` says, or one empty one more at its end.

    Raises:
        LxgpuError: `bad_file`: the mistakes, the first twenty at most.
    """
    jobs: list[Job] = []
    left_out: Counter[str] = Counter()
    problems: list[Problem] = []
    try:
        for count, row in enumerate(rows):
            if len(row) != width and not (len(row) == width + 1 and not row[-1]):
                problems.append(lines.problem(f"{width} values are wanted, as in the header, not {len(row)}"))
            else:
                try:
                    made = make(row, count)
                except BadValueError as error:
                    problems.append(lines.problem(str(error), at=_offset(lines.text, error.column, separator)))
                else:
                    if isinstance(made, Job):
                        jobs.append(made)
                    else:
                        left_out[made] += 1
            if len(problems) == MOST_PROBLEMS:
                break
    except csv.Error as error:
        problems.append(lines.problem(f"the line cannot be cut into values: {error}"))
    if problems:
        raise lines.error(problems, all_of_them=len(problems) < MOST_PROBLEMS)
    return jobs, left_out


def workload(
    lines: Lines, jobs: list[Job], left_out: Counter[str], *, about: str, dated: bool, start: datetime = MONDAY
) -> Workload:
    """The jobs as a workload; of a dated kind second 0 is the first submission.

    Raises:
        LxgpuError: `bad_file`: there is no job.
    """
    rows = len(jobs) + left_out.total()
    said = [f"{count} of {rows} rows {reason} left out" for reason, count in left_out.items()]
    if not jobs:
        raise lines.error([Problem("there is no job in it: " + ("; ".join(said) or "only a header"), lines.name)])
    if dated:
        first = min(job.submit_s for job in jobs)
        start = _EPOCH + timedelta(seconds=first)
        for place, job in enumerate(jobs):  # in place: a long trace is not held twice
            jobs[place] = replace(job, submit_s=job.submit_s - first)
    name = Path(lines.name).name
    return Workload(name, in_time(jobs), "; ".join([about or name, *said]), start)


def _offset(line: str, column: int, separator: str) -> int:
    """Where a value begins in its line; near it, if values stand in quotes."""
    if separator.isspace():
        return [match.start() for match in re.finditer(r"\S+", line)][column]
    return sum(len(value) + len(separator) for value in line.split(separator)[:column])
