"""Who holds cards when a booking is to begin and need not yield to it, and what they leave over time. Pure.

What somebody both holds and has booked counts once: their booking takes over what they hold (see `outlook`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from lxgpu.instants import show_instant
from lxgpu.model.assignment import ATTACHED, KEPT, Assignment
from lxgpu.model.request import Need
from lxgpu.model.reservation import Kind, Reservation
from lxgpu.model.snapshot import Snapshot
from lxgpu.policy.adopting import spoken_for
from lxgpu.policy.calendar import Skyline, Span, out_of_service
from lxgpu.policy.lookup import (
    PROMISED,
    by_card,
    by_instance,
    owners_by_instance,
    promised_to,
    reservations_by_id,
)
from lxgpu.policy.outlook import end_of, outlook
from lxgpu.policy.preemption import candidates

MOST_TRIES = 20
"""So many times are tried to find the first that fits; who holds without an end makes no time better than another."""

Stays = tuple[Assignment, datetime | None]
"""What somebody holds, and from when on a booking may count on having it; None: nobody knows."""


def left(snapshot: Snapshot, need: Need, *, but: frozenset[str] = frozenset()) -> Skyline:
    """How many cards of the need's model are left to a booking that begins at `need.at`, over time.

    `but` names reservations that are left out. The asker's own cards are no obstacle; their bookings are.
    """
    holders = list(_holders(snapshot, need))
    rows = snapshot.records.assignments
    mine = (*by_instance(rows).get(need.instance, ()), *promised_to(rows).get(need.instance, ()))
    # What is promised to a booking and not there yet counts with the booking's own time.
    coming = [
        row
        for gpu in snapshot.seen.gpus
        for row in by_card(rows).get(gpu.uuid, ())
        if not row.live and _promised(snapshot, row) is not None
    ]
    gone = {row.id for row, _ in holders} | {row.id for row in (*mine, *coming)}
    spans = [Span(snapshot.now, until, 1, _account(snapshot, row)) for row, until in holders]
    return outlook(snapshot, need.pool, more=spans, but=but | gone)


def first_left(
    snapshot: Snapshot, need: Need, *, but: frozenset[str] = frozenset(), room: Skyline | None = None
) -> datetime | None:
    """The first start, not before the need's, at which its cards are left for its length; it ends by the horizon.

    `room`: what else must have room then. None: nothing tells of such a time.
    """
    horizon = snapshot.now + timedelta(seconds=snapshot.policy.rules.bookings.horizon_s)
    seconds = (need.until - need.at).total_seconds() if need.until else 0
    at: datetime | None = need.at
    for _ in range(MOST_TRIES):
        if at is None:
            return None
        moved = replace(need, at=at, until=at + timedelta(seconds=seconds))
        lines = [left(snapshot, moved, but=but), *([room] if room else [])]
        if all(line.free(at, moved.until) >= need.gpus for line in lines):
            return at if at + timedelta(seconds=seconds) <= horizon else None
        found = [line.first_fit(need.gpus, seconds, at, horizon) for line in lines]
        at = None if None in found else max(one for one in found if one is not None)
    return None


def who_stays(snapshot: Snapshot, need: Need) -> str:
    """Who holds cards of the need's model when it is to begin, how many and until when; empty when nobody does."""
    owners = owners_by_instance(snapshot.records.instances)
    held = Counter(
        (owners.get(row.instance, row.instance), until)
        for row, until in _holders(snapshot, need)
        if until is None or until > need.at
    )
    by_name_and_end = sorted(held.items(), key=lambda item: (item[0][0], item[0][1] is None, str(item[0][1])))
    return ", ".join(f"{who} holds {count} {_until_when(snapshot, until)}" for (who, until), count in by_name_and_end)


def _until_when(snapshot: Snapshot, until: datetime | None) -> str:
    if until is None:
        return "without an end and need not yield"
    return f"until {show_instant(until, now=snapshot.now, zone=snapshot.policy.zone)} and need not yield"


def _holders(snapshot: Snapshot, need: Need) -> Iterator[Stays]:
    """Cards of the need's model that others have and that nobody is to get next."""
    # Who is idle now may work by then: a promise must not rest on that.
    asked = replace(need, kind=Kind.BOOKING)
    ready = {slot: unit.ready for unit in candidates(snapshot, asked) if unit.rule != "idle" for slot in unit.slots}
    had, known = by_card(snapshot.records.assignments), reservations_by_id(snapshot.records.reservations)
    unfit = out_of_service(snapshot)
    for gpu in snapshot.seen.gpus:
        if gpu.model != need.pool or gpu.uuid in unfit:
            continue
        rows = had.get(gpu.uuid, ())
        next_up = {row.slot for row in rows if not row.live}
        for row in rows:
            if row.state in KEPT and row.slot not in next_up and row.instance != need.instance:
                yield row, ready[row.slot] if row.slot in ready else _until(snapshot, need, row, known)


def _until(snapshot: Snapshot, need: Need, row: Assignment, known: Mapping[str, Reservation]) -> datetime | None:
    """Until when one is expected to stay whom no rule takes by then; what is over then and stays has no end."""
    end = end_of(snapshot, row, known.get(row.reservation or ""))
    stays = row.state in ATTACHED and row.id not in spoken_for(snapshot, row.instance)
    return None if end is not None and end <= need.at and stays else end


def _account(snapshot: Snapshot, row: Assignment) -> str:
    """With whose bookings a held card is counted: what runs and promises nothing is taken over by no other booking."""
    if row.reservation in reservations_by_id(snapshot.records.reservations) and _promised(snapshot, row) is None:
        return row.reservation or ""
    return row.instance


def _promised(snapshot: Snapshot, row: Assignment) -> Reservation | None:
    """The booking that an assignment is part of, where its time is its own."""
    of = reservations_by_id(snapshot.records.reservations).get(row.reservation or "")
    return of if of is not None and of.kind is Kind.BOOKING and of.state in PROMISED and not of.soft else None
