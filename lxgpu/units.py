"""Durations, sizes, shares and rates: one strict grammar, and the way back.

Used by the policy file, the settings, the command line and the guest's `gpu` script, so that `4h` means the
same everywhere. A bare number is refused: `4` could be hours as well as minutes. Points in time are in
`lxgpu.instants`.
"""

from __future__ import annotations

import re

from lxgpu.errors import LxgpuError

MINUTE = 60
HOUR = 60 * MINUTE
DAY = 24 * HOUR
WEEK = 7 * DAY
LONGEST_S = 3650 * DAY
"""No duration is longer than this (seconds): a typing error, and dates would overflow."""
LARGEST_BYTES = 2**63 - 1
"""No size is larger: LXD counts in signed 64-bit integers."""

_DURATION = re.compile(
    r"(?=[0-9])(?:([0-9]{1,9})w)?(?:([0-9]{1,9})d)?(?:([0-9]{1,9})h)?(?:([0-9]{1,9})m)?(?:([0-9]{1,9})s)?"
)
_DURATION_UNITS = (WEEK, DAY, HOUR, MINUTE, 1)
_DURATION_HELP = "a duration is a number and its unit, largest unit first: 30s, 90m, 4h, 2d, 1d12h, 2w"

_SIZE = re.compile(r"([0-9]{1,20})(?:\.([0-9]{1,12}))?([A-Za-z]{1,5})")
_BINARY = {"KiB": 1024, "MiB": 1024**2, "GiB": 1024**3, "TiB": 1024**4, "PiB": 1024**5, "EiB": 1024**6}
_DECIMAL = {"kB": 1000, "MB": 1000**2, "GB": 1000**3, "TB": 1000**4, "PB": 1000**5, "EB": 1000**6}
_SIZE_UNITS = {"B": 1, **_BINARY, **_DECIMAL}
_SIZE_HELP = "a size is a number and its unit: 512MiB, 64GiB, 1.5TiB (powers of 1024), or 2GB (powers of 1000)"

_PERCENT = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,3})?)%")
_WHOLE = re.compile(r"[0-9]{1,9}")


def parse_duration(text: str) -> int:
    """Reads `90m`, `4h`, `1d12h`, `2w` and returns whole seconds.

    Raises:
        LxgpuError: `bad_time`, saying what is accepted.
    """
    match = _DURATION.fullmatch(text)
    if match is None:
        raise LxgpuError("bad_time", f"{text!r} is no duration", why=_DURATION_HELP, fix=_duration_hint(text))
    seconds = sum(int(number) * unit for number, unit in zip(match.groups("0"), _DURATION_UNITS, strict=True))
    if seconds > LONGEST_S:
        raise LxgpuError("bad_time", f"{text!r} is too long", why=f"the longest duration is {LONGEST_S // DAY}d")
    return seconds


def _duration_hint(text: str) -> str:
    bare = text.strip()
    if _WHOLE.fullmatch(bare):
        return f"say {bare}m for minutes, {bare}h for hours or {bare}d for days"
    squeezed = re.sub(r"\s+", "", bare.lower())
    return f"say {squeezed}" if squeezed != text and _DURATION.fullmatch(squeezed) else ""


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


def parse_size(text: str) -> int:
    """Reads `64GiB`, `1.5TiB`, `2GB`, `0B` and returns bytes.

    Raises:
        LxgpuError: `bad_size`, saying what is accepted; also when the size is no whole number of bytes.
    """
    match = _SIZE.fullmatch(text)
    unit = _SIZE_UNITS.get(match[3]) if match else None
    if match is None or unit is None:
        raise LxgpuError("bad_size", f"{text!r} is no size", why=_SIZE_HELP, fix=_size_hint(text))
    parts = match[2] or ""
    scale: int = 10 ** len(parts)
    size, rest = divmod(int(match[1] + parts) * unit, scale)
    if rest:
        raise LxgpuError("bad_size", f"{text!r} is no whole number of bytes", why=_SIZE_HELP)
    if size > LARGEST_BYTES:
        raise LxgpuError("bad_size", f"{text!r} is too large", why="the largest size is below 8EiB")
    return size


def _size_hint(text: str) -> str:
    match = re.fullmatch(r"\s*([0-9.]{1,20})\s*([A-Za-z]{0,5})\s*", text)
    if match is None:
        return ""
    number, unit = match.groups()
    if not unit:
        return f"say {number}GiB or {number}MiB"
    like = [known for known in _SIZE_UNITS if known.lower() in (unit.lower(), f"{unit.lower()}ib", f"{unit.lower()}b")]
    return "say " + " or ".join(f"{number}{known}" for known in like) if like else ""


def format_size(size: int) -> str:
    """Writes bytes exactly in the shortest way, so that `parse_size` returns them: `64GiB`, `2GB`, `1000001B`."""
    ways = [f"{size // unit}{name}" for name, unit in _SIZE_UNITS.items() if size % unit == 0 and size >= unit]
    return min(ways, key=lambda way: (len(way), not way.endswith("iB"))) if ways else f"{size}B"


def short_size(size: float) -> str:
    """Writes bytes for people, in powers of 1024 with three digits or so: `61.3GiB`, `512MiB`, `0B`."""
    if size < 0:
        return "-" + short_size(-size)
    name, unit = "B", 1
    for larger, factor in _BINARY.items():
        if size >= factor:
            name, unit = larger, factor
    amount = size / unit
    return f"{amount:.0f}{name}" if amount >= 100 or amount == int(amount) else f"{amount:.1f}{name}"  # noqa: PLR2004 -- three digits


def parse_percent(text: str) -> float:
    """Reads `90%`, `0.5%` and returns 0.0 to 100.0.

    Raises:
        LxgpuError: `bad_size`.
    """
    match = _PERCENT.fullmatch(text)
    if match is None or float(match[1]) > 100:  # noqa: PLR2004 -- the whole
        raise LxgpuError("bad_size", f"{text!r} is no share", why="a share is a number from 0 to 100 and %: 90%, 0.5%")
    return float(match[1])


def format_percent(percent: float) -> str:
    """Writes a share: `90%`, `0.5%`."""
    return f"{percent:g}%"


def parse_count_per(text: str) -> tuple[int, int]:
    """Reads a count per window, `2/1d`, and returns (count, seconds of the window).

    Raises:
        LxgpuError: `bad_time`.
    """
    amount, window = _split_rate(text, like="2/1d, that is two in one day")
    if not _WHOLE.fullmatch(amount):
        raise LxgpuError("bad_time", f"{text!r} does not start with a whole number", why="write it like 2/1d")
    return int(amount), window


def parse_duration_per(text: str) -> tuple[int, int]:
    """Reads an amount of time per window, `8h/7d`, and returns (seconds, seconds of the window).

    Raises:
        LxgpuError: `bad_time`; also when the amount is longer than the window.
    """
    amount, window = _split_rate(text, like="8h/7d, that is eight hours in seven days")
    seconds = parse_duration(amount)
    if seconds > window:
        raise LxgpuError("bad_time", f"{text!r} asks for more time than its window has")
    return seconds, window


def _split_rate(text: str, *, like: str) -> tuple[str, int]:
    amount, slash, window = text.partition("/")
    if not slash:
        raise LxgpuError("bad_time", f"{text!r} has no window", why=f"write it like {like}")
    seconds = parse_duration(window)
    if seconds == 0:
        raise LxgpuError("bad_time", f"the window of {text!r} is empty", why=f"write it like {like}")
    return amount, seconds
