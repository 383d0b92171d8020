"""What Slurm remembers of its jobs: `sacct --allusers -P -o JobID,User,Account,Submit,Start,End,AllocTRES`.

Source: https://slurm.schedmd.com/sacct.html. Times are the cluster's wall clock and are taken as UTC. The duration is
`ElapsedRaw` or `Elapsed` where one is there (without the time that a job was suspended), else from `Start` to `End`;
`Timelimit` or `TimelimitRaw` is for how long the owner asked. GPUs are those of the first column that names any.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from lxgpu.simulate.jobs import Job
from lxgpu.simulate.readers.kinds import RowReader, TraceKind
from lxgpu.simulate.readers.values import BadValueError, instant, label, seconds, span

GPU_COLUMNS = ("AllocTRES", "AllocGRES", "ReqTRES")
_NO_TIME = frozenset({"", "unknown", "none", "n/a"})
_GPUS = re.compile(r"(?:gres[/:])?gpu(?P<kind>:[^=:,(]+)?[=:](?P<count>[0-9]{1,7})(?:\(.*)?", re.ASCII)
"""One resource of a list: gres/gpu=2, gres/gpu:a100=2, gpu:2, gpu:tesla:2(S:0-1)."""
_BETWEEN = re.compile(r",(?![^(]*\))")
_MINUTE = 60.0


def gpus_in(text: str) -> int | None:
    """The GPUs in a list of resources; None if it names none. A count without a kind is that of all kinds."""
    found = [match for part in _BETWEEN.split(text.strip()) if (match := _GPUS.fullmatch(part.strip()))]
    if not found:
        return None
    plain = [int(match["count"]) for match in found if match["kind"] is None]
    return sum(plain or [int(match["count"]) for match in found])


def _sacct(at: Mapping[str, int]) -> RowReader:
    lists = [at[name] for name in GPU_COLUMNS if name in at]
    job_id, user, account, submit = at["JobID"], at["User"], at["Account"], at["Submit"]

    def job(row: list[str], _count: int) -> Job | str:
        number = label(row, job_id)
        if "." in number:
            return "that are job steps"
        lasted = _lasted(row, at)
        if isinstance(lasted, str):
            return lasted
        gpus = next((found for place in lists if (found := gpus_in(row[place])) is not None), 0)
        if not gpus:
            return "without a GPU"
        who, group = label(row, user), row[account].strip()
        return Job(number, who, gpus, instant(row, submit), lasted, group, asked_s=_limit(row, at))

    return job


def _lasted(row: list[str], at: Mapping[str, int]) -> float | str:
    """How long the job ran, or why it is left out."""
    start, end = at["Start"], at["End"]
    if row[start].strip().lower() in _NO_TIME:
        return "that never started"
    if row[end].strip().lower() in _NO_TIME:
        return "that still ran"
    lasted = instant(row, end) - instant(row, start)
    if lasted < 0:
        raise BadValueError(end, "the end is before the start")
    if "ElapsedRaw" in at:
        lasted = seconds(row, at["ElapsedRaw"])
    elif "Elapsed" in at:
        lasted = span(row, at["Elapsed"])
    if not lasted and "State" in at and row[at["State"]].startswith("CANCELLED"):
        return "that never started"
    return lasted


def _limit(row: list[str], at: Mapping[str, int]) -> float:
    """The time limit in seconds; 0 where there is none, or the partition's."""
    if "TimelimitRaw" in at and row[at["TimelimitRaw"]].strip().isdecimal():
        return seconds(row, at["TimelimitRaw"], unit_s=_MINUTE)
    if "Timelimit" in at and row[at["Timelimit"]][:1].isdecimal():
        return span(row, at["Timelimit"])
    return 0.0


SACCT = TraceKind(
    "sacct export",
    ("JobID", "User", "Account", "Submit", "Start", "End"),
    _sacct,
    separator="|",
    dated=True,
    one_of=GPU_COLUMNS,
)
