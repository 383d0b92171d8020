"""Who takes more of a shared card's memory than their share: told first, after a grace their newest programs end; pure.

What is not known is never too much, and changes nothing of what was seen before it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from lxgpu.model.reservation import Notice
from lxgpu.model.usage import Sample

OVER, NEIGHBOUR, ENDED = "memory_over", "memory_neighbour", "memory_ended"
"""The kinds of what is told and noted: to who is over, to the neighbours, and what was ended."""
AGAIN = timedelta(minutes=10)
"""Nobody is told twice within this time, however often their use goes up and down."""


class Guard(StrEnum):
    """What is to be done: nothing, tell the holder, wait for their grace to be over, end programs."""

    WITHIN = "within"
    TELL = "tell"
    WAIT = "wait"
    END = "end"


@dataclass(frozen=True, slots=True)
class Taker:
    """A program on a part of a card: the numbers that tell it from all others, and its memory there in bytes."""

    pid: int
    start_time: int
    memory_bytes: int

    @property
    def key(self) -> tuple[int, int]:
        """What no other program of this boot has."""
        return self.pid, self.start_time


def judge(
    samples: Iterable[Sample],
    *,
    share_bytes: int,
    told: Notice | None,
    grace_s: float,
    now: datetime,
    not_before: datetime | None = None,
) -> Guard:
    """What is to be done about the holder of one part.

    An episode is a time in which no sample lies within the share. Only a warning of the same episode counts, and its
    grace runs from the attempt to give it.

    Args:
        samples: of the part, since it was `told` at least, oldest first; the last one is what is seen now.
        share_bytes: how much of the card's memory is the part's.
        told: the last warning about this; None: there was none.
        grace_s: seconds between the attempt to warn and the end.
        now: the time of the judgement.
        not_before: the clock was set then, so no warning from before counts.
    """
    over, newest, calm = False, None, not_before
    for newest in samples:
        if newest.memory_used_bytes is not None:
            over = newest.memory_used_bytes > share_bytes
            calm = calm if over else max(newest.at, calm or newest.at)
    if newest is None or not over:
        return Guard.WITHIN
    if newest.memory_used_bytes is None:
        return Guard.WAIT
    if told is None or told.created_at > now:  # the clock was set back since
        return Guard.TELL
    if calm is not None and told.created_at < calm:
        return Guard.TELL if now - told.created_at >= AGAIN else Guard.WAIT
    if told.sent_at is None or now < told.sent_at + timedelta(seconds=grace_s):
        return Guard.WAIT
    return Guard.END


def to_signal(
    takers: Collection[Taker],
    *,
    share_bytes: int,
    termed: Mapping[tuple[int, int], datetime],
    killed: Collection[tuple[int, int]],
    term_wait_s: float,
    now: datetime,
) -> tuple[tuple[Taker, ...], tuple[Taker, ...]]:
    """Which programs of one holder get TERM now, and which KILL; none as soon as they are within the share.

    The newest go first, and no more than it takes: what is asked to end already counts as going.

    Args:
        takers: all programs of the holder on the part.
        share_bytes: how much of the card's memory is the part's.
        termed: when which of them got TERM, in this episode.
        killed: those that got KILL as well.
        term_wait_s: seconds between TERM and KILL.
        now: the time.
    """
    over = sum(one.memory_bytes for one in takers) - share_bytes
    asked = [one for one in takers if one.key in termed]
    others = [one for one in takers if one.key not in termed]
    wait = timedelta(seconds=term_wait_s)
    late = [one for one in asked if one.key not in killed and termed[one.key] + wait <= now]
    gone = sum(one.memory_bytes for one in takers if one.key in killed)
    return least(others, over - sum(one.memory_bytes for one in asked)), least(late, over - gone)


def least(takers: Iterable[Taker], bytes_over: int) -> tuple[Taker, ...]:
    """The newest programs that together hold as much as is too much, none of which could be spared."""
    chosen: list[Taker] = []
    left = bytes_over
    for one in sorted(takers, key=lambda one: (one.start_time, one.pid), reverse=True):
        if left <= 0:
            break
        if one.memory_bytes > 0:
            chosen.append(one)
            left -= one.memory_bytes
    for one in reversed(tuple(chosen)):
        if left + one.memory_bytes <= 0:
            chosen.remove(one)
            left += one.memory_bytes
    return tuple(chosen)
