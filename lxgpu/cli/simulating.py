"""The work of `lxgpu simulate`: the runs with their progress, and what is shown of them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lxgpu.cli import simulateinput, simulatepage
from lxgpu.cli.pagefile import STDOUT
from lxgpu.cli.render import Column, Output
from lxgpu.cli.screen import Screen
from lxgpu.figures import HOUR, n_gpus, short_duration, short_name
from lxgpu.instants import format_utc
from lxgpu.simulate.caveats import caveats
from lxgpu.simulate.jobs import Lab, Workload
from lxgpu.simulate.never import in_words
from lxgpu.simulate.runs import READERS, Asked, Run, asked, fitting, missing_classes, run

if TYPE_CHECKING:
    from lxgpu.cli.progress import Steps

_BAR = 20
_MOST = 8


def simulate(out: Output, wanted: simulateinput.Wanted) -> None:
    """Everything from the input to the output; what cannot work is said before the first run."""
    workload, lab = simulateinput.chosen(out.screen, wanted)
    runs = asked(wanted.rules, simulateinput.policies(wanted, lab))
    if wanted.html is not None:
        simulatepage.check(out, wanted.html, [*([wanted.file] if wanted.file else []), *wanted.policies])
    workload, left_out = fitting(workload, lab)
    _foresee(out.screen, workload, lab, runs, left_out=left_out)
    done = play_all(out.screen, workload, lab, runs, left_out=left_out, watch=wanted.html is not None)
    for figures in (one.outcome for one in done):
        if figures.never_started:
            never = f"{figures.never_started:,} of {figures.jobs:,} jobs never started"
            out.screen.warn(f"{figures.name}: {never}: {in_words(figures.never_started_why)}")
    if wanted.html != STDOUT:
        out.items("simulations", [one.outcome for one in done], columns(done), title=title(workload, lab))
    if wanted.html is not None:
        simulatepage.write(out, wanted.html, workload, lab, done)
    if workload.source:
        out.screen.note(f"input: {workload.source}; second 0 is {format_utc(workload.start)}")


def _foresee(screen: Screen, workload: Workload, lab: Lab, runs: Sequence[Asked], *, left_out: int) -> None:
    """Say what will not be played; a rule that cannot play there raises what it has to say before any does."""
    if left_out:
        larger = f"{left_out} {'job is' if left_out == 1 else 'jobs are'} larger than the lab of {n_gpus(lab.cards)}"
        screen.warn(f"{larger} and left out")
    for one in runs:
        simulateinput.maker(one.rule)(workload, lab, one.rules)
        if one.rule in READERS and one.rules is not None:
            if missing := missing_classes(workload, one.rules):
                screen.warn(f"{one.policy} has no class {', '.join(missing)}, so jobs of it are refused")
            for text in caveats(workload, one.rules):
                screen.warn(f"{one.policy}: {text}")


def title(workload: Workload, lab: Lab) -> str:
    """What was played, where: the line above the table."""
    servers = f"{lab.servers} server{'s' * (lab.servers != 1)} of {n_gpus(lab.gpus_per_server)}"
    jobs = f"{len(workload.jobs):,} job{'s' * (len(workload.jobs) != 1)}"
    return f"{workload.name}: {jobs} on {servers}"


def play_all(
    screen: Screen, workload: Workload, lab: Lab, runs: Sequence[Asked], *, left_out: int, watch: bool
) -> list[Run]:
    """One run after the other, each with its line of progress."""
    done = []
    with screen.steps(total=len(runs)) as steps:
        for one in runs:
            told = _Bar(steps, one.name, len(workload.jobs))
            made = run(workload, lab, one, simulateinput.maker(one.rule), left_out=left_out, watch=watch, progress=told)
            steps.done(one.name)
            done.append(made)
    return done


class _Bar:
    """How far a run is, as a bar; a log has no use of it."""

    def __init__(self, steps: Steps, name: str, jobs: int) -> None:
        self._steps, self._name, self._jobs = steps, name, max(jobs, 1)
        self._living = sys.stderr.isatty()
        self._at = 0
        steps.say(name, f"{jobs:,} jobs")

    def __call__(self, done: int) -> None:
        """So many jobs have come in."""
        percent = 100 * done // self._jobs
        if self._living and percent != self._at:
            self._at = percent
            full = _BAR * percent // 100
            self._steps.say(self._name, f"[{'#' * full}{'.' * (_BAR - full)}] {percent} % of {self._jobs:,} jobs")


def _percent(value: float) -> str:
    return f"{100 * value:.1f}%"


def _gpu_hours(value: float) -> str:
    return f"{value / HOUR:,.1f}h"


def _by_group(groups: dict[str, float | None]) -> str:
    known = [f"{short_name(name)} {'never' if wait is None else short_duration(wait)}" for name, wait in groups.items()]
    return ", ".join(known[:_MOST]) + (f" and {len(known) - _MOST} more" if len(known) > _MOST else "") or "-"


NEVER = Column("NEVER", "never_started", lambda count: f"{count:,}", wide=True)
COLUMNS = (
    Column("RULE", "rule"),
    Column("POLICY", "policy"),
    Column("JOBS", "jobs", lambda count: f"{count:,}"),
    Column("USE", "utilization", _percent),
    Column("EFFECTIVE", "effective_use", _percent, wide=True),
    Column("WAIT", "mean_wait_s", short_duration),
    Column("MEDIAN", "median_wait_s", short_duration),
    Column("P95", "p95_wait_s", short_duration),
    Column("JCT", "mean_jct_s", short_duration),
    Column("PREEMPTED", "preemptions", lambda count: f"{count:,}"),
    Column("LOST", "lost_gpu_s", _gpu_hours),
    Column("MISSED", "deadline_misses", wide=True),
    Column("RECLAIMED", "idle_reclaimed_gpu_s", _gpu_hours, wide=True),
    Column("FALSE", "false_reclaims", wide=True),
    Column("BORROWED", "borrowed_gpu_s", _gpu_hours, wide=True),
    Column("SLOWDOWN", "holder_slowdown", lambda share: f"{100 * share:.2f}%", wide=True),
    NEVER,
    Column("LEFT OUT", "left_out", wide=True),
    Column("TOOK", "wall_s", lambda seconds: f"{seconds:.2f}s", wide=True),
    Column("EVENTS", "events", lambda count: f"{count:,}", wide=True),
    Column("WAIT BY GROUP", "wait_by_group", _by_group),
)


def columns(done: Sequence[Run]) -> Sequence[Column]:
    """The columns for these runs: NEVER stands in the plain table too where a wait is missing from the means."""
    if not any(one.outcome.never_started for one in done):
        return COLUMNS
    shown = Column(NEVER.header, NEVER.value, NEVER.text)
    return [shown if column is NEVER else column for column in COLUMNS]
