"""What is asked of a simulated lab: jobs that run until they are done, and holders whose cards work now and then."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from math import inf

CHECKPOINT_S = 1800.0
"""So often a job is taken to save its work, where its trace does not say: what came after the last save is lost."""
RESTART_S = 60.0
"""So long a job is taken to load its work again after an interruption; that is lost too."""
MONDAY = datetime(2027, 1, 4, tzinfo=UTC)
"""When second 0 is, where a trace does not say."""


@dataclass(frozen=True, slots=True)
class Burst:
    """Work on a card: wanted from `start_s` (seconds of the trace) on, `work_s` long."""

    start_s: float
    work_s: float


NO_WORK = (Burst(inf, 0.0),)
"""The bursts of a holder whose cards never work; without any it would be a batch job."""


@dataclass(frozen=True, slots=True)
class Job:
    """One piece of demand; times are seconds since the start of the trace, durations seconds.

    A batch job (`bursts` empty) works from its start on and ends once it had `duration_s` with all its cards. A
    holder keeps its cards for `duration_s` from its first start, and works in `bursts` only. `deadline_s` is an
    instant. Work is saved each `checkpoint_s` of it (0: never), and a restart costs `restart_s`. `asked_s` is for how
    long the owner asks for the cards (0: exactly `duration_s`); no rule but those that are told may know the duration.
    """

    id: str
    owner: str
    gpus: int
    submit_s: float
    duration_s: float
    group: str = ""
    class_name: str = ""
    deadline_s: float | None = None
    checkpoint_s: float = CHECKPOINT_S
    restart_s: float = RESTART_S
    asked_s: float = 0.0
    bursts: tuple[Burst, ...] = ()

    @property
    def demand_gpu_s(self) -> float:
        """GPU-seconds of work that it asks for."""
        return self.gpus * (sum(one.work_s for one in self.bursts) if self.bursts else self.duration_s)


@dataclass(frozen=True, slots=True)
class Workload:
    """Jobs in the order they are submitted. `source` says where they come from, and is shown with every result."""

    name: str
    jobs: tuple[Job, ...]
    source: str = ""
    start: datetime = MONDAY


def in_time(jobs: Iterable[Job]) -> tuple[Job, ...]:
    """Jobs by when they are submitted; of one instant in the order given."""
    return tuple(sorted(jobs, key=lambda job: job.submit_s))


@dataclass(frozen=True, slots=True)
class Lab:
    """The machines: so many equal servers. A job that fits into one server never spans two."""

    servers: int
    gpus_per_server: int

    @property
    def cards(self) -> int:
        """All cards."""
        return self.servers * self.gpus_per_server
