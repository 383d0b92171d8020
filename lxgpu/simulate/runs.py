"""A workload under several rules and policies, one after the other, each in a lab of its own."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from lxgpu.model.quota import Policy
from lxgpu.simulate.engine import Progress, play
from lxgpu.simulate.jobs import Lab, Workload
from lxgpu.simulate.never import reasons
from lxgpu.simulate.outcome import Outcome, outcome, waits_of
from lxgpu.simulate.rules import Make
from lxgpu.simulate.series import Series, Watcher
from lxgpu.simulate.usual import classes_of

OURS = "lxgpu"
READERS = frozenset({OURS, "lxgpu-borrow"})
"""The rules that a policy file is written for."""
DIVIDING = frozenset({"static", "slurm", "kueue"})
"""Rules that give groups what a policy guarantees them, and read nothing else of it."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One run that is asked for; `policy` is the file as it was named, `rules` what it says."""

    rule: str
    policy: str | None = None
    rules: Policy | None = None

    @property
    def name(self) -> str:
        """As `Outcome.name`."""
        return f"{self.rule} {self.policy}" if self.policy else self.rule


@dataclass(frozen=True, slots=True)
class Run:
    """One run: its figures; where it was watched also each job's wait, how often it was stopped, and what went on."""

    outcome: Outcome
    waits: tuple[float | None, ...] = ()
    stops: tuple[int, ...] = ()
    series: Series | None = None


def asked(rules: Sequence[str], policies: Sequence[tuple[str, Policy]]) -> list[Asked]:
    """The runs in the order of the command line, each once; lxgpu with each policy, rules that divide with the first.

    Policies without any rule ask for lxgpu; with rules but without lxgpu among them too, after those.
    """
    wanted = list(dict.fromkeys(rules))
    if not wanted or (policies and not READERS & {*wanted}):
        wanted.append(OURS)
    found: list[Asked] = []
    for rule in wanted:
        read = policies if rule in READERS else policies[:1] if rule in DIVIDING else []
        found += [Asked(rule, name, policy) for name, policy in read] or [Asked(rule)]
    return found


def fitting(workload: Workload, lab: Lab) -> tuple[Workload, int]:
    """The workload without those jobs that the whole lab could not hold, and how many these are."""
    jobs = tuple(job for job in workload.jobs if job.gpus <= lab.cards)
    left_out = len(workload.jobs) - len(jobs)
    return (replace(workload, jobs=jobs), left_out) if left_out else (workload, 0)


def missing_classes(workload: Workload, policy: Policy) -> list[str]:
    """The classes that jobs run in under lxgpu and the policy does not have: it will refuse those jobs."""
    wanted: set[str] = set().union(*map(classes_of, workload.jobs))
    return sorted(wanted - set(policy.classes))


def run(
    workload: Workload,
    lab: Lab,
    one: Asked,
    make: Make,
    *,
    left_out: int = 0,
    watch: bool = False,
    progress: Progress = lambda _done: None,
) -> Run:
    """One run from the first job to the last; `watch` for what a page shows, at some cost in time."""
    began = time.perf_counter()
    floor, rule = make(workload, lab, one.rules)
    watcher = Watcher(floor, rule) if watch else None
    play(floor, watcher or rule, progress=progress)
    wall_s = time.perf_counter() - began
    never = reasons(floor, rule)
    figures = outcome(floor, rule=one.rule, policy=one.policy, left_out=left_out, wall_s=wall_s, never=never)
    if watcher is None:
        return Run(figures)
    return Run(figures, tuple(waits_of(floor)), tuple(floor.stops), watcher.series())
