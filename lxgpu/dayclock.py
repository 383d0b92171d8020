"""A day and a clock time as people type them, taken apart; which instant they are is `lxgpu.instants`' to say.

`14:00`, `6pm`, `9:30am`, alone or after a day: `today`, `tomorrow`, `mon` or `friday`, `next friday`, `2027-05-01`. A
day alone is its start. Upper and lower case are the same.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from lxgpu.errors import LxgpuError
from lxgpu.figures import quoted

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_FULL_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_OTHER_DAYS = {"tues": 1, "weds": 2, "thur": 3, "thurs": 3}
_CLOCK = re.compile(r"([0-9]{1,2})(?::([0-9]{2}))? ?(am|pm)?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_LATEST_HOUR, _LATEST_MINUTE, _NOON = 23, 59, 12
HELP = (
    "a time is one of: now, +4h, 14:00 or 2pm (today), tomorrow 09:00, fri 18:00 (the next one),"
    " 2027-05-01 09:00, 2027-05-01 (its start), 2027-05-01T09:00:00Z"
)
_LIKE = "write it like 18:00, 'tomorrow 09:00', 'fri 18:00' or +4h"


class DayClock(NamedTuple):
    """What stands in the text. `day` is `""` (none), `today`, `tomorrow`, a date, or a weekday's three letters.

    `later`: `next` stands before the weekday. `clock`: hour and minute; None is the day alone.
    """

    day: str
    later: bool
    clock: tuple[int, int] | None


def read_dayclock(text: str) -> DayClock:
    """Take a text apart.

    Raises:
        LxgpuError: `bad_time`, with what would be right where that can be guessed.
    """
    found = _read(text)
    if found is None:
        raise LxgpuError("bad_time", f"{quoted(text)} is no time", why=HELP, fix=_hint(text))
    return found


def is_clock(text: str) -> bool:
    """Whether it is a clock time without a day."""
    return _clock(_plain(text)) is not None


def _plain(text: str) -> str:
    return re.sub(" +", " ", text.strip(" ")).lower()


def _read(text: str) -> DayClock | None:
    words = _plain(text).split(" ")
    later = words[0] == "next" and len(words) > 1 and _weekday(words[1]) is not None
    words = words[1:] if later else words
    day, rest = _day(words[0]), " ".join(words[1:])
    if day is None:
        clock = _clock(" ".join(words))
        return None if clock is None else DayClock("", later=False, clock=_checked(clock, text))
    if not rest:
        return DayClock(day, later, clock=None)
    clock = _clock(rest)
    return None if clock is None else DayClock(day, later, _checked(clock, text))


def _day(word: str) -> str | None:
    number = _weekday(word)
    if number is not None:
        return DAYS[number]
    return word if word in {"today", "tomorrow"} or _DATE.fullmatch(word) else None


def _weekday(word: str) -> int | None:
    for names in (DAYS, _FULL_DAYS):
        if word in names:
            return names.index(word)
    return _OTHER_DAYS.get(word)


def _clock(text: str) -> re.Match[str] | None:
    match = _CLOCK.fullmatch(text)
    return match if match and (match[2] or match[3]) else None


def _checked(match: re.Match[str], text: str) -> tuple[int, int]:
    hour, minute, half = int(match[1]), int(match[2] or 0), match[3]
    if half:
        if not 1 <= hour <= _NOON or minute > _LATEST_MINUTE:
            why, fix = "before am and pm stand the hours 1 to 12", _LIKE
            raise LxgpuError("bad_time", f"{quoted(text)} is no time", why=why, fix=fix)
        return hour % _NOON + (_NOON if half == "pm" else 0), minute
    if hour > _LATEST_HOUR or minute > _LATEST_MINUTE:
        midnight = (hour, minute) == (_LATEST_HOUR + 1, 0)
        raise LxgpuError(
            "bad_time",
            f"{quoted(text)} is no time",
            why="the hours of a day go from 00:00 to 23:59",
            fix="midnight is the start of a day: 'tomorrow 00:00'" if midnight else _LIKE,
        )
    return hour, minute


def _hint(text: str) -> str:
    """What was probably meant."""
    plain = _plain(text)
    if re.fullmatch(r"[0-9]{1,2}", plain):
        return f"say {plain}:00 for the clock, +{plain}h for hours from now"
    if re.fullmatch(r"[0-9]{1,4} ?(?:[a-z]{1,12})", plain):
        return f"say +{plain.replace(' ', '')} for so long from now"
    words = [word for word in plain.replace(",", " ").split(" ") if word not in {"", "at", "on", "the", "oclock"}]
    for order in (words, [*words[1:], *words[:1]], [*words[-1:], *words[:-1]], [*words[2:], *words[:2]]):
        said = " ".join(order)
        if words and said != plain and _form(said):
            return f"say '{said}'"
    from difflib import get_close_matches  # noqa: PLC0415 -- for the error only

    near = get_close_matches(words[0], [*DAYS, *_FULL_DAYS, "today", "tomorrow"], n=1, cutoff=0.75) if words else []
    said = " ".join([*near, *words[1:]])
    return f"did you mean '{said}'?" if near and said != plain and _form(said) else _LIKE


def _form(text: str) -> bool:
    try:
        return _read(text) is not None
    except LxgpuError:
        return False
