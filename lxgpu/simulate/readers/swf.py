"""The Standard Workload Format of the Parallel Workloads Archive, version 2.2: 18 numbers a line, -1 where not known.

Source: https://www.cs.huji.ac.il/labs/parallel/workload/swf.html. Processors count as GPUs. Read are the job's number
(1), submission (2), run time (4), processors allocated or else requested (5, 8), time requested (9), status (11),
user (12) and group (13).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta

from lxgpu.simulate.jobs import MONDAY, Job, Workload
from lxgpu.simulate.readers.opening import Lines
from lxgpu.simulate.readers.tables import read_rows, workload
from lxgpu.simulate.readers.values import LARGEST_S, number, seconds, whole

FIELDS = 18
COMMENT = ";"
_JOB, _SUBMIT, _RUN, _GOT, _WANTED, _TIME, _STATUS, _USER, _GROUP = 0, 1, 3, 4, 7, 8, 10, 11, 12
_PARTS = (2.0, 3.0, 4.0)
_CANCELLED = 5.0
_START = "UnixStartTime"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def looks_like_swf(line: str) -> bool:
    """Whether a file that begins with that line is of this format: a comment, or 18 numbers."""
    if line.startswith(COMMENT):
        return True
    values = line.split()
    return len(values) == FIELDS and all(_is_number(value) for value in values)


def read_swf(lines: Lines, every: Iterable[str]) -> Workload:
    """Reads all lines, those of the header too. Second 0 is `UnixStartTime` of the header, a Monday without it.

    Lines that tell of a part of a job (status 2 to 4) are left out, since a line of the whole job stands before them.

    Raises:
        LxgpuError: `bad_file`: the mistakes of the file, or there is no job in it.
    """
    header: dict[str, str] = {}
    jobs, left_out = read_rows(lines, _rows(every, header), _job, width=FIELDS, separator=" ")
    begin = header.get(_START, "").split()[:1]
    known = bool(begin) and _is_number(begin[0]) and 0 < float(begin[0]) < LARGEST_S
    start = _EPOCH + timedelta(seconds=float(begin[0])) if known else MONDAY
    about = "; ".join(f"{name}: {header[name]}" for name in ("Computer", "Acknowledge") if header.get(name))
    return workload(lines, jobs, left_out, about=about, dated=False, start=start)


def _rows(every: Iterable[str], header: dict[str, str]) -> Iterator[list[str]]:
    for line in every:
        if line.startswith(COMMENT):
            name, _, value = line.lstrip(COMMENT + " \t").partition(":")
            header.setdefault(name.strip(), "".join(char if char.isprintable() else " " for char in value).strip())
        else:
            yield line.split()


def _job(row: list[str], _count: int) -> Job | str:
    status, ran = number(row, _STATUS), number(row, _RUN)
    if status in _PARTS:
        return "that tell of a part of a job"
    if ran < 0 or (status == _CANCELLED and not ran):
        return "that never ran"
    gpus = next((whole(row, place) for place in (_GOT, _WANTED) if number(row, place) > 0), 0)
    if not gpus:
        return "without a processor"
    asked = seconds(row, _TIME) if number(row, _TIME) > 0 else 0.0
    owner, group = (_name(row, place, what) for place, what in ((_USER, "user"), (_GROUP, "group")))
    come = seconds(row, _SUBMIT)
    return Job(row[_JOB], owner, gpus, come, seconds(row, _RUN), group, asked_s=asked)


def _name(row: list[str], place: int, what: str) -> str:
    value = number(row, place)
    return f"{what}-{value:g}" if value >= 0 else f"{what}-unknown"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
