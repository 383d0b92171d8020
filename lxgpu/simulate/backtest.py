"""What the forecast is worth on made-up labs, one with office hours and one without: see `lxgpu.policy.brier`.

It must win in the first and must not in the second, where there is nothing to know: only luck could make it win.
For the benchmarks and tests: no command of lxgpu calls this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from random import Random

from lxgpu.policy.brier import Score, score
from lxgpu.policy.forecast import Stretch
from lxgpu.simulate.jobs import Job, Workload

AHEAD_S = (900, 3600, 7200)
"""Coming back within a quarter of an hour, an hour, two."""
_HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class MadeUp:
    """A lab whose people come back to idle cards at a rate (times an hour) by the time on the lab's clock.

    Work that was begun goes on for `work_h` hours in the mean.
    """

    zone: tzinfo
    rate: Callable[[datetime], float]
    most: float
    work_h: float = 3.0


def office(zone: tzinfo) -> MadeUp:
    """From Monday to Friday, nine to six, people come back within two hours or so, else hardly ever."""
    return MadeUp(zone, lambda local: 0.5 if local.weekday() < 5 and 9 <= local.hour < 18 else 0.01, 0.5)  # noqa: PLR2004 -- as it says


def steady(zone: tzinfo) -> MadeUp:
    """All hours are alike, and all people."""
    return MadeUp(zone, lambda _local: 0.15, 0.15)


LABS: Mapping[str, Callable[[tzinfo], MadeUp]] = {"office": office, "steady": steady}


def history(lab: MadeUp, *, holders: int, since: datetime, until: datetime, seed: int) -> tuple[Stretch, ...]:
    """The stretches of idleness of so many holders, the same again for the same seed."""
    rolls, found = Random(seed), []  # noqa: S311 -- not for secrets
    for number in range(holders):
        at = since
        while at < until:
            back = _back(lab, at, until, rolls)
            found.append(Stretch(f"holder{number}", at, min(back, until), ended=back < until))
            at = back + rolls.expovariate(1 / lab.work_h) * _HOUR
    return tuple(found)


def measure(
    lab: MadeUp, *, holders: int, now: datetime, weeks: int, asked_weeks: int, half_life_s: float, seed: int
) -> Sequence[Score]:
    """The scores on the last `asked_weeks` of a made-up history of so many weeks; each day is asked of those before."""
    since = now - timedelta(weeks=weeks)
    made = history(lab, holders=holders, since=since, until=now, seed=seed)
    begin = now - timedelta(weeks=asked_weeks)
    return score(made, lab.zone, half_life_s=half_life_s, since=begin, now=now, within_s=AHEAD_S)


def pauses(workload: Workload, *, window_s: float) -> tuple[Stretch, ...]:
    """The stretches of idleness of a workload's holders, as if each got its cards when it asked and kept them.

    `window_s` is for how long a card is without work before it counts as idle.
    """
    return tuple(one for job in workload.jobs if job.bursts for one in _pauses(workload, job, window_s))


def _pauses(workload: Workload, job: Job, window_s: float) -> Iterator[Stretch]:
    end_s = job.submit_s + job.duration_s
    rests = [job.submit_s, *(burst.start_s + burst.work_s for burst in job.bursts)]
    for rest, back in zip(rests, [*(burst.start_s for burst in job.bursts), end_s], strict=True):
        since, until = (workload.start + timedelta(seconds=at) for at in (rest + window_s, min(back, end_s)))
        if since < until:
            yield Stretch(job.owner, since, until, ended=back < end_s)


def _back(lab: MadeUp, at: datetime, until: datetime, rolls: Random) -> datetime:
    """When work begins again: rolled at the highest rate, and taken as often as the rate of that time is below it."""
    while at < until:
        at += rolls.expovariate(lab.most) * _HOUR
        if rolls.random() * lab.most < lab.rate(at.astimezone(lab.zone)):
            break
    return at
