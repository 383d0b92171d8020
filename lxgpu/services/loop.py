"""The daemon's rhythm: a turn whenever something is due, at least every few seconds, at once when somebody pokes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Protocol

from lxgpu.ports import Clock

EVERY_S = 10.0
"""A turn at least so often: samples for idleness, and what others did behind our back."""
LEAST_S = 0.1
"""Never two turns closer than this, however much there is to do and whoever pokes."""


class Turn(Protocol):
    """One turn of the loop; it deals with its own failures."""

    def __call__(self) -> Next:
        """Do what is due."""


class Next:
    """When the next turn is wanted: at an instant, or `in_s` seconds from now, which counts in place of all else."""

    __slots__ = ("at", "in_s")

    def __init__(self, at: datetime | None = None, *, in_s: float | None = None) -> None:
        self.at = at
        self.in_s = in_s


def loop(
    turn: Turn,
    *,
    clock: Clock,
    wait: Callable[[float], object],
    stopping: Callable[[], bool],
    every_s: Callable[[], float] = lambda: EVERY_S,
) -> None:
    """Take turns until `stopping`.

    Args:
        turn: what is done.
        clock: both clocks.
        wait: waits so many seconds, less when somebody pokes or the end is asked for.
        stopping: whether to end.
        every_s: the longest time from the beginning of a turn to that of the next, asked for after each.
    """
    while not stopping():
        begun = clock.monotonic()
        after = turn()
        if stopping():
            return
        ended = clock.monotonic()
        wait(pause_s(after, now=clock.now(), took_s=ended - begun, every_s=every_s()))
        too_soon = LEAST_S - (clock.monotonic() - ended)
        if too_soon > 0 and not stopping():
            clock.sleep(too_soon)


def pause_s(after: Next, *, now: datetime, took_s: float, every_s: float) -> float:
    """How long to wait after a turn that took `took_s`; not less than `LEAST_S`."""
    if after.in_s is not None:
        return max(after.in_s, LEAST_S)
    wanted = every_s - took_s
    if after.at is not None:
        wanted = min(wanted, (after.at - now).total_seconds())
    return max(wanted, LEAST_S)
