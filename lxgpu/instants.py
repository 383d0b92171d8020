"""Points in time: one strict grammar, the way back, and half-open intervals.

Inside, an instant is an aware `datetime` in UTC. Outside, people read and write the lab's zone. Nothing here
looks at a clock: `now` is always given. A local time that does not exist or exists twice is refused, never guessed.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo, available_timezones

from lxgpu.dayclock import DAYS, DayClock, is_clock, read_dayclock
from lxgpu.errors import LxgpuError
from lxgpu.figures import quoted
from lxgpu.units import format_duration, parse_duration

_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_FULL = re.compile(
    _DATE.pattern + r"[ T]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,9}))?)?(Z|[+-][0-9]{2}:[0-9]{2})?"
)
_AHEAD = re.compile(r"(?:\+|in )(.*)", re.DOTALL)
_YEARS = range(2000, 2200)


def parse_instant(text: str, *, now: datetime, zone: tzinfo) -> datetime:
    """Reads a point in time and returns it in UTC; it may lie in the past (see `clamp_interval`).

    `14:00` is today even when it is over, so that nothing moves to another day unseen; `mon 18:00` is the first
    one that is not before `now`, `next mon 18:00` the first after today; a day alone is its first moment. Upper and
    lower case are the same.

    Args:
        text: `now`, `+4h`, `in 4h`, `14:00`, `2pm`, `today 14:00`, `tomorrow 9am`, `tomorrow`, `mon 18:00`, `Friday`,
            `next friday`, `2027-05-01`, `2027-05-01 09:00`, or RFC 3339 with its offset.
        now: aware; what `now`, `+4h` and the days are counted from.
        zone: the lab's zone, for texts without an offset.

    Raises:
        LxgpuError: `bad_time`: no such form, no such day, a local time that does not exist, or one that exists twice.
    """
    plain = text.strip(" ").lower()
    if plain == "now":
        return now.astimezone(UTC)
    if ahead := _AHEAD.fullmatch(plain):
        return now.astimezone(UTC) + timedelta(seconds=parse_duration(ahead[1]))
    if match := _FULL.fullmatch(plain.upper()):
        return _full_time(match, text=text, zone=zone)
    return _on_day(read_dayclock(text), text=text, now=now, zone=zone)


def parse_end(text: str, *, start: datetime, now: datetime, zone: tzinfo) -> datetime:
    """Reads the end of what begins at `start`: as `parse_instant`, but a clock time alone is the first after the start.

    Raises:
        LxgpuError: `bad_time`.
    """
    clock = read_dayclock(text).clock if is_clock(text) else None
    if clock is None:
        return parse_instant(text, now=now, zone=zone)
    local = start.astimezone(zone)
    day = local.date() + timedelta(days=int(clock <= (local.hour, local.minute)))
    return parse_instant(f"{day} {text}", now=now, zone=zone)


def parse_day(text: str, *, zone: tzinfo) -> datetime:
    """Reads a date such as `2027-05-01` and returns its first moment in `zone`, in UTC.

    Raises:
        LxgpuError: `bad_time`.
    """
    match = _DATE.fullmatch(text)
    if match is None:
        raise LxgpuError("bad_time", f"{quoted(text)} is no date", why="a date is written 2027-05-01")
    # Where midnight is skipped or comes twice, fold=0 gives the first moment of the day.
    return _naive(match.groups(), text=text).replace(tzinfo=zone).astimezone(UTC)


def parse_utc(text: str) -> datetime:
    """Reads RFC 3339 with an offset, as files and JSON of lxgpu carry it, and returns UTC.

    Raises:
        LxgpuError: `bad_time`.
    """
    match = _FULL.fullmatch(text)
    if match is None or not match[8]:
        raise LxgpuError("bad_time", f"{quoted(text)} is no RFC 3339 time", why="it is written 2027-05-01T09:00:00Z")
    return _full_time(match, text=text, zone=UTC)


def _on_day(found: DayClock, *, text: str, now: datetime, zone: tzinfo) -> datetime:
    local = now.astimezone(zone)
    if _DATE.fullmatch(found.day):
        year, month, number = (int(part) for part in found.day.split("-"))
        day, moves = _naive((year, month, number), text=text).date(), False
    else:
        moves = found.day in DAYS
        ahead = (DAYS.index(found.day) - local.weekday()) % 7 if moves else int(found.day == "tomorrow")
        day = local.date() + timedelta(days=7 if found.later and ahead == 0 else ahead)
    naive = _naive((day.year, day.month, day.day, *(found.clock or (0, 0))), text=text)
    if moves and naive < local.replace(tzinfo=None):
        naive += timedelta(days=7)
    if found.clock is None:  # where midnight is skipped or comes twice, fold=0 gives the first moment of the day
        return naive.replace(tzinfo=zone).astimezone(UTC)
    return at_wall(naive, zone)


def _full_time(match: re.Match[str], *, text: str, zone: tzinfo) -> datetime:
    *numbers, fraction, offset = match.groups()
    naive = _naive([number or "0" for number in numbers], text=text)
    naive += timedelta(microseconds=int((fraction or "0").ljust(6, "0")[:6]))
    if offset is None:
        return at_wall(naive, zone)
    try:
        return datetime.fromisoformat(naive.isoformat() + offset).astimezone(UTC)
    except ValueError as error:
        raise LxgpuError(
            "bad_time",
            f"{quoted(text)} has no valid offset",
            why="an offset is Z or like +08:00",
            fix="write it like 2027-05-01T09:00:00+08:00",
        ) from error


def _naive(numbers: tuple[str | int, ...] | list[str], *, text: str) -> datetime:
    try:
        naive = datetime(*(int(number) for number in numbers))  # type: ignore[arg-type]  # noqa: DTZ001 -- local, zone comes later
    except ValueError as error:
        raise LxgpuError(
            "bad_time",
            f"{quoted(text)} is no time",
            why="the calendar has no such day, or the day no such hour",
            fix="a date is written year, month, day, and a clock time goes to 23:59: 2027-05-01 09:00",
        ) from error
    if naive.year not in _YEARS:
        raise LxgpuError(
            "bad_time",
            f"{quoted(text)} is no time",
            why=f"years go from {_YEARS[0]} to {_YEARS[-1]}",
            fix="look at the year",
        )
    return naive


def at_wall(naive: datetime, zone: tzinfo) -> datetime:
    """The one UTC instant of a wall-clock time, or the reason why there is not exactly one."""
    first, second = (naive.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
    wall = naive.isoformat(sep=" ", timespec="minutes")
    if first.astimezone(zone).replace(tzinfo=None) != naive:
        after = first.astimezone(zone).isoformat(sep=" ", timespec="minutes")
        raise LxgpuError(
            "bad_time",
            f"{wall} does not exist in {zone}",
            why="the clocks are put forward then",
            fix=f"say {after[:16]} or another time",
        )
    if first != second:
        ways = (at.astimezone(zone).isoformat(sep=" ", timespec="minutes") for at in (first, second))
        raise LxgpuError(
            "bad_time",
            f"{wall} happens twice in {zone}",
            why="the clocks are put back then",
            fix="say which one: " + " or ".join(ways),
        )
    return first


def clamp_interval(start: datetime, end: datetime, *, now: datetime, zone: tzinfo = UTC) -> tuple[datetime, datetime]:
    """Checks a half-open interval that somebody asks for, and moves a start in the past to `now`.

    `zone` is the one in which errors name times.

    Raises:
        LxgpuError: `bad_time`: it ends before it starts, has no length, or is over.
    """
    if end <= start:
        raise LxgpuError(
            "bad_time",
            "the end is not after the start",
            why=f"from {_whole(start, zone)} until {_whole(end, zone)}",
            fix="an end on another day needs its day: 'tomorrow 02:00'",
        )
    if end <= now:
        ago = format_duration(int((now - end).total_seconds()))
        clock = end.astimezone(zone).strftime("%H:%M")
        raise LxgpuError(
            "bad_time",
            f"that time is over: it ended {ago} ago",
            why=f"it ends at {_whole(end, zone)}, and now is {_whole(now, zone)}",
            fix=f"name the day if you mean another one, such as 'tomorrow {clock}'",
        )
    return max(start, now), end


def _whole(at: datetime, zone: tzinfo) -> str:
    """A time for people with its day and zone, to be set beside another."""
    return f"{at.astimezone(zone):%Y-%m-%d %H:%M} {zone}"


def format_utc(at: datetime) -> str:
    """Writes RFC 3339 in UTC with whole seconds (cut): `2027-05-01T01:00:00Z`."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def show_instant(at: datetime, *, now: datetime, zone: tzinfo) -> str:
    """Writes a time for people, to the minute (cut), as `parse_instant` reads it.

    `18:00` is today, then `tomorrow 09:00`, `mon 18:00` within a week, else `2027-05-01 09:00`; a local time that
    exists twice keeps its offset.
    """
    local = at.astimezone(zone).replace(second=0, microsecond=0)
    if local.replace(fold=0).utcoffset() != local.replace(fold=1).utcoffset():
        return local.isoformat(sep=" ", timespec="minutes")
    ahead = (local.date() - now.astimezone(zone).date()).days
    clock = local.strftime("%H:%M")
    if ahead == 0:
        return clock
    if ahead == 1:
        return f"tomorrow {clock}"
    if 1 < ahead < 7:  # noqa: PLR2004 -- the days of a week
        return f"{DAYS[local.weekday()]} {clock}"
    return f"{local:%Y-%m-%d} {clock}"


def show_zoned(at: datetime, *, now: datetime, zone: tzinfo) -> str:
    """The same with the zone's word, as `14:00 CST`, for texts that are read elsewhere; an offset says it already."""
    text, word = show_instant(at, now=now, zone=zone), at.astimezone(zone).tzname() or ""
    if text[-6:-5] in {"+", "-"}:
        return text
    return f"{text} {word if word[:1].isalpha() else f'UTC{word}'}"


_NEAR = 0.75
"""So alike must a name be to be offered in the place of another."""


def load_zone(name: str) -> ZoneInfo:
    """Returns the time zone of that IANA name, such as `Asia/Shanghai`.

    Raises:
        LxgpuError: `bad_time`, with the names that look alike.
    """
    from difflib import get_close_matches  # noqa: PLC0415 -- for the error only

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        cities = {zone.rpartition("/")[2].lower(): zone for zone in sorted(available_timezones())}
        # By the city alone: all zones of a continent begin alike, and the nearest of those need not be near.
        asked = name.rpartition("/")[2].lower()
        near = [cities[city] for city in get_close_matches(asked, cities, n=2, cutoff=_NEAR)]
        raise LxgpuError(
            "bad_time",
            f"there is no time zone {name!r}",
            why="a zone is named like Asia/Shanghai, Europe/Berlin or UTC",
            fix=f"did you mean {' or '.join(near)}?" if near else "`timedatectl list-timezones` lists them",
        ) from error
