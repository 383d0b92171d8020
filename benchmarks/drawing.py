"""The plots of docs/benchmarks.md, drawn from series.json by matplotlib; the same SVG for the same numbers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from math import log
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.table import DOCUMENT, HERE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Series = Mapping[str, Sequence[tuple[Any, ...]]]
"""Points by the name of the line: growth (jobs, events, CPU seconds), waits (hours: of all, and of each group)."""
SERIES = HERE / "series.json"
_STYLE: dict[Any, Any] = {
    "font.size": 9,
    "svg.fonttype": "none",
    "svg.hashsalt": "lxgpu",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#D9D9D9",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
}
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#AA4499", "#222222")
_MARKS = "osD^v"


def known() -> dict[str, Series]:
    """What series.json holds."""
    return json.loads(SERIES.read_text(encoding="utf-8")) if SERIES.exists() else {}


def write(fresh: Mapping[str, Series]) -> None:
    """Keeps the series, and draws them all anew."""
    series = {**known(), **fresh}
    SERIES.write_text(json.dumps(series, indent=1) + "\n", encoding="utf-8")
    for name, draw in DRAWN.items():
        if name in series:
            _draw(DOCUMENT.with_name(f"benchmarks-{name}.svg"), draw, series[name])


def _draw(target: Path, draw: Callable[[Figure, Series], None], series: Series) -> None:
    import matplotlib as mpl  # noqa: PLC0415 -- half a second, for plots only
    from matplotlib import figure as figures  # noqa: PLC0415 -- as above

    with mpl.rc_context(_STYLE):
        figure = figures.Figure(figsize=(6.4, 3.6), facecolor="white")
        draw(figure, series)
        figure.savefig(target, format="svg", metadata={"Date": None, "Creator": None})
    text = target.read_text(encoding="utf-8")
    target.write_text(re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE), encoding="utf-8")


def _growth(figure: Figure, series: Series) -> None:
    """CPU seconds by jobs, with what n log n would be from the first point on; a panel for each trace."""
    names = list(dict.fromkeys(line.split(" on ")[1] for line in series))
    panels = figure.subplots(1, len(names), sharey=True, squeeze=False)[0]
    for axes, name in zip(panels, names, strict=True):
        lines = {line.split(" on ")[0]: points for line, points in series.items() if line.endswith(f" on {name}")}
        for number, (rule, points) in enumerate(lines.items()):
            jobs, seconds = [point[0] for point in points], [point[2] for point in points]
            axes.plot(jobs, seconds, color=_COLOURS[number], marker=_MARKS[number], markersize=4, label=rule)
            even = [seconds[0] * count * log(count) / (jobs[0] * log(jobs[0])) for count in jobs]
            axes.plot(jobs, even, color=_COLOURS[number], linestyle=":", linewidth=1)
        axes.set(xscale="log", yscale="log", xlabel="jobs", title=name)
        axes.minorticks_off()
    panels[0].plot([], [], color="#757575", linestyle=":", linewidth=1, label="n log n")
    panels[0].set(ylabel="CPU seconds")
    panels[0].legend()


def _waits(figure: Figure, series: Series) -> None:
    """The mean wait of all and of each group, rule by rule."""
    axes = figure.subplots()
    labels = ["all jobs", *series["groups"][0]]
    rules = {name: points[0] for name, points in series.items() if name != "groups"}
    wide = 0.8 / len(rules)
    for number, (name, hours) in enumerate(rules.items()):
        places = [at + number * wide - 0.4 + wide / 2 for at in range(len(labels))]
        axes.bar(places, hours, width=wide, color=_COLOURS[number], edgecolor="white", linewidth=0.5, label=name)
    axes.set_xticks(range(len(labels)), labels)
    axes.grid(visible=False, axis="x")
    axes.set(ylabel="mean wait to the first start (h)")
    axes.legend(ncols=len(rules), loc="lower center", bbox_to_anchor=(0.5, 1.0))


DRAWN: Mapping[str, Callable[[Figure, Series], None]] = {"growth": _growth, "waits": _waits}
