"""What lxgpu's decisions come to where deadlines matter, where cards lie idle, and what its forecast is worth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from statistics import fmean, median
from zoneinfo import ZoneInfo

from benchmarks.alone import Ask, Told, told
from benchmarks.drawing import Series
from benchmarks.table import Figure
from lxgpu.policy.brier import Score, score
from lxgpu.simulate.backtest import LABS, measure, pauses
from lxgpu.simulate.jobs import Lab
from lxgpu.simulate.synthetic import generate

CHRONUS = "chronus_philly_MIX1.csv"
_DAY_S = 86400
_DAYS = 28
_SEEDS = 5
_IDLE_SEEDS = 3
_BRIER_SEEDS = 12
_LIFE_S = 28 * _DAY_S
Found = tuple[list[Figure], Mapping[str, Series]]


def deadlines(first: int) -> Found:
    """Five slices of MIX1: 64 cards, a load of 0.87, 570 jobs, none larger than a server."""
    runs, others = (
        [told(Ask(rule, (8, 8), CHRONUS, slice_jobs=570, seed=seed, first=first)) for seed in range(_SEEDS)]
        for rule in ("lxgpu", "fifo")
    )
    rows = []
    for seed, (found, fifo) in enumerate(zip(runs, others, strict=True)):
        beside = f"{found.deadline_misses} of {found.dated} with one; fifo: {fifo.deadline_misses}"
        if found.hopeless:
            beside += f"; {found.hopeless} could not be met at all"
        rows.append(
            Figure(f"MIX1 slice, seed {seed}: deadlines missed", round(_missed(found), 2), "%", 1, beside=beside)
        )
        rows.append(Figure(f"MIX1 slice, seed {seed}: preemptions", found.preemptions, "", 250))
    seeds = f"of seeds 0 to {_SEEDS - 1}"
    rows += [
        Figure("MIX1 slice, median: deadlines missed", round(median(map(_missed, runs)), 2), "%", 1, beside=seeds),
        Figure("MIX1 slice, median: preemptions", median(found.preemptions for found in runs), "", 250, beside=seeds),
    ]
    return rows, {}


def idle(first: int) -> Found:
    """A lab whose holders work 30 % of the time: what taking idle cards gains, and how often it is wrong."""
    rules = ("fifo", "culler", "lxgpu")
    gains: list[float] = []
    wrongs: list[float] = []
    rows: list[Figure] = []
    for seed in range(_IDLE_SEEDS):
        fifo, culler, ours = (
            told(Ask(rule, (2, 8), made_up="idle", days=_DAYS, seed=seed, first=first, mark_s=_DAYS * _DAY_S))
            for rule in rules
        )
        gains.append(ours.effective / fifo.effective)
        mine, other = _wrong(ours), _wrong(culler)
        wrongs.append(mine / other if other else 0.0)
        used = f"{ours.effective:.3f} of the cards' time; fifo: {fifo.effective:.3f}; culler: {culler.effective:.3f}"
        rows.append(
            Figure(
                f"idle, seed {seed}: use over exclusive lending",
                round(gains[-1], 2),
                "x",
                1.5,
                at_least=True,
                beside=used,
            )
        )
        counts = f"{_counted(ours)}; culler: {_counted(culler)}"
        rows.append(
            Figure(
                f"idle, seed {seed}: false per hour over the culler's", round(wrongs[-1], 3), "x", 0.5, beside=counts
            )
        )
    seeds = f"of seeds 0 to {_IDLE_SEEDS - 1}"
    rows += [
        Figure(
            "idle, median: use over exclusive lending", round(median(gains), 2), "x", 1.5, at_least=True, beside=seeds
        ),
        Figure("idle, median: false per hour over the culler's", round(median(wrongs), 3), "x", 0.5, beside=seeds),
    ]
    return rows, {}


def lending(first: int) -> Found:
    """A lab whose holders have all cards and work 30 % of the time: what taking idle cards and lending them on come to.

    `lxgpu` takes them after its usual two hours of idleness, and gives groups what they are guaranteed; "after 4 days"
    has no guarantees, and idle are cards that nobody used for longer than a weekend.
    """
    ways = {
        "exclusive": ("fifo", 0),
        "exclusive, lent on": ("fifo-borrow", 0),
        "reclaim": ("lxgpu", 0),
        "reclaim, lent on": ("lxgpu-borrow", 0),
        "reclaim after 4 days, lent on": ("lxgpu-borrow", 4 * _DAY_S),
    }
    rows: list[Figure] = []
    for name, (rule, idle_s) in ways.items():
        runs = [
            told(Ask(rule, (2, 8), made_up="held", days=_DAYS, seed=seed, first=first, mark_s=_LIFE_S, idle_s=idle_s))
            for seed in range(_IDLE_SEEDS)
        ]
        goals = (0.65, 1.0) if rule.endswith("-borrow") else (None, None)
        seeds = f"median; seeds 0 to {_IDLE_SEEDS - 1}: {{}}"
        use = [found.effective for found in runs]
        slow = [100 * (found.holder_slowdown or 0.0) for found in runs]
        lost = median(found.lost_gpu_s / 3600 for found in runs)
        beside = seeds.format(", ".join(f"{one:.3f}" for one in use)) + f"; {lost:,.0f} GPU-hours lost"
        rows.append(Figure(f"held, {name}: use", round(median(use), 3), "", goals[0], at_least=True, beside=beside))
        each = seeds.format(", ".join(f"{one:.2f}" for one in slow))
        rows.append(Figure(f"held, {name}: holders' slowdown", round(median(slow), 3), "%", goals[1], beside=each))
    return rows, {}


def forecast(_first: int) -> Found:
    """Brier scores for coming back within an hour, over those of "same as now"."""
    zone, now = ZoneInfo("Europe/Berlin"), datetime(2027, 6, 7, tzinfo=UTC)
    rows = []
    for name, make in LABS.items():
        lab = make(zone)
        found = [
            measure(lab, holders=8, now=now, weeks=8, asked_weeks=4, half_life_s=_LIFE_S, seed=seed)[1]
            for seed in range(_BRIER_SEEDS)
        ]
        rows += _scored(f"forecast, {name} hours", found, proven_goal=_BRIER_SEEDS if name == "office" else 0)
    rows += _scored(
        "forecast, simulate's idle", [_on_idle(seed) for seed in range(_IDLE_SEEDS)], proven_goal=_IDLE_SEEDS
    )
    return rows, {}


def _on_idle(seed: int) -> Score:
    there = generate("idle", Lab(2, 8), days=2 * _DAYS, seed=seed)
    now = there.start + timedelta(days=2 * _DAYS)
    since = now - timedelta(days=_DAYS)
    return score(pauses(there, window_s=7200), UTC, half_life_s=_LIFE_S, since=since, now=now, within_s=(3600,))[0]


def _scored(name: str, found: Sequence[Score], *, proven_goal: int) -> list[Figure]:
    """The mean score over that of knowing nothing, and how often it was proven: where it is luck, never."""
    mine, same, usual = (fmean(one or 0.0 for one in row) for row in zip(*map(_three, found), strict=True))
    beside = f"{mine:.3f}; same as now: {same:.3f}; usual: {usual:.3f}; mean of {len(found)} seeds"
    proven = sum(one.proven for one in found)
    count = Figure(
        f"{name}: proven", proven, f"of {len(found)}", proven_goal, at_least=proven_goal > 0, beside="better than both"
    )
    return [Figure(f"{name}: Brier score over same as now", round(mine / same, 3), "x", 1, beside=beside), count]


def _three(one: Score) -> tuple[float | None, float | None, float | None]:
    return one.forecast, one.same, one.usual


def _missed(found: Told) -> float:
    return 100 * (found.deadline_misses or 0) / found.dated if found.dated else 0.0


def _wrong(found: Told) -> float:
    """False reclaims in an hour of a card that was reclaimed."""
    reclaimed = (found.idle_reclaimed_gpu_s or 0.0) / 3600
    return (found.false_reclaims or 0) / reclaimed if reclaimed else 0.0


def _counted(found: Told) -> str:
    return f"{found.false_reclaims} in {(found.idle_reclaimed_gpu_s or 0.0) / 3600:,.0f} h"
