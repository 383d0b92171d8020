"""The values of a trace, each with what is wrong with it in plain words."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from math import isfinite

LARGEST_S = 1e10
"""Three hundred years: a longer time is a mistake."""
MOST_GPUS = 1_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SPAN = re.compile(r"(?:(?P<days>\d+)-)?(?:(?P<hours>\d+):)?(?P<minutes>\d+):(?P<seconds>\d+(?:\.\d+)?)", re.ASCII)


class BadValueError(ValueError):
    """A value that cannot be right; `column` is its place in the row, counted from 0."""

    def __init__(self, column: int, text: str) -> None:
        super().__init__(text)
        self.column = column


def number(row: list[str], column: int) -> float:
    """A finite number; signs, decimals and exponents are fine, blanks around it too."""
    try:
        value = float(row[column])
    except ValueError:
        raise BadValueError(column, f"a number is wanted, not {row[column].strip()[:40]!r}") from None
    if not isfinite(value):
        raise BadValueError(column, f"a number is wanted, not {row[column].strip()[:40]}")
    return value


def seconds(row: list[str], column: int, *, unit_s: float = 1.0) -> float:
    """A time or a duration in seconds, given in units of so many of them; 0 at least."""
    value = number(row, column) * unit_s
    if not 0 <= value <= LARGEST_S:
        bound = "at least 0" if value < 0 else f"at most {LARGEST_S:.0f} seconds"
        raise BadValueError(column, f"{row[column].strip()} is not allowed: {bound}")
    return value


def whole(row: list[str], column: int) -> int:
    """A count; written as 2 or 2.0."""
    value = number(row, column)
    if value != int(value) or not 0 <= value <= MOST_GPUS:
        raise BadValueError(column, f"a whole number from 0 to {MOST_GPUS} is wanted, not {row[column].strip()}")
    return int(value)


def instant(row: list[str], column: int) -> float:
    """A date with a time of day, in seconds since 1970 (or digits: those); without an offset it is taken as UTC."""
    text = row[column].strip()
    if text.isascii() and text.isdigit():
        return seconds(row, column)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise BadValueError(column, f"a date and time as 2027-05-01T09:00:00 is wanted, not {text[:40]!r}") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH).total_seconds()


def span(row: list[str], column: int) -> float:
    """A duration as Slurm writes it, [days-][hours:]minutes:seconds, in seconds."""
    match = _SPAN.fullmatch(row[column].strip())
    if match is None:
        raise BadValueError(column, f"a duration as 1-02:30:00 is wanted, not {row[column].strip()[:40]!r}")
    days, hours, minutes = (int(match[name] or 0) for name in ("days", "hours", "minutes"))
    return ((days * 24 + hours) * 60 + minutes) * 60 + float(match["seconds"])


def unique(row: list[str], column: int, seen: set[str]) -> str:
    """A name that no row before had; those that were had are `seen`."""
    text = label(row, column)
    if text in seen:
        raise BadValueError(column, f"{text[:40]!r} is in the file already: each job has a name of its own")
    seen.add(text)
    return text


def label(row: list[str], column: int) -> str:
    """A name; it must be there."""
    text = row[column].strip()
    if not text:
        raise BadValueError(column, "a name is missing")
    return text
