"""A calendar as text: a line a card, time from left to right, in the width there is. Plain characters only."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, tzinfo

from lxgpu.cli.table import width
from lxgpu.model.cardnames import n_asked
from lxgpu.services.calendarview import Bar, BarKind, Calendar, Line

FILL = {BarKind.HELD: "=", BarKind.OVER: ".", BarKind.BOOKED: "-", BarKind.CLOSED: "x"}
LEGEND = (
    "[= held)  [- booked)  [. past its lease: kept until someone waits)  [x closed)  < began before  > goes on  | now"
)
_WORDS = {
    BarKind.HELD: "has it",
    BarKind.OVER: "past its lease: keeps it until someone waits",
    BarKind.BOOKED: "booked",
    BarKind.CLOSED: "out of service",
}
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
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


def legend(found: Calendar, *, show: Callable[[datetime], str]) -> list[str]:
    """What stands below: who each letter is, from when until when; what the marks mean; what comes after it all.

    `show` writes times.
    """
    letters = _letters(found)
    bars: dict[_Key, list[tuple[Bar, str]]] = {key: [] for key in letters}
    for line in found.lines:
        for bar in line.bars:
            if (key := _key(bar)) in bars:
                bars[key].append((bar, line.name))
    rows = [f"{letter}  {_who(bars[key], show)}" for key, letter in letters.items()]
    if found.later:
        number, last = len(found.later), show(found.later[-1])
        be, what = ("is", "booking") if number == 1 else ("are", "bookings")
        rows.append(f"{number} {what} {be} after this, the last until {last}: --days shows more, --from a later part")
    return [*rows, LEGEND]


_Key = tuple[str, int, str, BarKind]


def _key(bar: Bar) -> _Key:
    """What has one letter: the cards of one reservation, or those that one container has without one."""
    return (bar.instance, bar.gpus, bar.of or ("" if bar.until is None else bar.until.isoformat()), bar.kind)


def _whose(bar: Bar, model: str) -> str:
    """`alice`, or `alice 3 GPUs` of what has no card yet."""
    return f"{bar.instance} {n_asked(bar.gpus, model)}" if bar.gpus else bar.instance


def _letters(found: Calendar) -> dict[_Key, str]:
    """A letter for all that is to be seen, in the order in which it begins; beyond the letters numbers."""
    seen = [bar for line in found.lines for bar in line.bars if _visible(bar, found)]
    keys = dict.fromkeys(_key(bar) for bar in sorted(seen, key=lambda bar: (bar.start, bar.instance)))
    return {key: _LETTERS[at] if at < len(_LETTERS) else str(at + 1) for at, key in enumerate(keys)}


def _visible(bar: Bar, found: Calendar) -> bool:
    return bar.start < found.end and (bar.until is None or bar.until > found.start)


def _who(bars: list[tuple[Bar, str]], show: Callable[[datetime], str]) -> str:
    first, model = bars[0]
    cards = f", {len(bars)} cards" if len(bars) > 1 else ""
    of = f" ({first.of})" if first.of else ""
    start = f" from {show(first.start)}" if first.kind is BarKind.BOOKED else ""
    if first.kind is BarKind.CLOSED:
        return _WORDS[first.kind] + cards
    until = f" until {show(first.until)}" if first.until else ""
    return f"{_whose(first, model)}{of}: {_WORDS[first.kind]}{start}{until}{cards}"


class _Canvas:
    """Times to columns."""

    def __init__(self, found: Calendar, columns: int) -> None:
        self._letters = _letters(found)
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
        if 0 <= self._now < self._columns:
            ruler[self._now] = "|"
        return "".join(texts).rstrip(), "".join(ruler)

    def row(self, bars: tuple[Bar, ...]) -> str:
        """One line; a later bar goes over an earlier one, and one that is too short for its ends is its letter."""
        cells = [" "] * self._columns
        if 0 <= self._now < self._columns:
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
            letter = self._letters.get(_key(bar), "")
            text = left + letter.ljust(inner, FILL[bar.kind]) + right if inner >= len(letter) else letter + right
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
