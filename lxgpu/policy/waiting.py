"""Why a reservation still waits, and what would have to change: who is before it, and why each holder keeps their card.

Pure; for people who ask, not for deciding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta

from lxgpu.figures import n_gpus
from lxgpu.instants import show_instant
from lxgpu.model.assignment import Assignment
from lxgpu.model.gpu import Slot
from lxgpu.model.plan import Reason
from lxgpu.model.request import Need
from lxgpu.model.reservation import Kind, Reservation, ReservationState
from lxgpu.model.snapshot import Snapshot
from lxgpu.policy.calendar import out_of_service
from lxgpu.policy.classes import class_of
from lxgpu.policy.desk import Desk
from lxgpu.policy.pending import ahead_s, need_of
from lxgpu.policy.placement import fits
from lxgpu.policy.preemption import candidates
from lxgpu.policy.queue import in_order
from lxgpu.policy.supply import Supply, supply
from lxgpu.policy.victims import Unit

MOST_BEFORE = 3
"""So many of those before it are named."""


def why_waiting(snapshot: Snapshot, row: Reservation, order: Sequence[Reservation] | None = None) -> tuple[Reason, ...]:
    """What keeps an open reservation from its cards; the first one says it in short, the others card by card.

    `order` is the line as `in_order` gives it, where it is known.
    Codes: `can_begin`, `not_yet` (a booking ahead), those of `supply`, `before` (who is first), `later` (may be taken
    from a time on), `need_not_yield`, `out_of_service`.
    """
    need = need_of(Desk(snapshot), row)
    if need.gpus <= 0:
        return (Reason("can_begin", "it has or is promised all its cards"),)
    if row.state is ReservationState.SCHEDULED and row.start is not None:
        bound = row.start - timedelta(seconds=ahead_s(snapshot.policy))
        if bound > snapshot.now:
            when = show_instant(bound, now=snapshot.now, zone=snapshot.policy.zone)
            return (Reason("not_yet", f"its cards are chosen shortly before it begins, from {when} on"),)
    before = list(_before(snapshot, row, order))
    found = supply(snapshot, need)
    if isinstance(found, Supply):
        text = "its turn has not come yet" if before else "its cards can be had: they are promised at the next look"
        return (Reason("can_begin", text), *before)
    return (*found, *before, *_cards(snapshot, row, need))


def _before(snapshot: Snapshot, row: Reservation, order: Sequence[Reservation] | None) -> Iterator[Reason]:
    """Who is first in the line for cards that it wants too."""
    if row.state is not ReservationState.WAITING:
        return
    if order is None:
        waiting = (one for one in snapshot.records.reservations if one.state is ReservationState.WAITING)
        order = in_order(snapshot, waiting)
    first = [
        one
        for one in order[: next((at for at, one in enumerate(order) if one.id == row.id), 0)]
        if _rivals(snapshot, one, row)
    ]
    for one in first[:MOST_BEFORE]:
        what = "claim" if one.kind is Kind.RETURN else "request"
        yield Reason("before", f"before it: {one.instance}'s {what} {one.id}, {_gpus(one.gpus)}")
    if len(first) > MOST_BEFORE:
        yield Reason("before", f"and {len(first) - MOST_BEFORE} more before it")


def _rivals(snapshot: Snapshot, one: Reservation, other: Reservation) -> bool:
    models = {gpu.model for gpu in snapshot.seen.gpus}
    return any(fits(model, one.pool or one.model) and fits(model, other.pool or other.model) for model in models)


def _cards(snapshot: Snapshot, row: Reservation, need: Need) -> Iterator[Reason]:
    """Each card that it could have, and why it has not got it."""
    units = {slot: unit for unit in candidates(snapshot, need) for slot in unit.slots}
    unfit = out_of_service(snapshot)
    for gpu in snapshot.seen.gpus:
        if not fits(gpu.model, row.pool or row.model):
            continue
        holder = snapshot.records.holder(Slot(gpu.uuid))
        if gpu.uuid in unfit:
            yield Reason("out_of_service", f"{gpu.uuid} is {unfit[gpu.uuid].text}")
        elif holder is not None and holder.instance != row.instance:
            yield _held(snapshot, need, holder, units.get(holder.slot))


def _held(snapshot: Snapshot, need: Need, holder: Assignment, unit: Unit | None) -> Reason:
    card, now, zone = holder.slot.gpu, snapshot.now, snapshot.policy.zone
    promise = snapshot.records.successor(holder.slot)
    if promise is not None and promise.reservation != need.reservation:
        return Reason("promised", f"{holder.instance} gives {card} up to {promise.instance}, who came before")
    if unit is not None:
        when = show_instant(unit.ready, now=now, zone=zone)
        return Reason("later", f"{holder.instance}'s {card} can be had from {when} on: {unit.why}")
    until = f"until {show_instant(holder.until, now=now, zone=zone)}" if holder.until else "without an end"
    classes = [class_of(snapshot.policy, name) for name in (holder.class_name, need.class_name)]
    theirs, asked = (f"{one.name or 'none'} ({one.priority})" for one in classes)
    return Reason(
        "need_not_yield", f"{holder.instance} has {card} {until}, in class {theirs}, and need not yield to {asked}"
    )


def _gpus(number: int) -> str:
    return n_gpus(number)
