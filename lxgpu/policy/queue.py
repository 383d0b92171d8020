"""Whose turn it is when many wait. Pure.

The order is: bookings that are due, requests within their owner's guarantee, claims (the oldest first), then the
queue: by the priority of the class, then by decayed use over weight, and for each person in the order they asked.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import cache, cached_property
from heapq import heapify, heappop, heappush

from lxgpu.model.assignment import AssignmentState
from lxgpu.model.quota import Entitlement
from lxgpu.model.reservation import Kind, Reservation, ReservationState
from lxgpu.model.snapshot import Snapshot
from lxgpu.policy.admission import entitlement
from lxgpu.policy.fairness import decayed_use
from lxgpu.policy.lookup import by_instance, names_of, owners_by_instance, promised_to, reservations_by_id
from lxgpu.policy.placement import matching

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
    known, had = reservations_by_id(snapshot.records.reservations), by_instance(snapshot.records.assignments)

    def lacks(row: Reservation) -> int:
        if row.kind is Kind.RETURN or row.instance not in had:
            return row.gpus
        held = (one for one in had[row.instance] if one.state is AssignmentState.ACTIVE and one.slot.gpu in models)
        unbooked = (models[one.slot.gpu] for one in held if one.reservation not in known)
        meant = matching(models.values(), row.pool or row.model)
        return max(0, row.gpus - sum(model in meant for model in unbooked))

    return lacks


def _age(row: Reservation) -> tuple[datetime, str]:
    return (row.created_at, row.id)


def _due(row: Reservation, now: datetime) -> bool:
    return row.state is ReservationState.PREPARING or (row.start is not None and row.start <= now)


class _Line:
    """Guarantees and shares as they are after each one that was placed."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._use = cache(lambda person: decayed_use(snapshot, person))
        self._added: Counter[str] = Counter()
        self._entitled: Callable[[str], Entitlement] = cache(lambda person: entitlement(snapshot, person))
        self._total = cache(lambda name: snapshot.policy.group_total(name, snapshot.now).guaranteed)
        self._lacks = lacking(snapshot)
        self._placed: Counter[str] = Counter()  # by person, and by group behind an @
        self._held = cache(self._holding)

    def guaranteed(self, row: Reservation) -> bool:
        """Whether a request is within its owner's guarantee, or that of a group; if so, it has it from here on."""
        entitled, gpus = self._entitled(row.owner), self._lacks(row)
        within = self._held(row.owner) + self._placed[row.owner] + gpus <= entitled.guaranteed or any(
            self._held_together[name] + self._placed[f"@{name}"] + gpus <= total
            for name in entitled.groups
            if (total := self._total(name))
        )
        if within:
            self._placed.update(dict.fromkeys((row.owner, *(f"@{name}" for name in entitled.groups)), gpus))
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

    def _holding(self, person: str) -> int:
        """How many slots a person has or is promised; one in quarantine is nobody's."""
        records = self._snapshot.records
        had, promised = by_instance(records.assignments), promised_to(records.assignments)
        names = names_of(records.instances, person)
        rows = (row for name in names for row in (*had.get(name, ()), *promised.get(name, ())))
        return sum(row.state is not AssignmentState.QUARANTINED for row in rows)

    @cached_property
    def _held_together(self) -> Counter[str]:
        """The same of each group's members."""
        records, count = self._snapshot.records, Counter[str]()
        owner = owners_by_instance(records.instances)
        names = by_instance(records.assignments).keys() | promised_to(records.assignments).keys()
        for person in {owner.get(name, name) for name in names}:
            count.update({name: self._held(person) for name in self._entitled(person).groups})
        return count

    def _share(self, person: str) -> float:
        return (self._use(person) + self._added[person]) / max(self._entitled(person).weight, 1e-9)

    def _priority(self, row: Reservation) -> int:
        chosen = self._snapshot.policy.classes.get(row.class_name or self._entitled(row.owner).class_name)
        return chosen.priority if chosen else -1
