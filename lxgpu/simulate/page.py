"""The page of `lxgpu simulate --html`: what stands on it, as plain values for its template."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from lxgpu.figures import DAY, HOUR, n_gpus, short_duration
from lxgpu.simulate import plots
from lxgpu.simulate.jobs import Lab, Workload
from lxgpu.simulate.never import in_words
from lxgpu.simulate.outcome import Outcome, group_of, mean, quantile, rank
from lxgpu.simulate.pagetable import Row, rows_of
from lxgpu.simulate.plots import Spread
from lxgpu.simulate.runs import Run
from lxgpu.simulate.series import FREE, OTHERS, Series, groups_of

_POINTS = 250
_FEW_DAYS = 3 * DAY


@dataclass(frozen=True, slots=True)
class Drawing:
    """A plot: its title, and its SVG, which says in words what it shows."""

    title: str
    svg: str


@dataclass(frozen=True, slots=True)
class Section:
    """Plots that belong together, and how to read them."""

    title: str
    text: str
    drawings: tuple[Drawing, ...]


@dataclass(frozen=True, slots=True)
class Page:
    """Everything that the template shows. `columns` are the runs; each row has a cell for each, `notes` stand below."""

    title: str
    facts: tuple[tuple[str, str], ...]
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...]
    sections: tuple[Section, ...]


def page_of(workload: Workload, lab: Lab, runs: Sequence[Run]) -> Page:
    """The page of runs that were watched, all of one workload.

    Raises:
        LxgpuError: `no_plots`: there is no matplotlib.
    """
    plots.need()
    names = short_names([one.outcome for one in runs])
    named = dict(zip(names, runs, strict=True))
    draw = _Drawings(workload, lab, named)
    begun = [[wait is not None for wait in one.waits] for one in runs]
    apart = {number for number, some in enumerate(begun) if some != begun[0]}
    return Page(
        title=f"{workload.name}: {', '.join(names)}",
        facts=tuple(_facts(workload, lab, runs)),
        columns=tuple(names),
        rows=rows_of([one.outcome for one in runs], apart),
        notes=tuple(_notes(named, apart=bool(apart))),
        sections=tuple(_numbered(draw.sections())),
    )


def short_names(outcomes: Sequence[Outcome]) -> list[str]:
    """What runs are called in plots: policies by the file's own name, if that tells them apart."""
    files = [PurePath(one.policy).name if one.policy else "" for one in outcomes]
    short = [f"{one.rule} {file}".strip() for one, file in zip(outcomes, files, strict=True)]
    return short if len(set(short)) == len(short) else [one.name for one in outcomes]


def _facts(workload: Workload, lab: Lab, runs: Sequence[Run]) -> Iterator[tuple[str, str]]:
    yield "Lab", f"{lab.servers:,} server{'s' * (lab.servers != 1)} of {n_gpus(lab.gpus_per_server)}"
    jobs, left_out = len(workload.jobs), runs[0].outcome.left_out
    yield "Jobs", f"{jobs:,}" + (f"; {left_out:,} more are larger than the lab and left out" if left_out else "")
    if workload.jobs:
        lasts = workload.jobs[-1].submit_s - workload.jobs[0].submit_s
        demand = sum(job.demand_gpu_s for job in workload.jobs)
        yield "Submitted", f"within {short_duration(lasts)}"
        yield "Asked for", f"{demand / HOUR:,.0f} GPU-hours of work"
    if workload.source:
        yield "Input", workload.source


def _notes(runs: Mapping[str, Run], *, apart: bool) -> Iterator[str]:
    """How many waits are missing from the means, and what follows from that."""
    never = {name: one.outcome for name, one in runs.items() if one.outcome.never_started}
    if never:
        counts = (f"{one.never_started:,} of {one.jobs:,} under {name}{_why(one)}" for name, one in never.items())
        yield f"Jobs that never began: {'; '.join(counts)}. No wait of theirs is in the figures above."
    if apart:
        yield "Where other jobs began than in the first run, waits and times to the end are not compared with it."


def _why(one: Outcome) -> str:
    return f" ({why})" if (why := in_words(one.never_started_why)) else ""


def _numbered(sections: Iterator[tuple[str, str, list[tuple[str, str, str]]]]) -> Iterator[Section]:
    """Sections whose drawings (title, words, SVG) stand in one page, each with ids of its own."""
    number = 0
    for title, text, drawings in sections:
        found = []
        for name, words, svg in drawings:
            number += 1
            found.append(Drawing(name, plots.inlined(svg, number=number, alt=words)))
        yield Section(title, text, tuple(found))


class _Drawings:
    """Makes the plots of some runs by their names."""

    def __init__(self, workload: Workload, lab: Lab, runs: Mapping[str, Run]) -> None:
        self._jobs, self._lab, self._runs = workload.jobs, lab, runs
        self._groups = groups_of(workload.jobs)
        known = set(self._groups)
        self._group = [group_of(job) if group_of(job) in known else OTHERS for job in workload.jobs]
        self._colours = {name: plots.LIGHT[at % len(plots.LIGHT)] for at, name in enumerate(self._groups)}
        self._ends = max(1.0, *(one.series.lasts_s for one in runs.values() if one.series is not None))

    def sections(self) -> Iterator[tuple[str, str, list[tuple[str, str, str]]]]:
        """Each with its title, how to read it, and its drawings."""
        yield "Waits", _WAITS, [self._shares(), self._spreads()]
        yield "Use over time", _USE, [*self._use(), self._line()]
        if any(wait for one in self._runs.values() for wait in one.waits):
            yield "Who waited for whom", _WHOM, [self._waited(name) for name in self._runs]
        else:
            yield "Who waited for whom", _NONE_WAITED, []
        if any(one.outcome.preemptions for one in self._runs.values()):
            yield "Preemptions and lost work", _LOST, [self._stopped(), self._lost()]
        else:
            yield "Preemptions and lost work", _NONE_LOST, []

    def _shares(self) -> tuple[str, str, str]:
        points = {}
        for name, one in self._runs.items():
            known = sorted(wait for wait in one.waits if wait is not None)
            points[name] = list(steps_of(known, len(one.waits)))
        return "All jobs", f"Share of jobs by wait, for {_and(self._runs)}", plots.shares(points)

    def _spreads(self) -> tuple[str, str, str]:
        found: dict[str, dict[str, Spread]] = {group: {} for group in self._groups}
        for name, one in self._runs.items():
            waits: dict[str, list[float]] = {group: [] for group in self._groups}
            for group, wait in zip(self._group, one.waits, strict=True):
                if wait is not None:
                    waits[group].append(wait)
            found |= {group: {**found[group], name: _spread(sorted(some))} for group, some in waits.items() if some}
        return "By group", f"Waits of each group, for {_and(self._runs)}", plots.spreads(found)

    def _use(self) -> Iterator[tuple[str, str, str]]:
        for name, one in self._runs.items():
            if one.series is not None:
                at_s = [step * one.series.step_s for step in range(len(one.series.held))]
                svg = plots.use(at_s, one.series.held, one.series.working, cards=self._lab.cards, end_s=self._ends)
                yield name, f"Cards in use over time under {name}", svg

    def _line(self) -> tuple[str, str, str]:
        curves = {
            name: and_on(one.series, one.outcome.never_started, self._ends)
            for name, one in self._runs.items()
            if one.series is not None
        }
        return "Who waits", f"Jobs that wait over time, for {_and(self._runs)}", plots.line(curves, end_s=self._ends)

    def _waited(self, name: str) -> tuple[str, str, str]:
        rows = self._rows(name)
        top = max((sum(row.values()) for other in self._runs for row in self._rows(other).values()), default=0.0)
        unit, word = (DAY, "days") if top >= _FEW_DAYS else (HOUR, "hours")
        scaled = {who: {held: seconds / unit for held, seconds in row.items()} for who, row in rows.items()}
        svg = plots.stacks(
            scaled,
            label=f"{word} of waiting, of all jobs together",
            top=top / unit,
            free=FREE,
            colours=self._colours,
        )
        return name, f"Who held the cards while each group waited, under {name}", svg

    def _rows(self, name: str) -> dict[str, dict[str, float]]:
        series = self._runs[name].series
        waited = series.waited if series is not None else {}
        return {who: {held: waited.get((who, held), 0.0) for held in [*self._groups, FREE]} for who in self._groups}

    def _stopped(self) -> tuple[str, str, str]:
        rows: dict[str, dict[str, float]] = {}
        for name, one in self._runs.items():
            counts: Counter[str] = Counter()
            for group, stops in zip(self._group, one.stops, strict=True):
                counts[group] += stops
            rows[name] = {group: float(counts[group]) for group in self._groups}
        top = max((sum(row.values()) for row in rows.values()), default=0.0)
        svg = plots.stacks(rows, label="times that somebody had to stop", top=top, free=FREE, colours=self._colours)
        return "Preemptions, by whose job it was", f"Preemptions by group, for {_and(self._runs)}", svg

    def _lost(self) -> tuple[str, str, str]:
        demand = sum(job.demand_gpu_s for job in self._jobs)
        values = {name: one.outcome.lost_gpu_s / HOUR for name, one in self._runs.items()}

        def text(hours: float) -> str:
            return f"{100 * hours * HOUR / demand:.2f} %" if demand else ""

        svg = plots.bars(values, label="GPU-hours; at the bar: share of what was asked for", text=text)
        return "Lost work", f"Lost work in GPU-hours, for {_and(self._runs)}", svg


def and_on(series: Series, never: int, end_s: float) -> tuple[list[float], list[float]]:
    """Times and counts of the jobs that wait; those that never began wait on until the end of the axis."""
    times = [step * series.step_s for step in range(len(series.waiting))]
    return [*times, series.lasts_s, end_s], [*series.waiting, never, never]


def steps_of(known: Sequence[float], jobs: int) -> Iterator[tuple[float, float]]:
    """The waits of those that began, in order, as steps: at each the share of all the jobs that waited no longer.

    Of many waits some are left out; each step that is there is exact.
    """
    if known:
        yield 0.0, bisect_right(known, 0.0) / jobs
    for place in range(0, len(known), max(1, len(known) // _POINTS)):
        yield known[place], bisect_right(known, known[place]) / jobs
    if known:
        yield known[-1], len(known) / jobs


def _spread(known: Sequence[float]) -> Spread:
    quarter, median, most = (quantile(known, share) or 0.0 for share in (0.25, 0.5, 0.75))
    low, high = (rank(known, share) or 0.0 for share in (0.05, 0.95))
    return Spread(low, quarter, median, most, high, mean(known) or 0.0)


def _and(names: Mapping[str, object]) -> str:
    return ", ".join(names)


_WAITS = (
    "From the submission to the first start. All jobs: read up from a wait to the share of the jobs that waited no"
    " longer; the higher a line, the better, and one that ends below 100 % has jobs that never began. By group: the box"
    " holds the middle half of the jobs, its white line is the median, the dot the mean; the thin line reaches from the"
    " 5th to the 95th of a hundred."
)
_USE = (
    "Cards at work, cards that are held and idle, and the cards there are; means over equal steps. What a job keeps"
    " under lxgpu while others of its cards are gone is not drawn as held. The last plot counts the jobs that have not"
    " begun."
)
_WHOM = (
    "Each bar is all the waiting of a group, before the first start (to the end, for jobs that never began). Its parts"
    " say who held the cards meanwhile: at any moment each group counts with its share of the lab. Hatched: cards"
    " that were free and did not fit, or were kept back: for somebody else, or by a job that has lost others of its"
    " cards and cannot work with these."
)
_LOST = (
    "A job that is stopped loses what it did since its last save, and the time to load it again. A holder whose idle"
    " card is taken loses nothing, and counts as a preemption all the same."
)
_NONE_WAITED = "Everybody who began did so at once."
_NONE_LOST = "Nobody had to stop, and nothing was lost."
