"""What people hear ahead of time: bookings that begin or end, leases that end, idleness that was seen; pure.

Nothing is decided here. What was told is remembered in `Reservation.told`, or known from the notices that were sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from lxgpu.model.assignment import Assignment, AssignmentState
from lxgpu.model.reservation import PENDING, Kind, Reservation, ReservationState
from lxgpu.policy import words
from lxgpu.policy.desk import Desk
from lxgpu.policy.idleness import takeable_at, warnings_due
from lxgpu.policy.pending import ahead_s, need_of
from lxgpu.policy.retold import AHEAD, ENDS, STARTS
from lxgpu.policy.supply import Supply, longest_lead_s, supply

ENDS_S = 10 * 60
"""So long before its end the holder of a booking hears of it."""
LEASE_S = 86400
"""So long before its end the holder of a lease hears of it; of a short lease a tenth of its length before."""
_AHEAD = frozenset({ReservationState.SCHEDULED, ReservationState.PREPARING})
_TIMED = (*sorted(_AHEAD), ReservationState.ACTIVE)


def herald(desk: Desk) -> None:
    """Everything that it is time to say."""
    for row in desk.mine(_TIMED):
        if row.kind is Kind.BOOKING and row.state in _AHEAD and row.start and not row.asap:
            _before(desk, row, row.start)
        elif row.state is ReservationState.ACTIVE and row.until:
            _at_the_end(desk, row, row.until)
    active = [held for held in desk.here() if held.state is AssignmentState.ACTIVE]
    for held in active:
        _lease(desk, held)
    idle = [(held, end) for held in active if (end := _idle_at(desk, held)) is not None]
    waiting = desk.mine(PENDING) if idle else []
    for held, end in idle:
        _idle(desk, held, end, waiting)


def _before(desk: Desk, row: Reservation, start: datetime) -> None:
    """Its owner hears when the cards are got ready; those who may have to yield hear earlier."""
    rules = desk.given.policy.rules.bookings
    lead = timedelta(seconds=ahead_s(desk.given.policy))
    told = dict(row.told)
    for distance in rules.notice_s if row.state is ReservationState.SCHEDULED else ():
        at = start - timedelta(seconds=distance)
        key = f"{AHEAD}{distance}"
        if key in told or at < row.created_at or start - lead <= at:
            continue
        desk.look_again(at)
        if at <= desk.now:
            told[key] = desk.now.isoformat()
            _likely_victims(desk, row)
    if STARTS not in told and start - lead <= desk.now:
        told[STARTS] = desk.now.isoformat()
        desk.tell("booking_starts", row.instance, about=row.id, facts=words.booking(row))
    if told != dict(row.told):
        desk.put(replace(desk.reservations[row.id], told=told))


def _likely_victims(desk: Desk, row: Reservation) -> None:
    found = supply(desk.snapshot, need_of(desk, row))
    if not isinstance(found, Supply):
        return
    for unit in found.units:
        gpus = [slot.gpu for slot in found.taken if slot in unit.slots]
        facts = {"gpus": gpus, "by": row.owner, "start": words.instant(row.start), "until": words.instant(row.until)}
        desk.tell("booking_ahead", unit.instance, about=row.id, facts=facts)


def _at_the_end(desk: Desk, row: Reservation, until: datetime) -> None:
    desk.look_again(until - timedelta(seconds=longest_lead_s(desk.given.policy)))
    if ENDS in row.told:
        return
    at = until - timedelta(seconds=min(ENDS_S, row.duration_s / 10))
    desk.look_again(at)
    gpus = [item.slot.gpu for item in desk.live(row.id)]
    if at > desk.now or not gpus:
        return
    desk.put(replace(row, told={**row.told, ENDS: desk.now.isoformat()}))
    facts = {"booking": row.id, "gpus": gpus, "until": words.instant(until), "next_by": _next_by(desk, row)}
    desk.tell("booking_ends", row.instance, about=row.id, facts=facts)


def _next_by(desk: Desk, row: Reservation) -> str:
    """Who waits for cards of that model; empty: nobody."""
    waiting = (item for item in desk.mine(PENDING) if item.pool in {"", row.pool})
    first = min(waiting, key=lambda item: item.created_at, default=None)
    return first.owner if first else ""


def _lease(desk: Desk, held: Assignment) -> None:
    booked = desk.reservations.get(held.reservation or "")
    if held.until is None or held.since is None or (booked is not None and booked.open):
        return
    desk.look_again(held.until - timedelta(seconds=longest_lead_s(desk.given.policy)))
    at = held.until - timedelta(seconds=min(LEASE_S, (held.until - held.since).total_seconds() / 10))
    desk.look_again(at)
    if at > desk.now or _heard(desk, held, "lease_ends", since=at):
        return
    facts = {"gpus": [held.slot.gpu], "until": words.instant(held.until), "extend": True}
    desk.tell("lease_ends", held.instance, about=held.id, facts=facts)


def _idle_at(desk: Desk, held: Assignment) -> datetime | None:
    """When a card may be taken as idle, if that is ahead: of later there is nothing to say any more."""
    verdict = desk.given.verdicts.get(held.slot)
    end = takeable_at(verdict, desk.given.policy.rules.idle) if verdict is not None else None
    return end if end is not None and end > desk.now else None


def _idle(desk: Desk, held: Assignment, end: datetime, waiting: Sequence[Reservation]) -> None:
    """While somebody waits, the holder of a card that is idle for some time hears that it may go."""
    verdict, rules = desk.given.verdicts.get(held.slot), desk.given.policy.rules.idle
    by = next((row.owner for row in waiting if row.instance != held.instance), "")
    if verdict is None or verdict.since is None or not by:
        return
    sent = [at for kind, at in desk.given.heard.get(held.id, ()) if kind == "idle_warning" and at >= verdict.since]
    told = [warn for warn in rules.warn_s if any((end - at).total_seconds() <= warn for at in sent)]
    if not warnings_due(verdict, rules=rules, now=desk.now, told=told):
        return
    facts: Mapping[str, object] = {
        "gpus": [held.slot.gpu],
        "since": words.instant(verdict.since),
        "due_at": words.instant(end),
        "by": by,
    }
    desk.tell("idle_warning", held.instance, about=held.id, facts=facts)


def _heard(desk: Desk, held: Assignment, kind: str, *, since: datetime) -> bool:
    return any(item == kind and at >= since for item, at in desk.given.heard.get(held.id, ()))
