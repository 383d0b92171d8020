"""Durations, sizes, shares and rates: one strict grammar, and the way back.

Used by the policy file, the settings, the command line and the guest's `gpu` script, so that `4h` means the
same everywhere. A bare number is refused: `4` could be hours as well as minutes. Points in time are in
`lxgpu.instants`.
"""

from __future__ import annotations

import re

from lxgpu.errors import LxgpuError
from lxgpu.figures import (
    DAY,
    HOUR,
    MINUTE,
    SIZE_UNITS,
    WEEK,
    format_duration,
    format_percent,
    format_size,
    quoted,
    short_duration,
    short_size,
)

__all__ = [
    "DAY",
    "HOUR",
    "LARGEST_BYTES",
    "LONGEST_S",
    "MINUTE",
    "WEEK",
    "format_duration",
    "format_percent",
    "format_size",
    "parse_count_per",
    "parse_duration",
    "parse_duration_per",
    "parse_percent",
    "parse_size",
    "short_duration",
    "short_size",
]

LONGEST_S = 3650 * DAY
"""No duration is longer than this (seconds): a typing error, and dates would overflow."""
LARGEST_BYTES = 2**63 - 1
"""No size is larger: LXD counts in signed 64-bit integers."""

_UNIT_WORDS = {
    WEEK: "w|weeks?",
    DAY: "d|days?",
    HOUR: "h|hrs?|hours?",
    MINUTE: "m|mins?|minutes?",
    1: "s|secs?|seconds?",
}
_DURATION = re.compile(
    "(?=[0-9])" + " ?".join(f"(?:([0-9]{{1,9}}(?:\\.[0-9]{{1,6}})?) ?(?:{word}))?" for word in _UNIT_WORDS.values())
)
_HOURS_MINUTES = re.compile(r"([0-9]{1,9}h)([0-9]{2})")
_MILLION = 10**6
_DURATION_HELP = "a duration is a number and its unit, largest unit first: 30s, 90m, 1.5h, 4 hours, 2d, 1d12h, 2w"

_SIZE = re.compile(r"([0-9]{1,20})(?:\.([0-9]{1,12}))?([A-Za-z]{1,5})")
_SIZE_HELP = "a size is a number and its unit: 512MiB, 64GiB, 1.5TiB (powers of 1024), or 2GB (powers of 1000)"

_PERCENT = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,3})?)%")
_WHOLE = re.compile(r"[0-9]{1,9}")


def parse_duration(text: str) -> int:
    """Reads `90m`, `90min`, `4h`, `4 hours`, `1h30`, `1.5h`, `1d 12h`, `2w` and returns whole seconds.

    Upper and lower case are the same; only the last number may have a fraction.

    Raises:
        LxgpuError: `bad_time`, saying what is accepted.
    """
    plain = re.sub(" +", " ", text.strip(" ")).lower() if text.isascii() else text
    clock = _HOURS_MINUTES.fullmatch(plain)
    if clock is not None and int(clock[2]) < HOUR // MINUTE:
        plain = f"{clock[1]}{clock[2]}m"
    match = _DURATION.fullmatch(plain)
    parts = (
        [(number, unit) for number, unit in zip(match.groups(), _UNIT_WORDS, strict=True) if number] if match else []
    )
    if not parts or any("." in number for number, _ in parts[:-1]):
        raise LxgpuError("bad_time", f"{quoted(text)} is no duration", why=_DURATION_HELP, fix=_duration_hint(plain))
    seconds, left = divmod(sum(_millionths(number) * unit for number, unit in parts), _MILLION)
    if left:
        raise LxgpuError(
            "bad_time", f"{quoted(text)} is no whole number of seconds", why=_DURATION_HELP, fix="give whole ones"
        )
    if seconds > LONGEST_S:
        raise LxgpuError(
            "bad_time",
            f"{quoted(text)} is too long",
            why=f"the longest duration is {LONGEST_S // DAY}d",
            fix="give a shorter one",
        )
    return seconds


def _millionths(number: str) -> int:
    """`1.5` → 1500000, exactly; the grammar takes six digits behind the point."""
    whole, _, rest = number.partition(".")
    return int(whole + rest.ljust(6, "0"))


def _duration_hint(plain: str) -> str:
    if _WHOLE.fullmatch(plain):
        return f"say {plain}m for minutes, {plain}h for hours or {plain}d for days"
    return "write it like 4h"


def parse_size(text: str) -> int:
    """Reads `64GiB`, `1.5TiB`, `2GB`, `0B` and returns bytes.

    Raises:
        LxgpuError: `bad_size`, saying what is accepted; also when the size is no whole number of bytes.
    """
    match = _SIZE.fullmatch(text)
    unit = SIZE_UNITS.get(match[3]) if match else None
    if match is None or unit is None:
        raise LxgpuError("bad_size", f"{quoted(text)} is no size", why=_SIZE_HELP, fix=_size_hint(text))
    parts = match[2] or ""
    scale: int = 10 ** len(parts)
    size, rest = divmod(int(match[1] + parts) * unit, scale)
    if rest:
        raise LxgpuError("bad_size", f"{quoted(text)} is no whole number of bytes", why=_SIZE_HELP)
    if size > LARGEST_BYTES:
        raise LxgpuError("bad_size", f"{quoted(text)} is too large", why="the largest size is below 8EiB")
    return size


def _size_hint(text: str) -> str:
    match = re.fullmatch(r"\s*([0-9.]{1,20})\s*([A-Za-z]{0,5})\s*", text)
    if match is None:
        return ""
    number, unit = match.groups()
    if not unit:
        return f"say {number}GiB or {number}MiB"
    like = [known for known in SIZE_UNITS if known.lower() in (unit.lower(), f"{unit.lower()}ib", f"{unit.lower()}b")]
    return "say " + " or ".join(f"{number}{known}" for known in like) if like else ""


def parse_percent(text: str) -> float:
    """Reads `90%`, `0.5%` and returns 0.0 to 100.0.

    Raises:
        LxgpuError: `bad_size`.
    """
    match = _PERCENT.fullmatch(text)
    if match is None or float(match[1]) > 100:  # noqa: PLR2004 -- the whole
        raise LxgpuError(
            "bad_size", f"{quoted(text)} is no share", why="a share is a number from 0 to 100 and %: 90%, 0.5%"
        )
    return float(match[1])


def parse_count_per(text: str) -> tuple[int, int]:
    """Reads a count per window, `2/1d`, and returns (count, seconds of the window).

    Raises:
        LxgpuError: `bad_time`.
    """
    amount, window = _split_rate(text, like="2/1d, that is two in one day")
    if not _WHOLE.fullmatch(amount):
        raise LxgpuError("bad_time", f"{quoted(text)} does not start with a whole number", why="write it like 2/1d")
    return int(amount), window


def parse_duration_per(text: str) -> tuple[int, int]:
    """Reads an amount of time per window, `8h/7d`, and returns (seconds, seconds of the window).

    Raises:
        LxgpuError: `bad_time`; also when the amount is longer than the window.
    """
    amount, window = _split_rate(text, like="8h/7d, that is eight hours in seven days")
    seconds = parse_duration(amount)
    if seconds > window:
        raise LxgpuError("bad_time", f"{quoted(text)} asks for more time than its window has")
    return seconds, window


def _split_rate(text: str, *, like: str) -> tuple[str, int]:
    amount, slash, window = text.partition("/")
    if not slash:
        raise LxgpuError("bad_time", f"{quoted(text)} has no window", why=f"write it like {like}")
    seconds = parse_duration(window)
    if seconds == 0:
        raise LxgpuError("bad_time", f"the window of {quoted(text)} is empty", why=f"write it like {like}")
    return amount, seconds
