"""What a reservation still lacks, and what its owner has already that counts for it; pure."""

from __future__ import annotations

from datetime import datetime, timedelta

from lxgpu.model.assignment import KEPT, Assignment, AssignmentState
from lxgpu.model.quota import Policy
from lxgpu.model.request import Need
from lxgpu.model.reservation import Kind, Reservation, ReservationState
from lxgpu.model.snapshot import Observation
from lxgpu.policy.adopting import lease_age, share_out
from lxgpu.policy.calendar import capacity
from lxgpu.policy.desk import Desk
from lxgpu.policy.placement import matching
from lxgpu.policy.preemption import lead_s
from lxgpu.policy.supply import longest_lead_s, soonest


def need_of(desk: Desk, row: Reservation) -> Need:
    """The cards that a reservation still lacks; `gpus` is 0 or less when it has or is promised all of them."""
    mine = adoptable(desk, row)
    have = [item for item in desk.live(row.id) if item.state in KEPT]
    pool = row.pool or (model_of(desk.given.seen, mine[0]) if mine else "") or row.model
    soon = soonest(desk.now, desk.given.policy)
    at = max(row.start, soon) if row.start else soon
    return Need(
        instance=row.instance,
        owner=row.owner,
        gpus=row.gpus - len(have) - len(desk.planned(row.id)) - len(mine),
        adopted=len(mine),
        class_name=row.class_name,
        at=at,
        until=_until(desk, row, at),
        pool=pool,
        kind=row.kind,
        reservation=row.id,
        prefers=row.preferred,
        no_warning=bool(row.no_warning),
    )


def adoptable(desk: Desk, row: Reservation) -> list[Assignment]:
    """Unbooked cards of this host that its owner holds and that a booking or request takes first: N is a total.

    What another booking of theirs counts on already is not counted twice.
    """
    held = () if row.kind is Kind.RETURN else desk.held_by(row.instance)
    if not held:
        return []
    mine = [item for item in held if item.state is AssignmentState.ACTIVE and not _booked(desk, item)]
    mine.sort(key=lease_age)
    others = [one for one in desk.preparing(row.instance) if _before(one, row)] if mine else []
    if others:
        had = share_out(
            mine, others, had=lambda one: len(desk.live(one)) + len(desk.planned(one)), seen=desk.given.seen
        )
        mine = [item for item in mine if not any(item in shared for shared in had.values())]
    lacking = max(0, row.gpus - len(desk.live(row.id)) - len(desk.planned(row.id)))
    return _of_one_model(desk, row, mine)[:lacking] if mine and lacking else []


def _before(one: Reservation, row: Reservation) -> bool:
    """Whether another booking that is got ready takes leases over before this one does."""
    waits = row.state is not ReservationState.PREPARING
    return one.id != row.id and (waits or (one.created_at, one.id) < (row.created_at, row.id))


def _of_one_model(desk: Desk, row: Reservation, mine: list[Assignment]) -> list[Assignment]:
    """Those of the model that a reservation counts on; while it is open, of the one of which most are there already."""
    seen = desk.given.seen
    meant = matching((gpu.model for gpu in seen.gpus), row.pool or row.model)
    by_model = {model: [item for item in mine if model_of(seen, item) == model] for model in sorted(meant)}
    enough = [found for model, found in by_model.items() if row.pool or capacity(desk.snapshot, model) >= row.gpus]
    return max(enough, key=len, default=[])


def model_of(seen: Observation, row: Assignment) -> str:
    """The model of an assignment's card, empty when the host does not show it."""
    gpu = seen.gpu(row.slot.gpu)
    return gpu.model if gpu else ""


def ahead_s(policy: Policy) -> float:
    """How long before its start a booking looks for its cards: late, but with time to warn and to prove."""
    return max(float(policy.rules.bookings.bind_before_s), longest_lead_s(policy))


def _booked(desk: Desk, item: Assignment) -> bool:
    row = desk.reservations.get(item.reservation or "")
    return row is not None and row.open


def _until(desk: Desk, row: Reservation, at: datetime) -> datetime:
    """Until when the cards must be there: a claim is worth a change of hands only for a while at least."""
    if row.kind is Kind.RETURN:
        chosen = desk.given.policy.classes.get(row.class_name)
        least = (chosen.min_runtime_s if chosen else 0) + lead_s(desk.given.policy, row.class_name)
        return at + timedelta(seconds=least)
    return row.until or at + timedelta(seconds=row.duration_s)
