"""What could be taken for a need at all: held slots that fit it and that are promised to nobody else; pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from lxgpu.model.assignment import ATTACHED, Assignment
from lxgpu.model.gpu import Readings
from lxgpu.model.layout import in_parts
from lxgpu.model.request import Need
from lxgpu.model.reservation import Kind, Reservation, ReservationState
from lxgpu.model.snapshot import Snapshot
from lxgpu.model.usage import NOT_JUDGED, IdleVerdict, Use
from lxgpu.policy.adopting import spoken_for
from lxgpu.policy.guarantees import Guarantees
from lxgpu.policy.joined import joined
from lxgpu.policy.lookup import by_card, by_instance, closed_cards, reservations_by_id, shared_by, stuck_cards
from lxgpu.policy.placement import matching

NO_SHOW = "no_show"
"""By this rule a card is warned that goes back by itself: to take it by another would make a claim of what is over."""
_RUNS = frozenset({ReservationState.ACTIVE, ReservationState.PREPARING})


@dataclass(frozen=True, slots=True)
class Stake:
    """Slots of one instance that end together, before any rule is asked.

    `rows` are all that lose their work, `taken` those of them that fit the need. `expired`: their time is over when
    the need is there; `ends` is the last end among them. `booked`: one is part of a running booking.
    """

    owner: str
    rows: tuple[Assignment, ...]
    taken: tuple[Assignment, ...]
    idle: bool
    expired: bool
    booked: bool
    work_lost_s: int
    held_s: int
    ends: datetime | None = None

    @property
    def id(self) -> str:
        """The same for the same slots at all times."""
        return f"{self.instance}:{self.rows[0].slot}"

    @property
    def instance(self) -> str:
        """Whose slots they are."""
        return self.rows[0].instance

    @property
    def size(self) -> int:
        """How many slots the need gets of it."""
        return len(self.taken)


def stakes(snapshot: Snapshot, need: Need, ledger: Guarantees) -> tuple[Stake, ...]:
    """All stakes, by id.

    Work of which any slot is being attached, released, stuck or promised to somebody else is left alone whole; so is
    what a running booking holds or one that is got ready counts on, but for an admin's `no_warning`. The instance's own
    slots are no supply for it.
    """
    wanted = _wanted(snapshot, need)
    had, held = by_card(snapshot.records.assignments), by_instance(snapshot.records.assignments)
    names = {row.instance for uuid in wanted for row in had.get(uuid, ()) if row.live} - {need.instance}
    found = []
    for name in names & ledger.owners.keys():
        spoken = spoken_for(snapshot, name)
        for group in joined(snapshot.seen, held[name], idle=lambda row: _idle(snapshot, row)):
            taken = tuple(row for row in group if row.slot.gpu in wanted)
            free_to_go = all(row.state in ATTACHED and row.outcome != NO_SHOW and ledger.keeps(row) for row in group)
            if taken and free_to_go:
                owner = ledger.owners[group[0].instance]
                stake = _stake(snapshot, need, owner, group=group, taken=taken)
                if any(row.id in spoken for row in group):
                    stake = replace(stake, booked=True)
                if need.no_warning or not stake.booked:
                    found.append(stake)
    return tuple(sorted(found, key=lambda stake: stake.id))


def _stake(
    snapshot: Snapshot,
    need: Need,
    owner: str,
    *,
    group: tuple[Assignment, ...],
    taken: tuple[Assignment, ...],
) -> Stake:
    at = max(need.at, snapshot.now)
    over: list[datetime] = []
    idle, booked, lost_s, held_s = True, False, 0, 0
    for row in group:
        booking, verdict = _booking(snapshot, row), snapshot.verdicts.get(row.slot, NOT_JUDGED)
        end = row.until or (booking.until if booking else None)
        if end is not None and end <= at:
            over.append(end)
        idle = idle and verdict.takeable(snapshot.now)
        booked = booked or (booking is not None and _immune(booking, at))
        seconds = _seconds(row, snapshot.now)
        held_s += seconds
        # One that is idle and kept, or protected for a while, has no work to lose either.
        lost_s += seconds if verdict.use is not Use.IDLE else _parked_s(row, verdict, snapshot.now)
    return Stake(
        owner=owner,
        rows=group,
        taken=taken,
        idle=idle,
        expired=len(over) == len(group),
        booked=booked,
        work_lost_s=lost_s,
        held_s=held_s,
        ends=max(over, default=None),
    )


def _booking(snapshot: Snapshot, row: Assignment) -> Reservation | None:
    """The running booking that an assignment is part of."""
    found = reservations_by_id(snapshot.records.reservations).get(row.reservation or "")
    return found if found is not None and found.kind is Kind.BOOKING and found.state in _RUNS else None


def _wanted(snapshot: Snapshot, need: Need) -> frozenset[str]:
    """The host's cards that fit the need and could be lent again: not closed, not stuck, and NVML can read them."""
    records, readings = snapshot.records, snapshot.seen.readings
    out = closed_cards(records.cards).keys() | stuck_cards(records.slots).keys()
    good = {gpu.uuid for gpu in snapshot.seen.gpus} if readings is None else set(_read(snapshot, readings))
    meant = matching((gpu.model for gpu in snapshot.seen.gpus), need.pool)
    if in_parts(need.pool):
        out = out | shared_by(records.assignments, need.instance, but=need.reservation)
    fit = (gpu for gpu in snapshot.seen.gpus if gpu.model in meant and gpu.uuid in good)
    return frozenset(gpu.uuid for gpu in fit if out.isdisjoint((gpu.uuid, gpu.card)))


def _read(snapshot: Snapshot, readings: Readings) -> Iterator[str]:
    """Cards that NVML can read; a lost one may not even tell who it is, and then it may be any that has no sample."""
    if readings.error:
        return
    nameless = any(row.fault and not row.uuid for row in readings.items)
    for gpu in snapshot.seen.gpus:
        reading = readings.of(gpu.uuid)
        if (reading is None and not nameless) or (reading is not None and not reading.fault):
            yield gpu.uuid


def _idle(snapshot: Snapshot, row: Assignment) -> bool:
    return snapshot.verdicts.get(row.slot, NOT_JUDGED).takeable(snapshot.now)


def _immune(booking: Reservation, at: datetime) -> bool:
    """Whether a booking still runs when the cards are needed; of one that is about to begin nobody can say yet."""
    if booking.state is ReservationState.PREPARING:
        return True
    return not booking.soft and (booking.until is None or booking.until > at)


def _parked_s(row: Assignment, verdict: IdleVerdict, now: datetime) -> int:
    """What the memory of an idle one still holds; all that a working one did since the attach may be lost."""
    return _seconds(row, verdict.since or now) if verdict.parked else 0


def _seconds(row: Assignment, until: datetime) -> int:
    return max(0, int((until - (row.since or row.created_at)).total_seconds()))
