"""From `--at`, `--for` and `--until` to a start and a length."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from typing import TYPE_CHECKING

from lxgpu.dayclock import is_clock
from lxgpu.errors import LxgpuError
from lxgpu.instants import clamp_interval, show_instant
from lxgpu.units import short_duration

if TYPE_CHECKING:
    from lxgpu.cli.params import When


@dataclass(frozen=True, slots=True)
class Asked:
    """A time that somebody asks for; `at` None: as soon as it can be. `began`: when it would have begun, if it did."""

    at: datetime | None
    duration_s: int
    began: datetime | None = None


def asked_time(*, at: When | None, until: When | None, for_s: int | None, now: datetime, zone: tzinfo) -> Asked:
    """The time of a reservation. What began already counts from now on.

    Raises:
        LxgpuError: `usage` (both of --for and --until, or none), `bad_time` (with the two times).
    """
    check_once(for_s=for_s, until=until)
    if for_s is None and until is None:
        why = "what is reserved has an end, so that others can plan with it"
        raise LxgpuError("usage", "say for how long, or until when", why=why, fix="--for 4h, or --until 18:00")
    start = now if at is None else at.at(now=now, zone=zone)
    if until is None:
        end = start + timedelta(seconds=for_s or 0)
    else:  # without a start a clock time that is over is no other day's: nobody books a day unseen
        end = until.at(now=now, zone=zone) if at is None else until.ending(start, now=now, zone=zone)
    clamped, end = clamp_interval(start, end, now=now, zone=zone)
    soon = at is None or clamped == now
    seconds = int((end - clamped).total_seconds())
    if seconds < 1:
        why = "it would end before it begins, or as it does"
        raise LxgpuError("bad_time", "that is no time at all", why=why, fix="give it a later end")
    return Asked(at=None if soon else clamped, duration_s=seconds, began=start if start < clamped else None)


def check_once(*, for_s: int | None, until: When | None) -> None:
    """Refuse an end that is said in two ways; error `usage`."""
    if for_s is not None and until is not None:
        raise LxgpuError(
            "usage",
            "both --for and --until were given",
            why="each says when it ends, and they may not agree",
            fix="leave one of them out",
        )


def _new_end(until: When, start: datetime | None, *, now: datetime, zone: tzinfo) -> datetime:
    """A clock time alone is the first one after the start, or after now for what has begun."""
    if start is None:
        return until.at(now=now, zone=zone)
    end = until.at(now=now, zone=zone) if start <= now else until.ending(start, now=now, zone=zone)
    clamp_interval(start, end, now=now, zone=zone)
    return end


def longer_s(*, for_s: int | None, until: When | None, ends: datetime | None, now: datetime, zone: tzinfo) -> int:
    """By how many seconds what ends at `ends` is to last longer; what is over counts from now.

    A clock time alone is today's, or that of the day on which it ends. Without an end any time will do: what is
    decided then says so.

    Raises:
        LxgpuError: `usage` (both of --for and --until, or none), `bad_time`: it lasts so long already.
    """
    check_once(for_s=for_s, until=until)
    if until is None:
        if for_s is None:
            why = "it lasts as long as it does without either"
            raise LxgpuError("usage", "say how much longer, or until when", why=why, fix="--for 4h, or --until 18:00")
        return for_s
    begin, wanted = max(ends or now, now), until.at(now=now, zone=zone)
    if wanted <= begin and is_clock(until.text):
        wanted = until.at(now=begin, zone=zone)
    if wanted <= begin:
        shown = show_instant(begin, now=now, zone=zone)
        what = f"it lasts until {shown} already" if begin > now else "that time is over"
        why = "nothing is made shorter, and nothing ends in the past"
        raise LxgpuError("bad_time", what, why=why, fix="give a later time, with its day: --until 'tomorrow 18:00'")
    return max(1, int((wanted - begin).total_seconds()))


def edited_time(
    *, at: When | None, until: When | None, for_s: int | None, start: datetime | None, now: datetime, zone: tzinfo
) -> tuple[datetime | None, datetime | None]:
    """The new start and end of a reservation that has `start`; None: as it is.

    Raises:
        LxgpuError: `usage` (both of --for and --until, or --for without a start), `bad_time`.
    """
    check_once(for_s=for_s, until=until)
    begin = at.at(now=now, zone=zone) if at is not None else None
    if begin is not None and begin < now:
        ago = short_duration((now - begin).total_seconds())
        raise LxgpuError(
            "bad_time",
            f"that start is over: it was {ago} ago",
            why="nothing begins in the past",
            fix="give a time that is still to come, with its day",
        )
    if until is not None:
        return begin, _new_end(until, begin or start, now=now, zone=zone)
    if for_s is None:
        return begin, None
    first = begin or start
    if first is None:
        raise LxgpuError(
            "usage",
            "it has no start yet, so that --for has nothing to count from",
            why="it waits in the queue, and begins when it is its turn",
            fix="cancel it, and reserve again",
        )
    return begin, first + timedelta(seconds=for_s)
