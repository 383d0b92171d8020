"""Capacity over time: how many cards of a model nobody has booked, and from when on so many are free. Pure.

All times are half-open: a booking that ends at 14:00 leaves its cards to one that starts at 14:00.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from lxgpu.model.assignment import AssignmentState
from lxgpu.model.layout import kind
from lxgpu.model.plan import Reason
from lxgpu.model.snapshot import Snapshot
from lxgpu.policy.lookup import by_card, promised_by_pool
from lxgpu.policy.placement import by_host, matching, unlendable

_WAYS = {
    "closed": "closed by an admin",
    "quarantined": "in quarantine",
    "sick": "that NVML cannot read",
    "foreign": "attached without lxgpu",
}
"""How a card is out of service, in words."""


@dataclass(frozen=True, slots=True)
class Span:
    """So many cards for a half-open time; `until` None: without an end. `id` says whose."""

    start: datetime
    until: datetime | None
    gpus: int
    id: str


class Skyline:
    """How many of `capacity` cards the spans leave free at each instant; below 0 where they ask for more.

    Built in n log n; a question costs log n and the changes within the time asked about.
    """

    __slots__ = ("_levels", "_times")

    def __init__(self, capacity: int, spans: Iterable[Span] = ()) -> None:
        changes: Counter[datetime] = Counter()
        for span in spans:
            if span.until is None or span.until > span.start:
                changes[span.start] -= span.gpus
                if span.until is not None:
                    changes[span.until] += span.gpus
        self._times = sorted(at for at, change in changes.items() if change)
        self._levels = [capacity]  # _levels[i] holds before _times[i], the last one from the last time on
        for at in self._times:
            self._levels.append(self._levels[-1] + changes[at])

    @property
    def capacity(self) -> int:
        """How many there are in all."""
        return self._levels[0]

    def free(self, start: datetime, until: datetime | None) -> int:
        """The smallest number free throughout; at the one instant where `until` is not after `start`."""
        first = bisect_right(self._times, start)
        last = len(self._times) if until is None else max(first, bisect_left(self._times, until))
        return min(self._levels[first : last + 1])

    def first_fit(
        self, gpus: int, duration_s: float, after: datetime, horizon: datetime | None = None
    ) -> datetime | None:
        """The earliest start, not before `after`, from which so many stay free for so long; it ends by `horizon`.

        None: there is no such time.
        """
        needed = timedelta(seconds=duration_s)
        at, index = after, bisect_right(self._times, after)
        while horizon is None or at + needed <= horizon:
            last = index == len(self._times)
            if self._levels[index] < gpus:
                if last:
                    return None
                at = self._times[index]
            elif last or self._times[index] - at >= needed:
                return at
            index += 1
        return None

    def lasting(self, gpus: int, start: datetime) -> datetime | None:
        """Until when so many stay free from `start` on: `start` itself if they are not, None if for ever."""
        first = bisect_right(self._times, start)
        for index in range(first, len(self._levels)):
            if self._levels[index] < gpus:
                return start if index == first else self._times[index - 1]
        return None

    def take(self, span: Span) -> None:
        """Put one more span in; below 0 is not refused."""
        if span.until is not None and span.until <= span.start:
            return
        first = self._cut(span.start)
        last = len(self._levels) if span.until is None else self._cut(span.until)
        for index in range(first, last):
            self._levels[index] -= span.gpus

    def _cut(self, at: datetime) -> int:
        """The place in `_levels` of what begins at that time, which becomes a change if it was none."""
        index = bisect_left(self._times, at)
        if index == len(self._times) or self._times[index] != at:
            self._times.insert(index, at)
            self._levels.insert(index, self._levels[index])
        return index + 1


def promises(snapshot: Snapshot, host: str, pool: str, *, but: frozenset[str] = frozenset()) -> tuple[Span, ...]:
    """The times of the bookings that count on cards of that exact model of a host, those named in `but` left out.

    Soft bookings promise nothing, and neither does one that waits.
    """
    rows = promised_by_pool(snapshot.records.reservations).get((host, pool), ())
    return tuple(
        Span(row.start, row.until, row.gpus, row.id)
        for row in rows
        if not row.soft and row.start is not None and row.id not in but
    )


def capacity(snapshot: Snapshot, pool: str) -> int:
    """How many cards of that exact model the host has in service, whoever holds them."""
    unfit = out_of_service(snapshot)
    return sum(gpu.model == pool and gpu.uuid not in unfit for gpu in snapshot.seen.gpus)


@by_host
def out_of_service(snapshot: Snapshot) -> Mapping[str, Reason]:
    """Cards that nobody can be promised, by UUID: closed, quarantined, sick or foreign. Held ones are in service."""
    records = snapshot.records
    had = by_card(records.assignments)
    here = [row for gpu in snapshot.seen.gpus for row in had.get(gpu.uuid, ()) if row.live]
    held = {row.slot.gpu for row in here}
    stuck = {row.slot.gpu: row.instance for row in here if row.state is AssignmentState.QUARANTINED}
    # That a part of it is held makes a card no stranger's.
    found = unlendable(records, snapshot.seen)
    left = {uuid: reason for uuid, reason in found.items() if reason.code != "foreign" or uuid not in held}
    return {uuid: Reason("quarantined", f"in quarantine since {name} had it") for uuid, name in stuck.items()} | left


def why_out(snapshot: Snapshot, pool: str) -> str:
    """How many cards of a model are out of service, and in what way: "2 in quarantine, 1 closed"; empty for none."""
    unfit = out_of_service(snapshot)
    ways = Counter(unfit[gpu.uuid].code for gpu in snapshot.seen.gpus if gpu.model == pool and gpu.uuid in unfit)
    return ", ".join(f"{count} {_WAYS.get(code, code)}" for code, count in sorted(ways.items()))


def pools(snapshot: Snapshot, pattern: str) -> tuple[str, ...]:
    """The exact models on the host that match a pattern: the one with the most cards that are not booked first.

    Of parts of cards the smallest come first.

    Of such with as many the one with more free cards comes first, then by name.
    """
    meant = matching((gpu.model for gpu in snapshot.seen.gpus), pattern)
    if len(meant) <= 1:
        return tuple(meant)
    unfit, had = out_of_service(snapshot), by_card(snapshot.records.assignments)
    fit = [gpu for gpu in snapshot.seen.gpus if gpu.uuid not in unfit]
    there, free = Counter(gpu.model for gpu in fit), Counter(gpu.model for gpu in fit if gpu.uuid not in had)

    def rank(pool: str) -> tuple[float, int, int, str]:
        line = Skyline(there[pool], promises(snapshot, snapshot.seen.host, pool))
        return (kind(pool)[1], -line.free(snapshot.now, None), -free[pool], pool)

    return tuple(sorted(meant, key=rank))


def larger(booked: Sequence[Span], held: Sequence[Span]) -> list[Span]:
    """One side's cards over time: at each instant the larger of what it has booked and what it holds.

    Who holds cards when a booking begins takes those first.
    """
    if not booked or not held:
        return [*booked, *held]
    lines = Skyline(0, booked), Skyline(0, held)
    times = sorted({at for span in (*booked, *held) for at in (span.start, span.until) if at is not None})
    pieces = ((at, after, -min(line.free(at, at) for line in lines)) for at, after in pairwise([*times, None]) if at)
    return [Span(at, after, gpus, booked[0].id) for at, after, gpus in pieces if gpus]
