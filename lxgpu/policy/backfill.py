"""Who may begin now without delaying anybody who is before them, and when the others can hope to. Pure.

EASY backfill: the first one that cannot begin gets a shadow, a booking of its earliest expected time that is written
down nowhere. Those behind it begin only with cards that it will not need, or if they end before.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from lxgpu.model.reservation import Kind, Reservation
from lxgpu.model.snapshot import Snapshot
from lxgpu.policy.calendar import Skyline, Span
from lxgpu.policy.outlook import Place, stocks
from lxgpu.policy.placement import fits
from lxgpu.policy.preemption import lead_s
from lxgpu.policy.queue import lacking

ESTIMATED = 100
"""So many of those who wait get an estimate; what is further back nobody can tell honestly."""


@dataclass(frozen=True, slots=True)
class Start:
    """One that can begin now: with which cards, and until when (a claim may have less time than it wants)."""

    reservation: Reservation
    place: Place
    until: datetime


@dataclass(frozen=True, slots=True)
class Shadow:
    """What is kept for the first one that cannot begin. `at` None: nothing tells when, so what is free is kept."""

    reservation: Reservation
    place: Place
    at: datetime | None


@dataclass(frozen=True, slots=True)
class Pass:
    """What one pass over those who wait found."""

    starts: tuple[Start, ...]
    shadow: Shadow | None


def backfill(
    snapshot: Snapshot,
    order: Sequence[Reservation],
    free: Mapping[Place, Skyline] | None = None,
    *,
    keep: bool = True,
) -> Pass:
    """One pass over those who wait, in their order.

    Args:
        snapshot: as always.
        order: from `queue.in_order`.
        free: what is expected to be free over time (it is taken from); of the snapshot's host when not given.
        keep: whether anything is kept for the first one that cannot begin; else that is done on another host.
    """
    work = Work(snapshot, stocks(snapshot) if free is None else free)
    starts, shadow = [], None
    for row in order:
        found = work.begin(row)
        if found is not None:
            starts.append(found)
        elif shadow is None and keep:
            shadow = work.keep(row)
    return Pass(tuple(starts), shadow)


def estimates(
    snapshot: Snapshot, order: Sequence[Reservation], free: Mapping[Place, Skyline] | None = None
) -> dict[str, tuple[int, datetime | None]]:
    """The position (from 1) and the expected begin of each one that waits, by id.

    The begin supposes that leases end when they say and that nobody takes from anybody. It is None where nothing
    tells: too far back, waiting for a holder without an end, or for more cards than there are in service.
    """
    work = Work(snapshot, stocks(snapshot) if free is None else free)
    found: dict[str, tuple[int, datetime | None]] = {}
    for position, row in enumerate(order, start=1):
        kept = work.keep(row) if position <= ESTIMATED else None
        found[row.id] = (position, kept.at if kept else None)
    return found


def foreseen(
    snapshot: Snapshot, order: Sequence[Reservation], told: Mapping[str, tuple[int, datetime | None]]
) -> dict[str, datetime]:
    """For those whose begin `estimates` (`told`) cannot tell: when it is, if holders without an end do as forecast.

    Nothing where the snapshot has no forecast. What leases and bookings tell is never changed by one.
    """
    if not snapshot.frees or all(at is not None for _, at in told.values()):
        return {}
    again = estimates(snapshot, order, stocks(snapshot, frees=snapshot.frees))
    return {key: at for key, (_, at) in again.items() if at is not None and told[key][1] is None}


class Work:
    """What is free over time while it is given away bit by bit; places are kept by how much is free there now."""

    def __init__(self, snapshot: Snapshot, free: Mapping[Place, Skyline]) -> None:
        self._snapshot = snapshot
        self._now = snapshot.now
        self._free = dict(free)
        self._lacks = lacking(snapshot)
        self._known: dict[tuple[str, str], list[tuple[int, Place]]] = {}
        self._failed: defaultdict[tuple[str, str], list[tuple[int, float]]] = defaultdict(list)

    def begin(self, row: Reservation) -> Start | None:
        """Give cards from now on, from the place with the fewest free that are enough; None: there are none.

        What failed once fails for as many and more cards, for as long and longer: it is not looked at again.
        """
        gpus, key = self._lacks(row), (row.host, row.pool or row.model)
        places = self._places(key)
        if not places or places[-1][0] < gpus:
            return None
        needed = self._needed_s(row)
        if any(less <= gpus and shorter <= needed for less, shorter in self._failed[key]):
            return None
        until = self._now + timedelta(seconds=needed)
        for _, place in places[bisect_left(places, (gpus, Place("", ""))) :]:
            line = self._free[place]
            if line.free(self._now, until) >= gpus:
                booked = line.lasting(gpus, self._now)
                wanted = max(until, row.until_if_begun(self._now))
                until = wanted if booked is None else min(wanted, booked)
                self._take(place, Span(self._now, until, gpus, row.id))
                return Start(row, place, until)
        self._failed[key].append((gpus, needed))
        return None

    def keep(self, row: Reservation) -> Shadow | None:
        """Keep the earliest expected time for one that waits; None: no place has enough cards in service.

        Where no place tells a time, what is free now and becomes free is kept at the one with the most.
        """
        gpus, needed = self._lacks(row), self._needed_s(row)
        places = [place for _, place in self._places((row.host, row.pool or row.model))]
        possible = [place for place in places if self._free[place].capacity >= gpus]
        known = [
            (at, place)
            for place in possible
            if (at := self._free[place].first_fit(gpus, needed, self._now)) is not None
        ]
        if known:
            at, place = min(known)
            self._take(place, Span(at, at + timedelta(seconds=needed), gpus, row.id))
            return Shadow(row, place, at)
        if not possible:
            return None
        place = max(possible, key=lambda one: (self._free[one].free(self._now, self._now), one))
        self._take(place, Span(self._now, None, gpus, row.id))
        return Shadow(row, place, None)

    def _needed_s(self, row: Reservation) -> float:
        """For how long the cards must be there: a claim is worth a change of hands for its minimum runtime."""
        whole = float(row.duration_s) if row.until is None else (row.until - self._now).total_seconds()
        if row.kind is not Kind.RETURN:
            return whole
        policy = self._snapshot.policy
        chosen = policy.classes.get(row.class_name)
        return min(whole, (chosen.min_runtime_s if chosen else 0) + lead_s(policy, row.class_name))

    def _places(self, key: tuple[str, str]) -> list[tuple[int, Place]]:
        """The places on a host (any if empty) whose model fits, those with the fewest free now first."""
        if key not in self._known:
            host, pattern = key
            fitting = (one for one in self._free if host in {"", one.host} and fits(one.pool, pattern))
            self._known[key] = sorted((self._free[one].free(self._now, self._now), one) for one in fitting)
        return self._known[key]

    def _take(self, place: Place, span: Span) -> None:
        line = self._free[place]
        before = line.free(self._now, self._now)
        line.take(span)
        after = line.free(self._now, self._now)
        for places in self._lists_with(place, before) if after != before else ():
            del places[bisect_left(places, (before, place))]
            insort(places, (after, place))

    def _lists_with(self, place: Place, free: int) -> Iterator[list[tuple[int, Place]]]:
        for places in self._known.values():
            index = bisect_left(places, (free, place))
            if index < len(places) and places[index] == (free, place):
                yield places
