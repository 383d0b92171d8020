"""Durations, sizes and shares as text: exact ones that `lxgpu.units` reads back, and short ones for people.

Light to load, since every table needs it.
"""

from __future__ import annotations

MINUTE = 60
HOUR = 60 * MINUTE
DAY = 24 * HOUR
WEEK = 7 * DAY
BINARY = {"KiB": 1024, "MiB": 1024**2, "GiB": 1024**3, "TiB": 1024**4, "PiB": 1024**5, "EiB": 1024**6}
DECIMAL = {"kB": 1000, "MB": 1000**2, "GB": 1000**3, "TB": 1000**4, "PB": 1000**5, "EB": 1000**6}
SIZE_UNITS = {"B": 1, **BINARY, **DECIMAL}
MOST_QUOTED = 60
"""So many characters of what was typed stand in an error."""


def format_duration(seconds: int) -> str:
    """Writes whole seconds exactly, so that `parse_duration` returns them: `1d12h`, `0s`, `-90s` as `-1m30s`."""
    if seconds < 0:
        return "-" + format_duration(-seconds)
    parts = []
    for unit, letter in ((DAY, "d"), (HOUR, "h"), (MINUTE, "m"), (1, "s")):
        count, seconds = divmod(seconds, unit)
        if count:
            parts.append(f"{count}{letter}")
    return "".join(parts) or "0s"


def short_duration(seconds: float) -> str:
    """Writes seconds for people, two units at most, cut and never rounded up: `3h59m`, `2d4h`, `14m`, `45s`.

    Cutting means that nobody is promised more time than there is.
    """
    if seconds < 0:
        return "-" + short_duration(-seconds)
    whole = int(seconds)
    for above, unit in ((DAY, HOUR), (HOUR, MINUTE), (10 * MINUTE, MINUTE)):
        if whole >= above:
            return format_duration(whole - whole % unit)
    return format_duration(whole)


def format_size(size: int) -> str:
    """Writes bytes exactly in the shortest way, so that `parse_size` returns them: `64GiB`, `2GB`, `1000001B`."""
    ways = [f"{size // unit}{name}" for name, unit in SIZE_UNITS.items() if size % unit == 0 and size >= unit]
    return min(ways, key=lambda way: (len(way), not way.endswith("iB"))) if ways else f"{size}B"


def short_size(size: float) -> str:
    """Writes bytes for people, in powers of 1024 with three digits or so: `61.3GiB`, `512MiB`, `0B`."""
    if size < 0:
        return "-" + short_size(-size)
    name, unit = "B", 1
    for larger, factor in BINARY.items():
        if size >= factor:
            name, unit = larger, factor
    amount = size / unit
    return f"{amount:.0f}{name}" if amount >= 100 or amount == int(amount) else f"{amount:.1f}{name}"  # noqa: PLR2004 -- three digits


def n_gpus(count: int) -> str:
    """So many cards in words: `1 GPU`, `2 GPUs`."""
    return f"{count} GPU{'s' * (count != 1)}"


def format_percent(percent: float) -> str:
    """Writes a share: `90%`, `0.5%`."""
    return f"{percent:g}%"


def short_name(name: str, most: int = 24) -> str:
    """A name of so many characters at most: the end of a longer one is left out."""
    return name if len(name) <= most else name[: most - 1] + "…"


def quoted(text: str) -> str:
    """What somebody typed, in quotes; of what is long the beginning."""
    return repr(text if len(text) <= MOST_QUOTED else f"{text[: MOST_QUOTED - 1]}…")
