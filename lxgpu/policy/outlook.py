"""Who will have cards of a model, and until when, as far as bookings and leases tell. Pure.

A container that holds cards when its booking begins takes those first, so that at each instant it counts with the
larger number: what it has booked, or what it holds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from lxgpu.model.assignment import Assignment, AssignmentState
from lxgpu.model.gpu import Slot
from lxgpu.model.reservation import Reservation
from lxgpu.model.snapshot import Snapshot
from lxgpu.policy.calendar import Skyline, Span, larger, out_of_service, promises
from lxgpu.policy.lookup import by_card, reservations_by_id
from lxgpu.policy.preemption import lead_s

_NO_FREES: Mapping[str, datetime] = {}


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where cards can come from together: a host and the exact model."""

    host: str
    pool: str


@dataclass(slots=True)
class _Account:
    """What one instance has booked and holds."""

    booked: list[Span] = field(default_factory=list)
    held: list[Span] = field(default_factory=list)


def stocks(snapshot: Snapshot, *, frees: Mapping[str, datetime] = _NO_FREES) -> dict[Place, Skyline]:
    """What is expected to be free over time, for each model of the host; `frees` as in `outlook`."""
    models = sorted({gpu.model for gpu in snapshot.seen.gpus})
    return {Place(snapshot.seen.host, pool): outlook(snapshot, pool, frees=frees) for pool in models}


def outlook(
    snapshot: Snapshot,
    pool: str,
    *,
    more: Iterable[Span] = (),
    booked: Iterable[Span] = (),
    but: frozenset[str] = frozenset(),
    frees: Mapping[str, datetime] = _NO_FREES,
) -> Skyline:
    """What is expected to be free over time of one model; a holder without an end never gives its cards back.

    Args:
        snapshot: as always.
        pool: the model's exact name.
        more: cards that an instance (the span's id) shall hold besides.
        booked: cards that are promised to an instance (the span's id) besides: its other bookings need theirs as well.
        but: ids of reservations and assignments that are left out.
        frees: when assignments without an end are taken to be over all the same, by id: for estimates alone.
    """
    unfit = out_of_service(snapshot)
    cards = {gpu.uuid for gpu in snapshot.seen.gpus if gpu.model == pool and gpu.uuid not in unfit}
    accounts: defaultdict[str, _Account] = defaultdict(_Account)
    reservations = reservations_by_id(snapshot.records.reservations)
    for span in promises(snapshot, snapshot.seen.host, pool, but=but):
        accounts[reservations[span.id].instance].booked.append(span)
    for row in _occupants(snapshot, cards):
        of = row.reservation or ""
        if row.id not in but and of not in but:
            end = end_of(snapshot, row, reservations.get(of)) or frees.get(row.id)
            accounts[row.instance].held.append(Span(snapshot.now, end, 1, row.id))
    for span in more:
        accounts[span.id].held.append(span)
    for span in booked:
        accounts[span.id].booked.append(span)
    return Skyline(len(cards), (span for account in accounts.values() for span in larger(account.booked, account.held)))


def until_for_lease(
    snapshot: Snapshot, pool: str, instance: str, until: datetime, *, gpus: int = 1, but: frozenset[str] = frozenset()
) -> datetime:
    """When a lease that is granted now must end at the latest, because its cards are booked from then on.

    That is `until` where no booking is in the way, and now where the bookings have begun that need the cards. A
    booking of the instance itself takes the cards over, so it ends nothing. `but` names assignments and reservations
    that the lease takes the place of.
    """
    line = outlook(snapshot, pool, more=[Span(snapshot.now, None, gpus, instance)], but=but)
    booked = line.lasting(0, snapshot.now)
    return until if booked is None else min(until, booked)


def _occupants(snapshot: Snapshot, cards: set[str]) -> Iterator[Assignment]:
    """Who has each card, or has it next where it is promised on."""
    last: dict[Slot, Assignment] = {}
    had = by_card(snapshot.records.assignments)
    for row in (row for uuid in cards for row in had.get(uuid, ())):
        if row.state is AssignmentState.PLANNED or row.slot not in last:
            last[row.slot] = row
    return iter(last.values())


def end_of(snapshot: Snapshot, row: Assignment, of: Reservation | None) -> datetime | None:
    """When a holder is expected to be gone; one whose time is over goes a lead after somebody waits."""
    until = row.until if of is None else of.until_if_begun(row.since or snapshot.now)
    soon = snapshot.now + timedelta(seconds=lead_s(snapshot.policy, row.class_name))
    over = row.state is AssignmentState.RELEASING or (until is not None and until <= snapshot.now)
    return soon if over else until
