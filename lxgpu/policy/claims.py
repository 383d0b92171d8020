"""Claims while they wait: never more than was held, none for who gives back, shorter gaps are offered; pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from lxgpu.model.assignment import KEPT
from lxgpu.model.reservation import Reservation, ReservationState
from lxgpu.policy import words
from lxgpu.policy.calendar import Skyline, capacity, promises
from lxgpu.policy.closing import end
from lxgpu.policy.desk import Desk
from lxgpu.policy.lookup import past_by_instance
from lxgpu.policy.pending import need_of
from lxgpu.policy.placement import free_cards

MOST = "most"
"""The mark in `Reservation.told` of how many cards its container held, or was owed, when the claim came to be."""
OFFERED = "offered"
"""The mark of the instant until which a gap was offered."""
GIVEN_BACK = "given back"
"""How an assignment ends whose holder gave it back."""
LEAST_S = 60
"""A shorter gap is offered to nobody."""


def settle_claims(desk: Desk) -> None:
    """Claims of who gives back end; those of who got cards otherwise shrink, the newest first, down to nothing."""
    claims: defaultdict[str, list[Reservation]] = defaultdict(list)
    for row in desk.claims():
        claims[row.instance].append(row)
    for instance, rows in sorted(claims.items()):
        left = [row for row in rows if not _forgone(desk, row)]
        _bound(desk, instance, sorted(left, key=lambda row: (row.created_at, row.id)))


def offer_gaps(desk: Desk) -> None:
    """A gap that is too short for a claim to return by itself is offered to its owner, once for each end."""
    waiting = [row for row in desk.claims() if row.state is ReservationState.WAITING]
    there = free_cards(desk.snapshot) if waiting else ()
    for row in waiting:
        free = sum(gpu.model == row.pool for gpu in there)
        until = _gap(desk, row) if free >= row.gpus else None
        if until is None or row.told.get(OFFERED) == until.isoformat():
            continue
        desk.put(replace(row, told={**row.told, OFFERED: until.isoformat()}))
        desk.note("offered", row.instance, rule="claim", detail={"reservation": row.id, "until": until.isoformat()})
        why = f"they are booked from then on; gpu reserve {row.gpus} --for TIME gets them for less"
        facts = {"number": row.gpus, "model": row.pool, "until": words.instant(until), "why": why}
        desk.tell("claim_offered", row.instance, about=row.id, facts=facts)


def _gap(desk: Desk, row: Reservation) -> datetime | None:
    """Until when its cards are free now that are booked too soon; None: there is no such gap, or a long enough one."""
    snapshot = desk.snapshot
    spans = promises(snapshot, snapshot.seen.host, row.pool, but=frozenset({row.id}))
    until = Skyline(capacity(snapshot, row.pool), spans).lasting(row.gpus, desk.now)
    needed = need_of(desk, row).until
    if until is None or needed is None or until >= needed:
        return None
    return until if until - desk.now >= timedelta(seconds=LEAST_S) else None


def _forgone(desk: Desk, row: Reservation) -> bool:
    """Whether its container gave any card back since: who has too many is owed none."""
    past = past_by_instance(desk.given.past).get(row.instance, ())
    given = any(one.outcome == GIVEN_BACK and one.closed_at and one.closed_at > row.created_at for one in past)
    if given and row.state is ReservationState.WAITING:
        _close(desk, row, "cards were given back")
    return given


def _bound(desk: Desk, instance: str, rows: Sequence[Reservation]) -> None:
    """What is held and what is owed together are never more than what was held."""
    own = {row.id for row in rows}
    held = sum(one.state in KEPT and one.reservation not in own for one in desk.held_by(instance))
    owed = 0
    for row in rows:
        owed += row.gpus
        if MOST not in row.told:
            desk.put(replace(row, told={**row.told, MOST: held + owed}))
    most = max((int(str(desk.reservations[row.id].told[MOST])) for row in rows), default=0)
    surplus = held + owed - most
    for row in (desk.reservations[one.id] for one in reversed(rows)):
        if surplus <= 0 or row.state is not ReservationState.WAITING:
            continue
        less = min(surplus, row.gpus)
        surplus -= less
        if less == row.gpus:
            _close(desk, row, "as many cards are held again")
        else:
            desk.put(replace(row, gpus=row.gpus - less))
            facts = {"reservation": row.id, "gpus": row.gpus - less, "were": row.gpus}
            desk.note("shrunk", row.instance, rule="claim", detail=facts)


def _close(desk: Desk, row: Reservation, why: str) -> None:
    end(desk, row, ReservationState.CANCELLED, why)
    facts = {"number": row.gpus, "model": row.pool, "why": why}
    desk.tell("claim_died", row.instance, about=row.id, facts=facts)
