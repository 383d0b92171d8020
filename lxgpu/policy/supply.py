"""Where the cards for a need come from: free ones first, then the cheapest whole disturbance, or the reasons why not.

All or nothing: an answer either meets the whole need in time, or takes nothing from anybody.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from lxgpu.model.cardnames import n_cards
from lxgpu.model.gpu import Gpu, Slot
from lxgpu.model.layout import in_parts
from lxgpu.model.plan import Reason
from lxgpu.model.quota import Policy
from lxgpu.model.request import Need
from lxgpu.model.reservation import Kind, ReservationState
from lxgpu.model.snapshot import Snapshot
from lxgpu.policy.calendar import Skyline, capacity, pools, promises, why_out
from lxgpu.policy.lookup import by_reservation, shared_by
from lxgpu.policy.placement import free_cards, nearest
from lxgpu.policy.preemption import lead_s, units
from lxgpu.policy.tables import once
from lxgpu.policy.victims import Unit, cheapest, cost


@dataclass(frozen=True, slots=True)
class Supply:
    """The slots that meet a need. `free` can be had at once, `taken` once their holders gave way: those of `units`."""

    pool: str
    free: tuple[Slot, ...] = ()
    taken: tuple[Slot, ...] = ()
    units: tuple[Unit, ...] = ()


def supply(snapshot: Snapshot, need: Need) -> Supply | tuple[Reason, ...]:
    """The cheapest way to meet a need on this host.

    Codes: `no_such_model`, `booked` (the cards are free now, but booked too soon), `no_capacity`.
    """
    models = pools(snapshot, need.pool)
    if snapshot.seen.gpus and not models:
        known = ", ".join(sorted({gpu.model for gpu in snapshot.seen.gpus}))
        return (Reason("no_such_model", f"no card's model matches {need.pool!r}; there are {known}"),)
    reasons: list[Reason] = []
    found: list[Supply] = []
    for pool in models:
        answer = _from_pool(snapshot, need if need.pool == pool else replace(need, pool=pool))
        if isinstance(answer, Supply):
            found.append(answer)
            if not answer.units:
                return answer
        else:
            reasons.append(answer)
    if not found:
        return tuple(reasons) or (Reason("no_capacity", "this host shows no cards"),)
    return min(found, key=lambda one: (cost(one.units), one.pool))


def _from_pool(snapshot: Snapshot, need: Need) -> Supply | Reason:
    pool = need.pool
    mine = shared_by(snapshot.records.assignments, need.instance, but=need.reservation) if in_parts(pool) else ()
    free = [gpu for gpu in free_cards(snapshot) if gpu.model == pool and gpu.card not in mine]
    booked = no_room(snapshot, need, at=snapshot.now if len(free) >= need.gpus else need.at)
    if booked is not None:
        return booked
    if len(free) >= need.gpus:
        return Supply(pool, free=tuple(Slot(gpu.uuid) for gpu in _best(snapshot, need, free)))
    there = _not_promised(snapshot, need, units(snapshot, need))
    missing = need.gpus - len(free)
    chosen = cheapest(there, missing)
    if chosen is None:
        can = sum(len(unit.slots) for unit in there)
        text = f"{n_cards(need.gpus, pool)} asked for, {len(free)} are free, {can} could be taken in time"
        return Reason("no_capacity", text)
    begins = max((unit.ready if unit.rule == "expired" else unit.due) for unit in chosen)
    booked = no_room(snapshot, need, at=begins)
    if booked is not None:
        return booked
    taken = sorted(slot for unit in chosen for slot in unit.slots)[:missing]
    return Supply(
        pool,
        free=tuple(sorted(Slot(gpu.uuid) for gpu in free)),
        taken=tuple(taken),
        units=tuple(unit for unit in chosen if set(unit.slots) & set(taken)),
    )


def _not_promised(snapshot: Snapshot, need: Need, found: Iterable[Unit]) -> list[Unit]:
    """The units without the slots that are promised to this need already: nothing more is got by taking those."""
    own = {row.slot for row in by_reservation(snapshot.records.assignments).get(need.reservation, ()) if not row.live}
    if not own:
        return list(found)
    rest = ((unit, tuple(slot for slot in unit.slots if slot not in own)) for unit in found)
    return [replace(unit, slots=slots) for unit, slots in rest if slots]


def no_room(snapshot: Snapshot, need: Need, *, at: datetime) -> Reason | None:
    """That others have booked too many cards of the need's model for its time from `at` on; None: they have not.

    What is there already counts as well: it is to be booked with the rest.
    """
    if need.until is None or need.kind is Kind.BOOKING:
        return None  # a booking was admitted when it was written down
    but = {need.reservation}
    if need.no_warning:  # an admin's word reaches into what runs, not into what is booked ahead
        but |= {row.id for row in snapshot.records.reservations if row.state is ReservationState.ACTIVE}
    spans = promises(snapshot, snapshot.seen.host, need.pool, but=frozenset(but))
    there = capacity(snapshot, need.pool)
    room = Skyline(there, spans).free(at, need.until)
    whole = max(need.gpus, 0) + need.adopted
    if room >= whole:
        return None
    if there < whole:
        text = f"{n_cards(whole, need.pool)} asked for, {there} {'is' if there == 1 else 'are'} in service"
        out = why_out(snapshot, need.pool)
        return Reason("no_capacity", f"{text}: {out}" if out else text)
    text = f"{n_cards(whole, need.pool)} asked for, {max(room, 0)} are not booked by others for that time"
    return Reason("booked", text)


def _best(snapshot: Snapshot, need: Need, free: list[Gpu]) -> Iterable[Gpu]:
    """Of enough free cards those to give: the ones that were had before, else the nearest to each other."""
    wanted = {slot.gpu for slot in need.prefers}
    before = [gpu for gpu in free if gpu.uuid in wanted]
    if not before:
        return nearest(snapshot, free, need.gpus)
    rest = [gpu for gpu in free if gpu.uuid not in wanted]
    return [*before[: need.gpus], *nearest(snapshot, rest, need.gpus - len(before))] if rest else before[: need.gpus]


@once
def longest_lead_s(policy: Policy) -> float:
    """The longest time that anybody's way from warning to a proven card may take."""
    return max((lead_s(policy, name) for name in policy.classes), default=0)


def soonest(now: datetime, policy: Policy) -> datetime:
    """By when a need that begins now can count on cards that are to be taken."""
    return now + timedelta(seconds=longest_lead_s(policy))
