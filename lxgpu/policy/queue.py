"""Whose turn it is when many wait. Pure.

The order is: bookings that are due, requests within their owner's guarantee, claims (the oldest first), then the
queue: by the priority of the class, then by decayed use over weight, and for each person in the order they asked.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache
from heapq import heapify, heappop, heappush

from lxgpu.model.assignment import AssignmentState
from lxgpu.model.quota import Entitlement
from lxgpu.model.reservation import Kind, Reservation, ReservationState
from lxgpu.model.snapshot import Snapshot
from lxgpu.policy.admission import entitlement
from lxgpu.policy.fairness import decayed_use, owners
from lxgpu.policy.placement import fits

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
    line = _Line(snapshot)
    within: list[Reservation] = []
    others: list[Reservation] = []
    for row in rows:
        if row.kind is Kind.REQUEST:
            (within if line.guaranteed(row) else others).append(row)
    claims = (row for row in rows if row.kind is Kind.RETURN)
    return (*due, *line.fair(within), *claims, *line.fair(others))


def lacking(snapshot: Snapshot) -> Lacking:
    """How many cards each one lacks: N is a total, so unbooked cards of the instance that fit count first."""
    models = {gpu.uuid: gpu.model for gpu in snapshot.seen.gpus}
    known = {row.id for row in snapshot.records.reservations}
    unbooked: defaultdict[str, list[str]] = defaultdict(list)
    for row in snapshot.records.assignments:
        if row.state is AssignmentState.ACTIVE and row.reservation not in known:
            unbooked[row.instance].append(models.get(row.slot.gpu, ""))

    def lacks(row: Reservation) -> int:
        if row.kind is Kind.RETURN or row.instance not in unbooked:
            return row.gpus
        return max(0, row.gpus - sum(fits(model, row.pool or row.model) for model in unbooked[row.instance]))

    return lacks


def _age(row: Reservation) -> tuple[datetime, str]:
    return (row.created_at, row.id)


def _due(row: Reservation, now: datetime) -> bool:
    return row.state is ReservationState.PREPARING or (row.start is not None and row.start <= now)


class _Line:
    """Guarantees and shares as they are after each one that was placed."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._use: Mapping[str, float] = decayed_use(snapshot)
        self._added: Counter[str] = Counter()
        self._entitled: Callable[[str], Entitlement] = cache(lambda person: entitlement(snapshot, person))
        self._total = cache(lambda name: snapshot.policy.group_total(name, snapshot.now).guaranteed)
        self._lacks = lacking(snapshot)
        self._held: Counter[str] = Counter()
        owner = owners(snapshot)
        for row in snapshot.records.assignments:
            if row.state is not AssignmentState.QUARANTINED and (row.live or row.state is AssignmentState.PLANNED):
                self._hold(owner[row.instance], 1)

    def guaranteed(self, row: Reservation) -> bool:
        """Whether a request is within its owner's guarantee, or that of a group; if so, it has it from here on."""
        entitled, gpus = self._entitled(row.owner), self._lacks(row)
        within = self._held[row.owner] + gpus <= entitled.guaranteed or any(
            self._held[f"@{name}"] + gpus <= self._total(name) for name in entitled.groups
        )
        if within:
            self._hold(row.owner, gpus)
        return within

    def fair(self, rows: Sequence[Reservation]) -> list[Reservation]:
        """Requests by class, then share, then age; they are given oldest first."""
        levels: defaultdict[int, defaultdict[str, deque[Reservation]]] = defaultdict(lambda: defaultdict(deque))
        for row in rows:
            levels[-self._priority(row)][row.owner].append(row)
        placed: list[Reservation] = []
        for _, by_person in sorted(levels.items()):
            heap = [(self._share(person), *_age(line[0])) for person, line in by_person.items()]
            people = {line[0].id: person for person, line in by_person.items()}
            heapify(heap)
            while heap:
                _, _, first = heappop(heap)
                person = people.pop(first)
                row = by_person[person].popleft()
                placed.append(row)
                self._added[person] += row.gpus * row.duration_s
                if by_person[person]:
                    head = by_person[person][0]
                    people[head.id] = person
                    heappush(heap, (self._share(person), *_age(head)))
        return placed

    def _hold(self, person: str, gpus: int) -> None:
        self._held[person] += gpus
        for name in self._entitled(person).groups:
            self._held[f"@{name}"] += gpus

    def _share(self, person: str) -> float:
        return (self._use.get(person, 0.0) + self._added[person]) / max(self._entitled(person).weight, 1e-9)

    def _priority(self, row: Reservation) -> int:
        chosen = self._snapshot.policy.classes.get(row.class_name or self._entitled(row.owner).class_name)
        return chosen.priority if chosen else -1
