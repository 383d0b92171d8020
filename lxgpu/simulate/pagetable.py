"""The table of all figures, a run a column; each with its difference to the first run."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass

from lxgpu.figures import HOUR, short_duration, short_name
from lxgpu.simulate.outcome import Outcome

UNKNOWN = "–"  # noqa: RUF001 -- a dash, for people
_SAME = 0.005


@dataclass(frozen=True, slots=True)
class Cell:
    """A figure, how it differs from the first run's, and whether that is `better` or `worse` (or neither)."""

    text: str
    change: str = ""
    sense: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """A figure under each run; `unit` and what it is stand at its head. `whole` is the name where that is shortened."""

    name: str
    cells: tuple[Cell, ...]
    whole: str = ""


@dataclass(frozen=True, slots=True)
class _Figure:
    name: str
    value: Callable[[Outcome], float | None]
    text: Callable[[float], str]
    better: int = 0  # 1: more of it, -1: less of it, 0: it is no matter of better
    of_begun: bool = False  # it is of those jobs only that began
    whole: str = ""


def rows_of(outcomes: Sequence[Outcome], apart: Container[int] = ()) -> tuple[Row, ...]:
    """All figures of the runs; `apart` are the numbers of those in which other jobs began than in the first."""
    groups = sorted({group for one in outcomes for group in one.wait_by_group})
    waits = [_of_group(group) for group in groups] if len(groups) > 1 else []
    figures = (_USE, _EFFECTIVE, *_WAITS, *waits[:_GROUPS], *_OTHERS)
    return tuple(Row(figure.name, tuple(_cells(figure, outcomes, apart)), figure.whole) for figure in figures)


def _cells(figure: _Figure, outcomes: Sequence[Outcome], apart: Container[int]) -> list[Cell]:
    first = figure.value(outcomes[0])
    cells = []
    for number, one in enumerate(outcomes):
        value = figure.value(one)
        if value is None:
            cells.append(Cell(UNKNOWN))
        elif number == 0 or not figure.better or not first or (figure.of_begun and number in apart):
            cells.append(Cell(figure.text(value)))
        else:
            cells.append(Cell(figure.text(value), *_change(value / first - 1, figure.better)))
    return cells


def _change(share: float, better: int) -> tuple[str, str]:
    if abs(share) < _SAME:
        return "same", ""
    sign = "+" if share > 0 else "−"  # noqa: RUF001 -- a minus, for people
    return f"{sign}{100 * abs(share):,.0f} %", "better" if share * better > 0 else "worse"


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _gpu_hours(value: float) -> str:
    return f"{value / HOUR:,.1f}"


def _of_group(group: str) -> _Figure:
    short = short_name(group)
    whole = "" if short == group else group
    return _Figure(
        f"… of {short}", lambda one: one.wait_by_group.get(group), short_duration, -1, of_begun=True, whole=whole
    )


_GROUPS = 30
_USE = _Figure("Use", lambda one: one.utilization, lambda share: f"{100 * share:.1f} %", 1)
_EFFECTIVE = _Figure(
    "Use until the last submission", lambda one: one.effective_use, lambda share: f"{100 * share:.1f} %", 1
)
_WAITS = (
    _Figure("Wait, median", lambda one: one.median_wait_s, short_duration, -1, of_begun=True),
    _Figure("Wait, 95th of 100", lambda one: one.p95_wait_s, short_duration, -1, of_begun=True),
    _Figure("Wait, mean", lambda one: one.mean_wait_s, short_duration, -1, of_begun=True),
)
_OTHERS = (
    _Figure("From submission to end, mean", lambda one: one.mean_jct_s, short_duration, -1, of_begun=True),
    _Figure("Preemptions", lambda one: one.preemptions, _count, -1),
    _Figure("Lost work, GPU-hours", lambda one: one.lost_gpu_s, _gpu_hours, -1),
    _Figure("Deadlines missed", lambda one: one.deadline_misses, _count, -1),
    _Figure("Idle cards reclaimed, GPU-hours", lambda one: one.idle_reclaimed_gpu_s, _gpu_hours, 1),
    _Figure("False reclaims", lambda one: one.false_reclaims, _count, -1),
    _Figure("Work on cards borrowed from idle holders, GPU-hours", lambda one: one.borrowed_gpu_s, _gpu_hours, 1),
    _Figure("Holders' slowdown", lambda one: one.holder_slowdown, lambda share: f"{100 * share:.2f} %", -1),
    _Figure("Jobs", lambda one: one.jobs, _count),
    _Figure("Jobs that never began", lambda one: one.never_started, _count),
    _Figure("Jobs left out", lambda one: one.left_out, _count),
    _Figure("The run took, seconds", lambda one: one.wall_s, lambda value: f"{value:,.2f}"),
    _Figure("Events", lambda one: one.events, _count),
)
