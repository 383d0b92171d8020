"""A calendar as text: a line a card, time from left to right, in the width there is. Plain characters only."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, tzinfo

from lxgpu.cli.table import width
from lxgpu.services.calendarview import Bar, BarKind, Calendar, Line

FILL = {BarKind.HELD: "=", BarKind.OVER: ".", BarKind.BOOKED: "-", BarKind.CLOSED: "x"}
LEGEND = "[= held)  [- booked)  [. past its lease: kept until someone waits)  [x closed)  > goes on  | now"
LEAST_COLUMNS = 30
"""The time axis is never narrower; a terminal that is breaks lines."""
_HOURS = (1, 2, 3, 6, 12, 24, 48, 168)
_GAP = 3
"""Columns between one mark of the axis and the next."""


def timeline(found: Calendar, *, columns: int, zone: tzinfo, name: Callable[[Line], str]) -> list[str]:
    """The lines: the axis, a ruler, then each line of the calendar.

    Args:
        found: the calendar.
        columns: how wide all of it may be.
        zone: the lab's, for the axis.
        name: what a line is called.
    """
    names = [name(line) for line in found.lines]
    margin = max((width(text) for text in names), default=0) + 2
    canvas = _Canvas(found, max(LEAST_COLUMNS, columns - margin))
    axis, ruler = canvas.axis(zone)
    rows = [
        f"{text}{' ' * (margin - width(text))}{canvas.row(line.bars)}"
        for text, line in zip(names, found.lines, strict=True)
    ]
    return [line.rstrip() for line in (" " * margin + axis, " " * margin + ruler, *rows)]


class _Canvas:
    """Times to columns."""

    def __init__(self, found: Calendar, columns: int) -> None:
        self._start, self._span = found.start, found.end - found.start
        self._columns = columns
        self._now = self._at(found.now)

    def _at(self, at: datetime) -> int:
        return round((at - self._start) / self._span * (self._columns - 1))

    def axis(self, zone: tzinfo) -> tuple[str, str]:
        """The times at the marks, and the ruler with the marks and now."""
        texts, ruler = [" "] * (self._columns + 20), ["."] * self._columns
        free = 0
        for at, text in _marks(self._start, self._span, zone, self._columns):
            place = self._at(at)
            if 0 <= place < self._columns:
                ruler[place] = "+"
            if free <= place and place + len(text) <= self._columns:
                texts[place : place + len(text)] = text
                free = place + len(text) + 1
        ruler[self._now] = "|"
        return "".join(texts).rstrip(), "".join(ruler)

    def row(self, bars: tuple[Bar, ...]) -> str:
        """One line; a later bar goes over an earlier one, and a label is cut where its bar is too short for it."""
        cells = [" "] * self._columns
        cells[self._now] = "|"
        for bar in bars:
            first = self._at(bar.start)
            last = self._columns if bar.until is None else self._at(bar.until)
            if last < 0 or first >= self._columns:
                continue
            begin, end = max(first, 0), min(max(last, first + 1), self._columns - 1)
            inner = max(0, end - begin - 1)
            left = "<" if first < 0 else "["
            right = ">" if bar.until is None or last > self._columns - 1 else ")"
            text = left + bar.label[:inner].ljust(inner, FILL[bar.kind]) + right
            cells[begin : end + 1] = text[: end + 1 - begin]
        return "".join(cells)


def _marks(start: datetime, span: timedelta, zone: tzinfo, columns: int) -> list[tuple[datetime, str]]:
    """Round local times, as many as fit, with their words: `18:00`, at midnight `mon 07`."""
    hours = next((step for step in _HOURS if span / timedelta(hours=step) * (6 + _GAP) <= columns), _HOURS[-1])
    local = start.astimezone(zone).replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
    step = timedelta(hours=hours)
    found: list[tuple[datetime, str]] = []
    while True:
        at = local.replace(tzinfo=zone)
        if at > start + span:
            return found
        if at >= start:
            found.append((at, f"{at:%a %d}".lower() if at.hour == 0 else f"{at:%H:%M}"))
        local += step
