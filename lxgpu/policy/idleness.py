"""Whether a held card works: a judgement on its samples; pure. What is not known is never idle.

A card is idle when it was watched for a whole window, from the attach on, and no sample of it shows work. One who
holds memory without work, sits at an SSH session or said `keep` is left alone for a while longer.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from statistics import median

from lxgpu.model.reservation import Keep
from lxgpu.model.rules import IdleRules, IdleWhen
from lxgpu.model.usage import NOT_JUDGED, IdleVerdict, Sample, Use

LOOK_S = 10.0
"""Seconds between two looks at most, as long as nothing is wrong."""
JITTER = 1.5
"""A sample speaks for so many periods after it; a longer gap is a gap."""
STALE = 3.0
"""A newest sample older than so many periods says nothing about now."""
LEAST_LOOKS = 20
"""A window has so many looks at least, or too little was seen to judge it."""
CARD_BASE = 256 * 1024**2
PROCESS_BASE = 512 * 1024**2
"""Bytes that a card, and each process on it, takes before anything is held; more is held memory."""
FOREVER = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class _Run:
    """The unbroken time without work up to now.

    `newest` is its newest sample, `begin` its first; `worked_at` is when work was seen right before it (None: not, or
    nobody looked). `unseen_s` are the seconds of the window in it for which no sample speaks.
    """

    newest: Sample
    begin: datetime
    worked_at: datetime | None
    unseen_s: float


def judge(
    samples: Sequence[Sample],
    *,
    since_attach: datetime,
    rules: IdleRules,
    keeps: Iterable[Keep] = (),
    now: datetime,
    period_s: float = LOOK_S,
    not_before: datetime | None = None,
    quiet_since: datetime | None = None,
) -> IdleVerdict:
    """Judge one card by its samples.

    Of a busy card, `since` is when work was seen last; of one that is not watched long enough, but was never seen at
    work, it is when that began, so that `takeable_at` can look ahead.

    Args:
        samples: of this card, oldest first; those from before the attach do not count.
        since_attach: when the holder got it.
        rules: what idle means.
        keeps: the holder's own words that are in force, or were.
        now: the time of the judgement.
        period_s: seconds between two looks.
        not_before: samples from before this do not count either: the clock was set then.
        quiet_since: when an idleness began that reaches back beyond the first of the samples.
    """
    begin = max(since_attach, not_before or since_attach)
    mine = samples[bisect_left(samples, begin, key=_at) : bisect_right(samples, now, key=_at)]
    stale = now - timedelta(seconds=STALE * period_s)
    if not mine or not known(mine[-1], rules) or mine[-1].at < stale:
        return IdleVerdict(Use.UNKNOWN, why="nothing is known of its use now")
    if worked(mine[-1], rules):
        return IdleVerdict(Use.BUSY, mine[-1].at, why=f"{mine[-1].utilization_percent}% in use")
    full = now - timedelta(seconds=rules.window_s)
    run = _run(mine, rules, begin, full, period_s)
    if quiet_since is not None and run.begin == mine[0].at:
        run = replace(run, begin=max(begin, min(quiet_since, run.begin)))
    idle = _idle(run, rules, keeps, now)
    if run.worked_at is not None and run.worked_at >= full:
        return replace(idle, use=Use.BUSY, since=run.worked_at, why="work was seen in the window")
    if run.begin > full:
        return replace(idle, use=Use.UNKNOWN, why=NOT_JUDGED.why)
    seen_percent = 100 * (1 - run.unseen_s / rules.window_s)
    if seen_percent < rules.coverage_percent:
        return IdleVerdict(Use.UNKNOWN, why=f"only {seen_percent:.0f}% of its window were seen")
    return idle


def pace(samples: Sequence[Sample], *, window_s: float, least_s: float = LOOK_S) -> float:
    """Seconds between two looks as they were in truth, within bounds: few looks in a window prove nothing."""
    gaps = [(later.at - sooner.at).total_seconds() for sooner, later in pairwise(samples)]
    most = max(least_s, window_s / LEAST_LOOKS)
    return min(max(median(gaps), least_s), most) if gaps else least_s


def takeable_at(verdict: IdleVerdict, rules: IdleRules) -> datetime | None:
    """When the card may be taken as idle if no work is seen until then; None: nothing tells."""
    if verdict.since is None or rules.when is IdleWhen.NEVER:
        return None
    full = verdict.since + timedelta(seconds=rules.window_s)
    return max(full, verdict.protected_until or full)


def warnings_due(
    verdict: IdleVerdict, *, rules: IdleRules, now: datetime, told: Collection[int] = ()
) -> tuple[int, ...]:
    """The distances (of `rules.warn_s`, in seconds) whose warning is due now and was not given in this idleness.

    One that would come before the idleness itself began is left out: in a short window there is no room for it.
    """
    end = takeable_at(verdict, rules)
    if end is None or verdict.since is None or end <= now:
        return ()
    room = (end - verdict.since).total_seconds()
    left = (end - now).total_seconds()
    return tuple(warn for warn in rules.warn_s if left <= warn < room and warn not in told)


def worked(sample: Sample, rules: IdleRules) -> bool:
    """Whether a sample shows work."""
    return sample.utilization_percent is not None and sample.utilization_percent >= rules.below_percent


def holds_memory(sample: Sample) -> bool:
    """Whether more memory is taken than cards and programs take by themselves."""
    base = CARD_BASE + PROCESS_BASE * max(1, sample.processes or 0)
    return sample.memory_used_bytes is not None and sample.memory_used_bytes > base


def known(sample: Sample, rules: IdleRules) -> bool:
    """Whether a sample says something: work is work, but no work is known only when every signal is there."""
    signals = (sample.utilization_percent, sample.memory_used_bytes, sample.processes)
    return worked(sample, rules) or None not in signals


def _at(sample: Sample) -> datetime:
    return sample.at


def _run(mine: Sequence[Sample], rules: IdleRules, begin: datetime, full: datetime, period_s: float) -> _Run:
    """The time without work up to now, looked at from its end. A long time unseen ends it like work would.

    `begin` is from when on samples count, `full` when the window began.
    """
    period, jitter = timedelta(seconds=period_s), timedelta(seconds=JITTER * period_s)
    may_lack_s = (100 - rules.coverage_percent) / 100 * rules.window_s
    longest = timedelta(seconds=max(STALE * period_s, may_lack_s))
    first, unseen = mine[-1].at, timedelta(0)
    for sample in reversed(mine):
        if worked(sample, rules):
            return _Run(mine[-1], first, sample.at, unseen.total_seconds())
        if not known(sample, rules):
            continue
        gap = first - sample.at
        if gap > jitter:
            if gap > longest:
                return _Run(mine[-1], first, None, unseen.total_seconds())
            unseen += max(timedelta(0), first - max(sample.at + period, full))
        first = sample.at
    unseen += max(timedelta(0), first - max(begin + period, full))
    return _Run(mine[-1], begin if first - begin <= longest else first, None, unseen.total_seconds())


def _idle(run: _Run, rules: IdleRules, keeps: Iterable[Keep], now: datetime) -> IdleVerdict:
    """The idle verdict on a run, with what protects it still and why."""
    window = timedelta(seconds=rules.window_s)
    parked = holds_memory(run.newest)
    reasons = [(FOREVER, "the policy takes no idle cards")] if rules.when is IdleWhen.NEVER else []
    if parked:
        reasons.append((run.begin + timedelta(seconds=rules.protect_memory_s), "memory is held without work"))
    if run.newest.login:
        reasons.append((run.begin + window + timedelta(seconds=rules.protect_ssh_s), "an SSH session is open"))
    reasons += [(keep.until, f"kept by {keep.person}: {keep.reason}") for keep in keeps if keep.since <= now]
    until, why = max(reasons, key=lambda one: one[0], default=(now, ""))
    quiet = f"no work since {run.begin:%Y-%m-%d %H:%M} UTC"
    if until <= now:
        return IdleVerdict(Use.IDLE, run.begin, parked, None, quiet)
    return IdleVerdict(Use.IDLE, run.begin, parked, until, f"{quiet}, but {why}")
