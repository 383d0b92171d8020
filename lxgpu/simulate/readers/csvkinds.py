"""The tables with commas: a lab's jobs, the Philly trace as published for schedulers, and mixes with deadlines."""

from __future__ import annotations

from collections.abc import Mapping

from lxgpu.simulate.jobs import Job
from lxgpu.simulate.readers.attribution import of_chronus, of_philly
from lxgpu.simulate.readers.kinds import RowReader, TraceKind
from lxgpu.simulate.readers.values import BadValueError, instant, label, seconds, unique, whole
from lxgpu.simulate.usual import BATCH

NO_GPUS = "without a GPU"
_MINUTE = 60.0


def _lab(at: Mapping[str, int]) -> RowReader:
    job_id, group, gpus = at["job_id"], at["group"], at["gpus"]
    submit, duration = at["submit_s"], at["duration_s"]
    seen: set[str] = set()

    def job(row: list[str], _count: int) -> Job | str:
        cards, who = whole(row, gpus), label(row, group)
        made = Job(unique(row, job_id, seen), who, cards, seconds(row, submit), seconds(row, duration), who)
        return made if cards else NO_GPUS

    return job


def _philly(at: Mapping[str, int]) -> RowReader:
    """Jobs have no number of their own there: their place in the file, from 0, is taken."""
    submit, duration, gpus, cluster = at["timestamp"], at["duration"], at["num_gpus"], at["cluster"]

    def job(row: list[str], count: int) -> Job | str:
        cards, who = whole(row, gpus), label(row, cluster)
        made = Job(str(count), who, cards, instant(row, submit), seconds(row, duration), who)
        return made if cards else NO_GPUS

    return job


def _chronus(at: Mapping[str, int]) -> RowReader:
    """All times are minutes. The deadline is so long after the submission as `expect_time_list` says."""
    job_id, user, gpus, submit = at["job_id"], at["user"], at["num_gpu"], at["submit_time"]
    duration, expected, effort = at["duration"], at["expect_time_list"], at["best_effort"]
    seen: set[str] = set()

    def job(row: list[str], _count: int) -> Job | str:
        cards, who, flag = whole(row, gpus), label(row, user), row[effort].strip()
        if flag not in ("0", "1"):
            raise BadValueError(effort, f"0 or 1 is wanted, not {flag[:40]!r}")
        come, length = seconds(row, submit, unit_s=_MINUTE), seconds(row, duration, unit_s=_MINUTE)
        due, lower = (None, BATCH) if flag == "1" else (come + seconds(row, expected, unit_s=_MINUTE), "")
        group = who.removeprefix("vc_")
        made = Job(unique(row, job_id, seen), who, cards, come, length, group, class_name=lower, deadline_s=due)
        return made if cards else NO_GPUS

    return job


LAB = TraceKind("lab CSV", ("job_id", "group", "gpus", "submit_s", "duration_s"), _lab, about=of_philly)
PHILLY = TraceKind(
    "Philly CSV",
    ("timestamp", "duration", "num_gpus", "gpu_time", "cluster"),
    _philly,
    dated=True,
    about=of_philly,
)
CHRONUS = TraceKind(
    "Chronus CSV",
    ("job_id", "user", "num_gpu", "submit_time", "duration", "expect_time_list", "best_effort"),
    _chronus,
    about=of_chronus,
)
