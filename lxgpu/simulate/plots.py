"""Drawings of runs as SVG, by matplotlib: narrow enough for a telephone, in colours that most eyes tell apart.

Runs have the dark ones of Okabe and Ito (2008) and of Tol (2021), groups the light ones of Tol. Lines differ in their
dashes too, and bars have outlines, so that no colour alone says anything.
"""

from __future__ import annotations

import io
import logging
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lxgpu.errors import LxgpuError
from lxgpu.figures import DAY, HOUR, MINUTE, WEEK, short_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#AA4499", "#222222", "#A67C00", "#332288", "#882255", "#757575")
LIGHT = ("#77AADD", "#44BB99", "#EE8866", "#EEDD88", "#99DDFF", "#FFAABB", "#BBCC33", "#AAAA00", "#DDDDDD")
DASHES: tuple[str | tuple[int, tuple[int, ...]], ...] = ("-", "--", ":", "-.", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 3)))
_INK, _GRID = "#1A1A1A", "#D9D9D9"
_WIDE = 4.6
"""Inches: at full size 442 pixels, so that ten points are still nine or so on the narrowest telephone."""
_STYLE: dict[Any, Any] = {
    "font.family": ["sans-serif"],
    "font.size": 10,
    "svg.fonttype": "none",
    "svg.hashsalt": "lxgpu",
    "text.parse_math": False,  # names are names
    "text.color": _INK,
    "axes.edgecolor": _INK,
    "axes.labelcolor": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": _GRID,
    "grid.linewidth": 0.6,
    "hatch.linewidth": 0.6,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
}
_MARKS = (
    (1, "1 s"),
    (10, "10 s"),
    (MINUTE, "1 min"),
    (10 * MINUTE, "10 min"),
    (HOUR, "1 h"),
    (6 * HOUR, "6 h"),
    (DAY, "1 d"),
    (WEEK, "1 w"),
    (30 * DAY, "30 d"),
    (365 * DAY, "1 y"),
)
_LONGEST, _FEW = 18, 3
LEAST_S = MINUTE
"""Waits below a minute are drawn as that: nobody would feel the difference."""


@dataclass(frozen=True, slots=True)
class Spread:
    """How the waits of some jobs lie, in seconds: what 5, 25, 50, 75 and 95 % do not exceed, and the mean."""

    low: float
    quarter: float
    median: float
    most: float
    high: float
    mean: float


def need() -> None:
    """See that there is matplotlib.

    Raises:
        LxgpuError: `no_plots`: it is not installed.
    """
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # no words on its cache: that is no matter of the page's
    try:
        import matplotlib as mpl  # noqa: F401, PLC0415 -- half a second, for pages only
    except ImportError as error:
        raise LxgpuError(
            "no_plots",
            "the page cannot be drawn: matplotlib is not installed here",
            why=f"it is the optional part `plots` of lxgpu; {error}",
            fix=f"{sys.executable} -m pip install matplotlib",
        ) from error


def shares(runs: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """Which share of the jobs waited at most how long: of each run points (seconds, share)."""
    with _drawing(2.8 + _room(len(runs))) as (figure, svg):
        axes = figure.subplots()
        longest_s = max((points[-1][0] for points in runs.values() if points), default=HOUR)
        for number, (name, points) in enumerate(runs.items()):
            drawn = [
                *points,
                (longest_s * 10 + HOUR, points[-1][1] if points else 0.0),
            ]  # it goes on as high as it ended
            waits = [max(wait, LEAST_S) for wait, _ in drawn]
            percents = [100 * share for _, share in drawn]
            axes.plot(
                waits,
                percents,
                label=name,
                drawstyle="steps-post",
                linewidth=2,
                color=_colour(number),
                linestyle=_dash(number),
            )
        _waits_on_x(axes, longest_s)
        axes.set(xlabel="waited at most", ylabel="share of the jobs (%)", ylim=(0, 101))
        _legend(figure, len(runs))
    return svg()


def spreads(groups: Mapping[str, Mapping[str, Spread]]) -> str:
    """The waits of each group under each run: a box from a quarter to three quarters, whiskers from 5 to 95 %."""
    names = list(dict.fromkeys(run for some in groups.values() for run in some))
    rows = [(group, run) for group in groups for run in (*names, "")][:-1]
    with _drawing(0.7 + 0.24 * len(rows) + _room(len(names))) as (figure, svg):
        axes = figure.subplots()
        for place, (group, run) in enumerate(rows):
            if spread := groups[group].get(run):
                _box(axes, place, spread, _colour(names.index(run)))
        middle = (len(names) - 1) / 2
        axes.set_yticks([at * (len(names) + 1) + middle for at in range(len(groups))], [_short(one) for one in groups])
        axes.set(ylim=(len(rows) - 0.4, -0.6), xlabel="wait until the first start")
        axes.tick_params(axis="y", length=0)
        axes.grid(visible=False, axis="y")
        _waits_on_x(axes, max((one.high for some in groups.values() for one in some.values()), default=HOUR))
        for number, name in enumerate(names):
            axes.plot([], [], color=_colour(number), linewidth=6, label=name)
        _legend(figure, len(names))
    return svg()


def use(at_s: Sequence[float], held: Sequence[float], working: Sequence[float], *, cards: int, end_s: float) -> str:
    """The cards of one run over time: at work, held without work, and all there are."""
    with _drawing(2.7) as (figure, svg):
        axes = figure.subplots()
        unit, name = _unit(end_s)
        times = [at / unit for at in at_s]
        axes.fill_between(times, working, step="post", color=COLOURS[0], linewidth=0, label="at work")
        if any(one - other > cards / 1000 for one, other in zip(held, working, strict=True)):
            idle = axes.fill_between(times, held, working, step="post", label="held, idle")
            idle.set(facecolor=LIGHT[3], edgecolor=_INK, hatch="////", linewidth=0)
        axes.axhline(cards, color=_INK, linewidth=1, linestyle="--", label="all cards")
        axes.set(xlabel=f"{name} since the beginning", ylabel="cards", ylim=(0, cards * 1.04), xlim=(0, end_s / unit))
        _legend(figure, 3)
    return svg()


def line(runs: Mapping[str, tuple[Sequence[float], Sequence[float]]], *, end_s: float) -> str:
    """How many jobs wait for their first start, over time: of each run its times and counts."""
    with _drawing(2.6 + _room(len(runs))) as (figure, svg):
        axes = figure.subplots()
        unit, name = _unit(end_s)
        for number, (run, (at_s, counts)) in enumerate(runs.items()):
            times = [at / unit for at in at_s]
            axes.plot(times, counts, label=run, linewidth=1.6, color=_colour(number), linestyle=_dash(number))
        axes.set(xlabel=f"{name} since the beginning", ylabel="jobs that wait", xlim=(0, end_s / unit))
        axes.set_ylim(0, 1.04 * max(1.0, *(count for _, counts in runs.values() for count in counts)))
        _legend(figure, len(runs))
    return svg()


def stacks(
    rows: Mapping[str, Mapping[str, float]], *, label: str, top: float, free: str, colours: Mapping[str, str]
) -> str:
    """Bars made of parts: who (row) and of what (part); `free` is hatched, since it is nobody."""
    with _drawing(1.0 + 0.36 * len(rows) + 0.22 * (1 + len(colours) // 3)) as (figure, svg):
        axes = figure.subplots()
        so_far = [0.0] * len(rows)
        for part in dict.fromkeys(part for row in rows.values() for part in row):
            values = [row.get(part, 0.0) for row in rows.values()]
            if sum(values) > 0:
                colour, hatch = ("white", "////") if part == free else (colours[part], "")
                drawn = axes.barh(range(len(rows)), values, left=so_far, height=0.7, label=_short(part), color=colour)
                for one in drawn:
                    one.set(edgecolor=_INK, linewidth=0.5, hatch=hatch)
            so_far = [one + other for one, other in zip(so_far, values, strict=True)]
        axes.set_yticks(range(len(rows)), [_short(name) for name in rows])
        axes.set(xlabel=label, xlim=(0, top * 1.03 or 1), ylim=(len(rows) - 0.4, -0.6))
        axes.locator_params(axis="x", nbins=5)
        axes.tick_params(axis="y", length=0)
        axes.grid(visible=False, axis="y")
        _legend(figure, 3)
    return svg()


def bars(values: Mapping[str, float], *, label: str, text: Callable[[float], str]) -> str:
    """One bar a run, with its number written at its end."""
    with _drawing(0.75 + 0.36 * len(values)) as (figure, svg):
        axes = figure.subplots()
        drawn = axes.barh(
            range(len(values)),
            list(values.values()),
            height=0.7,
            color=[_colour(at) for at in range(len(values))],
        )
        axes.bar_label(drawn, [text(value) for value in values.values()], padding=3)
        axes.set_yticks(range(len(values)), [short_name(name) for name in values])
        axes.set(xlim=(0, max(values.values(), default=0) * 1.3 or 1), ylim=(len(values) - 0.4, -0.6))
        figure.supxlabel(label, fontsize=10)  # the plot may be narrower than its words
        axes.tick_params(axis="y", length=0)
        axes.grid(visible=False, axis="y")
    return svg()


@contextmanager
def _drawing(high: float) -> Iterator[tuple[Figure, Callable[[], str]]]:
    """A figure, and how to get its SVG once it is drawn."""
    import matplotlib as mpl  # noqa: PLC0415 -- half a second, for pages only
    from matplotlib.figure import Figure  # noqa: PLC0415

    text = io.StringIO()
    with mpl.rc_context(_STYLE), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of letters that its font lacks: a browser has others
        figure = Figure(figsize=(_WIDE, high))
        yield figure, text.getvalue
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None}, transparent=True)


def inlined(svg: str, *, number: int, alt: str) -> str:
    """An SVG as part of a page: without its own header, its ids told apart from those of the others, with its words."""
    from html import escape  # noqa: PLC0415 -- for pages only

    body = svg[svg.index("<svg") :]
    body = re.sub(r'\bid="', f'id="f{number}-', body)
    body = re.sub(r'(url\(#|href="#)', rf"\1f{number}-", body)
    head = f'<svg role="img" aria-label="{escape(alt)}"'
    return re.sub(r"<metadata>.*?</metadata>\s*", "", body.replace("<svg", head, 1), flags=re.DOTALL)


def _colour(number: int) -> str:
    return COLOURS[number % len(COLOURS)]


def _dash(number: int) -> Any:  # noqa: ANN401 -- matplotlib takes names and patterns
    return DASHES[number % len(DASHES)]


def _box(axes: Axes, place: int, spread: Spread, colour: str) -> None:
    low, quarter, most, high = (max(one, LEAST_S) for one in (spread.low, spread.quarter, spread.most, spread.high))
    axes.plot([low, high], [place, place], color=colour, linewidth=1.5, solid_capstyle="butt")
    axes.barh(place, max(most - quarter, quarter * 0.03), left=quarter, height=0.66, color=colour)
    axes.plot([max(spread.median, LEAST_S)] * 2, [place - 0.33, place + 0.33], color="white", linewidth=2)
    axes.plot(max(spread.mean, LEAST_S), place, marker="o", markersize=5, color="white", markeredgecolor=_INK)


def _waits_on_x(axes: Axes, longest_s: float) -> None:
    from matplotlib.ticker import NullFormatter, NullLocator  # noqa: PLC0415

    top = max(longest_s * 1.15, 10.0 * MINUTE)
    axes.set_xscale("log")
    axes.set_xlim(LEAST_S * 0.9, top)
    marks = [(at, text) for at, text in _MARKS if LEAST_S <= at <= top]
    axes.set_xticks([at for at, _ in marks], [text if at > LEAST_S else "≤ " + text for at, text in marks])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_minor_formatter(NullFormatter())


def _unit(span_s: float) -> tuple[int, str]:
    return (DAY, "days") if span_s >= 3 * DAY else (HOUR, "hours")


def _short(name: str) -> str:
    return short_name(name, _LONGEST)


def _room(count: int) -> float:
    """Inches that a legend of so many names takes."""
    return 0.25 if count <= _FEW else 0.25 * ((count + 1) // 2)


def _legend(figure: Figure, count: int) -> None:
    if figure.axes[0].get_legend_handles_labels()[0]:
        figure.legend(loc="outside lower left", ncols=max(count, 1) if count <= _FEW else 2, handlelength=2.6)
