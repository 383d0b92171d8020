"""Times as they are typed inside a container, in the lab's zone: of what is asked for, and of what is changed."""

from __future__ import annotations

from datetime import datetime, timedelta

from lxgpu.errors import LxgpuError
from lxgpu.instants import clamp_interval, parse_end, parse_instant
from lxgpu.model.reservation import Reservation
from lxgpu.services.site import Site


def asked_time(
    site: Site, *, at: str | None, until: str | None, seconds: int | None, weekly: bool
) -> tuple[datetime | None, int]:
    """When it is to begin (None: now) and how long from then; of a time that has begun the rest is meant.

    Raises:
        LxgpuError: `usage`, `bad_time`.
    """
    if (seconds is None) == (until is None):
        raise LxgpuError("usage", "say for how long, or until when", fix="gpu reserve 2 --for 4h")
    if weekly and at is None:
        fix = 'gpu reserve 2 --weekly --at "mon 09:00" --for 8h'
        raise LxgpuError("usage", "a booking of every week needs to know when", fix=fix)
    if until is None and at is None:
        return None, seconds or 0
    now, zone = site.clock.now(), site.policy().zone
    start = now if at is None else parse_instant(at, now=now, zone=zone)
    if until is None:
        end = start + timedelta(seconds=seconds or 0)
    else:  # without a start a clock time that is over is no other day's
        end = (
            parse_instant(until, now=now, zone=zone)
            if at is None
            else parse_end(until, start=start, now=now, zone=zone)
        )
    begins, ends = clamp_interval(start, end, now=now, zone=zone)
    length = int((ends - begins).total_seconds())
    if length < 1:
        raise LxgpuError("bad_time", "that is no time at all", fix="give it a later end")
    return (None if at is None else begins), length


def changed_time(
    site: Site, row: Reservation, *, at: str | None, until: str | None, seconds: int | None
) -> tuple[datetime | None, datetime | None]:
    """The new start and end of a reservation; None: as it is. A clock time alone is the first after the start.

    Raises:
        LxgpuError: `usage`, `bad_time`: there is no such time, or it is over.
    """
    now, zone = site.clock.now(), site.policy().zone
    begin = None if at is None else parse_instant(at, now=now, zone=zone)
    if begin is not None and begin < now:
        why = "nothing begins in the past"
        fix = "give a time that is still to come, with its day"
        raise LxgpuError("bad_time", "that start is over", why=why, fix=fix)
    first = begin or row.start
    if until is not None:
        if first is None or first <= now:
            return begin, parse_instant(until, now=now, zone=zone)
        end = parse_end(until, start=first, now=now, zone=zone)
        clamp_interval(first, end, now=now, zone=zone)
        return begin, end
    if seconds is None:
        return begin, None
    if first is None:
        what = "it has no start yet, so that a length has nothing to count from"
        raise LxgpuError("usage", what, why="it waits in the line", fix="cancel it, and reserve again")
    return begin, first + timedelta(seconds=seconds)
