"""One simulation in a process of its own, so that what it costs is its own; asked and answered in JSON."""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from benchmarks import rival
from lxgpu.model.quota import Policy
from lxgpu.simulate.engine import Rule, play
from lxgpu.simulate.floor import Floor
from lxgpu.simulate.jobs import Lab, Workload
from lxgpu.simulate.outcome import outcome
from lxgpu.simulate.readers import read
from lxgpu.simulate.readers.slicing import sliced
from lxgpu.simulate.rules import make
from lxgpu.simulate.synthetic import generate
from lxgpu.simulate.usual import BATCH, usual_policy

FOLDER = "LXGPU_TRACES"
"""The environment variable that names the folder of the public traces."""
ACCASIM = "accasim"
"""Stands for the rival where a rule is asked for."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A rule on a trace (a file of the folder) or a made-up lab (a name of `simulate --synthetic`).

    `slice_jobs`: a slice of the trace with so many jobs, at a load of 0.87, without jobs that no server holds. `first`:
    only so many of its jobs, 0 for all. `idle_s`: no group is guaranteed anything, and cards count as idle after so
    long. `runs`: the median of so many. `mark_s`: tell what was done until then.
    """

    rule: str
    lab: tuple[int, int]
    trace: str = ""
    made_up: str = ""
    days: float = 28
    seed: int = 0
    slice_jobs: int = 0
    first: int = 0
    runs: int = 1
    mark_s: float = 0
    idle_s: int = 0


@dataclass(frozen=True, slots=True)
class Told:
    """The figures of a run (as `Outcome`), and what it cost: seconds of CPU without reading, MB at the most."""

    jobs: int
    never_started: int
    mean_wait_s: float
    wait_by_group: dict[str, float | None]
    preemptions: int
    lost_share: float
    dated: int
    hopeless: int
    """Of the jobs with a deadline those that would miss it if they began at once."""
    deadline_misses: int | None
    false_reclaims: int | None
    idle_reclaimed_gpu_s: float | None
    events: int
    cpu_s: float
    peak_mb: float
    effective: float = 0.0
    """Share of all card time until the mark in which work was done that was not lost."""
    holder_slowdown: float | None = None
    lost_gpu_s: float = 0.0


def has(trace: str) -> bool:
    """Whether the folder of traces is given and has that one."""
    folder = os.environ.get(FOLDER)
    return folder is not None and Path(folder, trace).is_file()


def told(ask: Ask) -> Told:
    """What comes of it, from a fresh process."""
    words = [sys.executable, "-m", "benchmarks.alone", json.dumps(asdict(ask))]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{ask}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return Told(**json.loads(done.stdout))


def workload_of(ask: Ask) -> Workload:
    """The demand that is asked for."""
    lab = Lab(*ask.lab)
    if ask.made_up:
        whole = generate(ask.made_up, lab, days=ask.days, seed=ask.seed)
    else:
        whole = read(Path(os.environ[FOLDER], ask.trace))
    if ask.slice_jobs:
        most = lab.gpus_per_server
        whole = sliced(whole, cards=lab.cards, load=0.87, jobs=ask.slice_jobs, seed=ask.seed, largest=most)
    return replace(whole, jobs=whole.jobs[: ask.first]) if ask.first else whole


def simulate(ask: Ask) -> Told:
    """Plays it here."""
    workload, lab = workload_of(ask), Lab(*ask.lab)
    if ask.rule == ACCASIM:
        spent, waits = zip(*(rival.fifo(workload, lab) for _ in range(ask.runs)), strict=True)
        return Told(
            len(workload.jobs), 0, waits[0], {}, 0, 0.0, 0, 0, None, None, None, 0, statistics.median(spent), _peak()
        )
    costs: list[float] = []
    for _ in range(ask.runs):
        began = time.process_time()
        floor, rule = make(ask.rule)(workload, lab, _policy(workload, lab, ask.idle_s) if ask.idle_s else None)
        marking = _Marking(floor, rule, ask.mark_s) if ask.mark_s else None
        play(floor, marking or rule)
        costs.append(time.process_time() - began)
    return _told(floor, statistics.median(costs), marking.effective if marking else 0.0)


def _told(floor: Floor, cpu_s: float, effective: float) -> Told:
    found = outcome(floor, rule="", policy=None, left_out=0, wall_s=cpu_s, never={})
    dated = [job for job in floor.jobs if job.deadline_s is not None]
    return Told(
        jobs=found.jobs,
        never_started=found.never_started,
        mean_wait_s=found.mean_wait_s or 0.0,
        wait_by_group=found.wait_by_group,
        preemptions=found.preemptions,
        lost_share=found.lost_gpu_s / sum(job.demand_gpu_s for job in floor.jobs),
        dated=len(dated),
        hopeless=sum(job.submit_s + job.duration_s > (job.deadline_s or 0.0) for job in dated),
        deadline_misses=found.deadline_misses,
        false_reclaims=found.false_reclaims,
        idle_reclaimed_gpu_s=found.idle_reclaimed_gpu_s,
        events=found.events,
        cpu_s=cpu_s,
        peak_mb=_peak(),
        effective=effective,
        holder_slowdown=found.holder_slowdown,
        lost_gpu_s=found.lost_gpu_s,
    )


def _policy(workload: Workload, lab: Lab, idle_s: int) -> Policy:
    """The usual one without guarantees, and another window; everybody lends what is idle, and batch jobs may borrow."""
    usual = usual_policy(workload, lab, {})
    return replace(
        usual,
        classes={**usual.classes, BATCH: replace(usual.classes[BATCH], borrow=True)},
        defaults=replace(usual.defaults, lend_idle=True),
        rules=replace(usual.rules, idle=replace(usual.rules.idle, window_s=idle_s)),
    )


class _Marking:
    """Looks at the floor once, at the mark, before the rule decides; all else is the rule's."""

    def __init__(self, floor: Floor, rule: Rule, mark_s: float) -> None:
        self._floor, self._mark_s, self.effective = floor, mark_s, 0.0
        self.asked, self.ended, self.turned, self._decide = rule.asked, rule.ended, rule.turned, rule.decide
        floor.wake(mark_s)

    def decide(self) -> None:
        """As the rule does."""
        if self._floor.now == self._mark_s and not self.effective:
            self.effective = self._floor.done_gpu_s() / (self._floor.lab.cards * self._mark_s)
        self._decide()


def _peak() -> float:
    """The most memory that this process had, in MB; where the kernel does not tell it, 0."""
    status = Path("/proc/self/status")
    found = re.search(r"VmHWM:\s+(\d+) kB", status.read_text()) if status.exists() else None
    return int(found[1]) / 1000 if found else 0.0


def main(words: Sequence[str]) -> None:
    """Answers what stands in the first word."""
    asked = json.loads(words[0])
    sys.stdout.write(json.dumps(asdict(simulate(Ask(**{**asked, "lab": tuple(asked["lab"])})))))


if __name__ == "__main__":
    main(sys.argv[1:])
