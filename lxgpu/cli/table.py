"""Tables of text: aligned by what the terminal shows, and nothing ever cut off."""

from __future__ import annotations

from collections.abc import Sequence
from unicodedata import combining, east_asian_width

GAP = "  "


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
