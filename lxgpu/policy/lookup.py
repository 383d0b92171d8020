"""Rows by what they are asked for, each table sorted once for as long as it stays as it is. Pure.

One decision on five hundred hosts must not look at all their rows. Tables are tuples of frozen rows and never change,
so that what was found in one holds for as long as that very tuple is used; a change makes another one.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

from lxgpu.model.assignment import Assignment, AssignmentState
from lxgpu.model.instance import Instance
from lxgpu.model.reservation import Kind, Reservation, ReservationState

Row = TypeVar("Row")
Table = TypeVar("Table")
Found = TypeVar("Found")
Key = TypeVar("Key", bound=Hashable)

PROMISED = frozenset({ReservationState.SCHEDULED, ReservationState.PREPARING, ReservationState.ACTIVE})
"""States in which the time of a booking is its own."""
_KEPT = 8
"""So many tables of a kind are remembered: those of one decision, and of the one before."""


def once(find: Callable[[Table], Found]) -> Callable[[Table], Found]:
    """A function of a table that is worked out once for each table; by identity, since comparing costs as much."""
    known: OrderedDict[int, tuple[Table, Found]] = OrderedDict()

    def found(rows: Table) -> Found:
        kept = known.get(id(rows))
        if kept is None or kept[0] is not rows:
            kept = known[id(rows)] = (rows, find(rows))  # the table is kept with it, so that its id stays its own
            while len(known) > _KEPT:
                known.popitem(last=False)
        return kept[1]

    return found


@once
def reservations_by_id(rows: tuple[Reservation, ...]) -> Mapping[str, Reservation]:
    """Reservations by their id."""
    return {row.id: row for row in rows}


@once
def bookings_by_owner(rows: tuple[Reservation, ...]) -> Mapping[str, Sequence[Reservation]]:
    """Open bookings that have their times, by person."""
    return _by(
        (row for row in rows if row.kind is Kind.BOOKING and row.open and row.start and row.until),
        lambda row: row.owner,
    )


@once
def promised_by_pool(rows: tuple[Reservation, ...]) -> Mapping[tuple[str, str], Sequence[Reservation]]:
    """Bookings whose time is their own, soft ones among them, by host and model."""
    return _by(
        (row for row in rows if row.kind is Kind.BOOKING and row.state in PROMISED and row.start),
        lambda row: (row.host, row.pool),
    )


@once
def by_card(rows: tuple[Assignment, ...]) -> Mapping[str, Sequence[Assignment]]:
    """Assignments that hold or are promised a slot of a card, by its UUID."""
    return _by((row for row in rows if row.live or row.state is AssignmentState.PLANNED), lambda row: row.slot.gpu)


@once
def by_instance(rows: tuple[Assignment, ...]) -> Mapping[str, Sequence[Assignment]]:
    """Live assignments by who holds them."""
    return _by((row for row in rows if row.live), lambda row: row.instance)


@once
def instances_by_owner(rows: tuple[Instance, ...]) -> Mapping[str, Sequence[Instance]]:
    """Instances by person."""
    return _by(rows, lambda row: row.owner)


def _by(rows: Iterable[Row], key: Callable[[Row], Key]) -> dict[Key, list[Row]]:
    found: defaultdict[Key, list[Row]] = defaultdict(list)
    for row in rows:
        found[key(row)].append(row)
    return dict(found)
