"""Tables of text: aligned by what the terminal shows, and nothing ever cut off."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from textwrap import wrap
from unicodedata import combining, east_asian_width

GAP = "  "
ROOM = 24
"""The last column may be folded if it has this room at least; narrower ones cannot be read."""
_INDENT = "    "


def width(text: str) -> int:
    """Columns that a text takes on a terminal; Chinese and other wide characters take two."""
    if text.isascii():
        return len(text)
    return sum(0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1 for char in text)


def lines(rows: Sequence[Sequence[str]]) -> list[str]:
    """Returns rows with their columns aligned, no space at the ends of lines."""
    if not rows:
        return []
    widths = [max(width(text) for text in column) for column in zip(*rows, strict=True)]
    return [
        GAP.join(text + " " * (wide - width(text)) for text, wide in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def natural(rows: Sequence[Sequence[str]]) -> list[int]:
    """How wide each column is without being folded."""
    return [max(width(text) for text in column) for column in zip(*rows, strict=True)]


def foldable(rows: Sequence[Sequence[str]], *, wide: int) -> bool:
    """Whether a terminal of that width holds all columns, if need be with the last one folded."""
    *first, last = natural(rows)
    return sum(first) + len(GAP) * len(first) + min(last, ROOM) <= wide


def stacked(headers: Sequence[str], cells: Sequence[Sequence[str]], *, wide: int, header: bool = True) -> list[str]:
    """Rows for a narrow terminal: the first columns that fit as a table, and the others below each row by their names.

    What is not there (`-`) is left out below; nothing is cut off, and words are broken only when longer than a line.
    """
    widths = natural([headers, *cells] if header else cells)
    ends = accumulate(widths, lambda end, one: end + len(GAP) + one)
    fits = max(1, sum(end <= wide for end in ends))
    first = lines([row[:fits] for row in ([headers, *cells] if header else cells)])
    found = [first.pop(0)] if header else []
    for line, row in zip(first, cells, strict=True):
        below = [f"{name} {text}" for name, text in zip(headers[fits:], row[fits:], strict=True) if text != "-"]
        found += [line, *_below(below, wide - len(_INDENT))]
    return found


def _below(items: Sequence[str], wide: int) -> list[str]:
    """Items one after the other, a new line for each that does not fit, folded when longer than a line itself."""
    found: list[str] = []
    for item in items:
        if found and width(found[-1]) + len(GAP) + width(item) <= wide:
            found[-1] += GAP + item
        else:
            found += wrap(item, max(wide, 10), break_on_hyphens=False)
    return [_INDENT + line for line in found]


def folded(headers: Sequence[str], cells: Sequence[Sequence[str]], *, colored: bool) -> str:
    """A table that fits the terminal: what is too long goes on in the next line of its column."""
    from rich.console import Console  # noqa: PLC0415 -- for terminals only
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=bool(headers), header_style="bold")
    for number in range(len(cells[0])):
        table.add_column(headers[number] if headers else "", overflow="fold")
    for row in cells:
        table.add_row(*(Text(text) for text in row))
    console = Console(force_terminal=colored, no_color=not colored, highlight=False)
    with console.capture() as captured:
        console.print(table)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())
