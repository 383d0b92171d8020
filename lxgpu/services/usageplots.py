"""Drawings of a report as SVG in a page's own colours, so that they are right on a dark screen and in print too.

Classes of the page: `u` used, `i` idle, `k` unknown, `o` one colour, `a` an axis. Unknown is hatched, and every figure
stands in a table below, so that no colour alone says anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from lxgpu.figures import short_name

WIDE = 480
"""So narrow that letters can still be read where a telephone shows all of it."""
_NAME, _ROW, _TEXT = 118, 24, 74
_LONGEST = 16
_STEPS = (1, 2, 5)
HATCH = (
    '<svg width="0" height="0" aria-hidden="true" focusable="false"><defs><pattern id="hatch" width="5" height="5"'
    ' patternTransform="rotate(45)" patternUnits="userSpaceOnUse"><rect class="kb" width="5" height="5"/>'
    '<line class="kl" x1="0" y1="0" x2="0" y2="5"/></pattern></defs></svg>'
)
"""To stand once in a page: what is unknown is filled with it."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A name, the lengths of its parts with their classes, and the text behind it."""

    name: str
    parts: tuple[tuple[str, float], ...]
    text: str


def bars(found: Sequence[Bar], *, alt: str, top: float | None = None) -> str:
    """Horizontal bars, one below the other; `top` is what the whole width stands for."""
    most = top or max((sum(size for _, size in bar.parts) for bar in found), default=0.0) or 1.0
    room = WIDE - _NAME - _TEXT
    drawn = []
    for number, bar in enumerate(found):
        y, x = number * _ROW, float(_NAME)
        name = escape(short_name(bar.name, _LONGEST))
        drawn.append(
            f'<text x="{_NAME - 8}" y="{y + 16}" text-anchor="end">{name}<title>{escape(bar.name)}</title></text>'
        )
        for word, size in bar.parts:
            wide = room * size / most
            if wide > 0:
                drawn.append(f'<rect class="{word}" x="{x:.1f}" y="{y + 4}" width="{wide:.1f}" height="{_ROW - 8}"/>')
            x += wide
        drawn.append(f'<text class="n" x="{x + 6:.1f}" y="{y + 16}">{escape(bar.text)}</text>')
    axis = f'<line class="a" x1="{_NAME}" y1="0" x2="{_NAME}" y2="{len(found) * _ROW}"/>'
    return _svg(WIDE, max(1, len(found)) * _ROW, alt, [axis, *drawn])


@dataclass(frozen=True, slots=True)
class Column:
    """A day: its label (empty: none), what it is called at length, and its parts with their classes."""

    label: str
    title: str
    parts: tuple[tuple[str, float], ...]


def columns(found: Sequence[Column], *, alt: str, top: float, unit: str) -> str:
    """Upright bars side by side, up to `top`."""
    left, low, high = 30, 172, 22
    step = _step(top)
    most = max(top, step)
    width = (WIDE - left) / max(1, len(found))

    def up(value: float) -> float:
        return low - (low - high) * value / most

    drawn = []
    for number in range(int(most / step + 1e-9) + 1):
        y = up(number * step)
        drawn.append(f'<line class="g" x1="{left}" y1="{y:.1f}" x2="{WIDE}" y2="{y:.1f}"/>')
        drawn.append(f'<text class="n" x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{number * step:g}</text>')
    for number, one in enumerate(found):
        x, at = left + number * width, 0.0
        said = [f"<title>{escape(one.title)}</title>"]
        for word, size in one.parts:
            if size > 0:
                y, tall = up(at + size), up(at) - up(at + size)
                said.append(
                    f'<rect class="{word}" x="{x + width * 0.08:.1f}" y="{y:.1f}" width="{width * 0.84:.1f}"'
                    f' height="{tall:.1f}"/>'
                )
            at += size
        drawn.append(f"<g>{''.join(said)}</g>")
        if one.label:
            drawn.append(
                f'<text class="n" x="{x + width / 2:.1f}" y="{low + 18}" text-anchor="middle">{one.label}</text>'
            )
    drawn.append(f'<text class="n" x="0" y="11">{escape(unit)}</text>')
    return _svg(WIDE, low + 24, alt, drawn)


def heat(
    rows: Sequence[tuple[str, Sequence[tuple[str, float | None]]]], *, alt: str, top: float, heads: Iterable[str]
) -> str:
    """A grid of squares, the darker the more of `top`; what is not known is hatched.

    `rows` are named, each square has its words and its value; `heads` stand over the columns.
    """
    left, above, tall = 36, 18, 20
    width = (WIDE - left) / max((len(cells) for _, cells in rows if cells), default=1)
    drawn = [
        f'<text class="n" x="{left + number * width + 2:.1f}" y="12">{escape(head)}</text>'
        for number, head in enumerate(heads)
        if head
    ]
    for line, (name, cells) in enumerate(rows):
        y = above + line * tall
        drawn.append(f'<text class="n" x="{left - 8}" y="{y + 14}" text-anchor="end">{escape(name)}</text>')
        for number, (words, value) in enumerate(cells):
            place = f'x="{left + number * width + 1:.1f}" y="{y + 1}" width="{width - 2:.1f}" height="{tall - 2}"'
            said = f"<title>{escape(words)}</title>"
            if value is None:
                drawn.append(f'<rect class="k" {place}>{said}</rect>')
                continue
            share = min(1.0, value / top) if top else 0.0
            drawn.append(f'<rect class="e" {place}/><rect class="h" fill-opacity="{share:.3f}" {place}>{said}</rect>')
    return _svg(WIDE, above + len(rows) * tall, alt, drawn)


def _step(top: float) -> float:
    """The distance of marks, so that there are about four up to `top`."""
    power = 1.0
    while power * 10 < top / 4:
        power *= 10
    while power > top / 4 and power > 0.001:  # noqa: PLR2004 -- no mark is closer
        power /= 10
    return next((power * one for one in _STEPS if top / (power * one) <= 5), power * 10)  # noqa: PLR2004 -- marks


def _svg(wide: int, high: int, alt: str, inside: Iterable[str]) -> str:
    return (
        f'<svg viewBox="0 0 {wide} {high}" role="img" aria-label="{escape(alt)}"'
        f' xmlns="http://www.w3.org/2000/svg">{"".join(inside)}</svg>'
    )
