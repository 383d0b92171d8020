"""Whose turn it is when many wait. Pure.

The order is: bookings that are due, requests within their owner's guarantee, claims (the oldest first), then the
queue: by the priority of the class, then by decayed use over weight, and for each person in the order they asked.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache, cached_property
from heapq import heapify, heappop, heappush, merge
from itertools import chain
from operator import attrgetter

from lxgpu.model.assignment import AssignmentState
from lxgpu.model.quota import Entitlement
from lxgpu.model.reservation import Kind, Reservation, ReservationState
from lxgpu.model.snapshot import Snapshot
from lxgpu.policy.admission import entitlement
from lxgpu.policy.fairness import decayed_use
from lxgpu.policy.lookup import by_instance, reservations_by_id
from lxgpu.policy.placement import matching
from lxgpu.policy.tally import tally

Lane = tuple[str, str]
"""Requests of one person in one class."""
Lacking = Callable[[Reservation], int]
"""How many cards a reservation still lacks."""


def in_order(snapshot: Snapshot, waiting: Iterable[Reservation]) -> tuple[Reservation, ...]:
    """Those who want cards now, in the order of their claims; a booking that is not due wants none yet.

    Each one that is placed counts as used by its owner for what comes after, so that nobody's many requests stand
    before another's first. The order in which they are given does not matter.
    """
    rows = sorted(waiting, key=_age)
    due = [row for row in rows if row.kind is Kind.BOOKING and _due(row, snapshot.now)]
    due.sort(key=lambda row: (row.start or row.created_at, *_age(row)))
    lanes: defaultdict[Lane, list[Reservation]] = defaultdict(list)
    for row in rows:
        if row.kind is Kind.REQUEST:
            lanes[row.owner, row.class_name].append(row)
    line = Line(snapshot, lanes)
    claims = (row for row in rows if row.kind is Kind.RETURN)
    return (*due, *line.within, *claims, *line.others())


def lacking(snapshot: Snapshot) -> Lacking:
    """How many cards each one lacks: N is a total, so unbooked cards of the instance that fit count first."""
    models = {gpu.uuid: gpu.model for gpu in snapshot.seen.gpus}
    known, had = reservations_by_id(snapshot.records.reservations), by_instance(snapshot.records.assignments)

    def lacks(row: Reservation) -> int:
        if row.kind is Kind.RETURN or row.instance not in had:
            return row.gpus
        held = (one for one in had[row.instance] if one.state is AssignmentState.ACTIVE and one.slot.gpu in models)
        unbooked = (models[one.slot.gpu] for one in held if one.reservation not in known)
        meant = matching(models.values(), row.pool or row.model)
        return max(0, row.gpus - sum(model in meant for model in unbooked))

    return lacks


_age: Callable[[Reservation], tuple[datetime, str]] = attrgetter("created_at", "id")


def _due(row: Reservation, now: datetime) -> bool:
    return row.state is ReservationState.PREPARING or (row.start is not None and row.start <= now)


class Line:
    """The queue. `within` are the requests within their owners' or groups' guarantees, in their order.

    Guarantees and shares are taken as they are after each one that was placed.
    """

    def __init__(self, snapshot: Snapshot, lanes: Mapping[Lane, Sequence[Reservation]]) -> None:
        """`lanes` are the requests by person and class, oldest first."""
        self._snapshot, self._lanes = snapshot, lanes
        self._shares: dict[str, tuple[float, float]] = {}
        self._added: Counter[str] = Counter()
        self._entitled: Callable[[str], Entitlement] = cache(lambda person: entitlement(snapshot, person))
        self._total = cache(lambda name: snapshot.policy.group_total(name, snapshot.now).guaranteed)
        self._lacks = lacking(snapshot)
        self._placed: Counter[str] = Counter()  # by person, and by group behind an @
        self._held = tally(snapshot.records).had
        self._first = {row.id for row in self._guaranteed()}
        self.within = [*self._fair(self._those(within=True))] if self._first else []

    def others(self) -> Iterator[Reservation]:
        """The other requests, put in order only as far as somebody asks; `within` are thought to come before them."""
        return self._fair(self._those(within=False))

    def _those(self, *, within: bool) -> Mapping[Lane, Sequence[Reservation]]:
        if not self._first:
            return {} if within else self._lanes
        lanes = (
            (lane, [row for row in rows if (row.id in self._first) is within]) for lane, rows in self._lanes.items()
        )
        return {lane: rows for lane, rows in lanes if rows}

    def _guaranteed(self) -> Iterator[Reservation]:
        """The requests that are within a guarantee, each with those that were before it."""
        had = by_instance(self._snapshot.records.assignments)
        lanes = (
            rows
            for (person, _), rows in self._lanes.items()
            if self._room(person, 1) or any(row.instance in had for row in rows)
        )
        too_many: dict[str, int] = {}  # by person: room only becomes less
        for row in sorted(chain.from_iterable(lanes), key=_age):
            gpus = self._lacks(row)
            if gpus >= too_many.get(row.owner, gpus + 1):
                continue
            if not self._room(row.owner, gpus):
                too_many[row.owner] = gpus
            else:
                groups = self._entitled(row.owner).groups
                self._placed.update(dict.fromkeys((row.owner, *(f"@{name}" for name in groups)), gpus))
                yield row

    def _room(self, person: str, gpus: int) -> bool:
        """Whether so many more cards are within a person's guarantee, or that of a group of theirs."""
        entitled = self._entitled(person)
        return self._held.get(person, 0) + self._placed.get(person, 0) + gpus <= entitled.guaranteed or any(
            self._held_together[name] + self._placed[f"@{name}"] + gpus <= total
            for name in entitled.groups
            if (total := self._total(name))
        )

    def _fair(self, lanes: Mapping[Lane, Sequence[Reservation]]) -> Iterator[Reservation]:
        """Requests by class, then share, then age."""
        levels: defaultdict[int, defaultdict[str, list[Sequence[Reservation]]]] = defaultdict(lambda: defaultdict(list))
        for (person, class_name), rows in lanes.items():
            levels[-self._priority(person, class_name)][person].append(rows)
        for _, by_person in sorted(levels.items()):
            lines = {
                who: iter(rows[0] if len(rows) == 1 else merge(*rows, key=_age)) for who, rows in by_person.items()
            }
            heap = [self._entry(person, next(line)) for person, line in lines.items()]
            heapify(heap)
            while heap:
                _, _, _, row = heappop(heap)
                yield row
                self._added[row.owner] += row.gpus * row.duration_s
                following = next(lines[row.owner], None)
                if following is not None:
                    heappush(heap, self._entry(row.owner, following))

    def _entry(self, person: str, row: Reservation) -> tuple[float, datetime, str, Reservation]:
        return (self._share(person), row.created_at, row.id, row)

    @cached_property
    def _held_together(self) -> Counter[str]:
        """How many slots each group's members have or are promised."""
        count: Counter[str] = Counter()
        for person, held in self._held.items():
            count.update(dict.fromkeys(self._entitled(person).groups, held))
        return count

    def _share(self, person: str) -> float:
        if person not in self._shares:
            used = decayed_use(self._snapshot, person)
            self._shares[person] = used, max(self._entitled(person).weight, 1e-9)
        used, weight = self._shares[person]
        return (used + self._added.get(person, 0)) / weight

    def _priority(self, person: str, class_name: str) -> int:
        chosen = self._snapshot.policy.classes.get(class_name or self._entitled(person).class_name)
        return chosen.priority if chosen else -1
