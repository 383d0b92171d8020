"""Cards for longer: leases and running bookings, as far as nobody has booked them and the policy lends. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from lxgpu.figures import n_gpus
from lxgpu.instants import show_instant
from lxgpu.model.assignment import KEPT, Assignment, AssignmentState
from lxgpu.model.plan import Plan, PlannedStep, Reason, Verdict
from lxgpu.model.quota import Entitlement
from lxgpu.model.request import ReserveRequest
from lxgpu.model.reservation import Kind, Reservation, ReservationState
from lxgpu.model.snapshot import Snapshot
from lxgpu.policy.admission import cards_of, entitlement
from lxgpu.policy.booking import admit_booking
from lxgpu.policy.calendar import Skyline, Span
from lxgpu.policy.noshow import outlasts
from lxgpu.policy.outlook import outlook
from lxgpu.policy.preemption import lead_s
from lxgpu.policy.retold import retold
from lxgpu.units import format_duration, short_duration

LEAST_S = 60
"""A shorter time is not offered."""


@dataclass(frozen=True, slots=True)
class Extended:
    """What an extension comes to: the plan, the rows to write when it is granted, and what could be had instead.

    `until` is the earliest new end. `offer_s` is how much longer at most, None: nothing at all, or all of it.
    """

    plan: Plan
    rows: tuple[Assignment | Reservation, ...] = ()
    until: datetime | None = None
    offer_s: int | None = None


@dataclass(frozen=True, slots=True)
class _Block:
    """Cards that end together: those of a booking, or of one model whose leases end at one time."""

    rows: tuple[Assignment, ...]
    end: datetime
    pool: str
    booking: Reservation | None = None


def first_end(snapshot: Snapshot, instance: str) -> datetime | None:
    """When the first of the cards that an instance holds until a time goes; None: none has an end."""
    held = [row for row in snapshot.records.held_by(instance) if row.state in KEPT]
    return min((block.end for block in _blocks(snapshot, held)), default=None)


def decide_extend(snapshot: Snapshot, instance: str, *, seconds: int) -> Extended:
    """Every card that an instance holds until a time, so many seconds longer; all of them or none.

    What is over counts from now. Codes: `not_held`, `conflict` (nothing has an end), `person_ended`, `over_limit`,
    `booking_too_long`, `beyond_horizon`, those of `admit_booking`, and `no_room` (booked by others from then on).
    """
    held = [row for row in snapshot.records.held_by(instance) if row.state in KEPT]
    blocks = tuple(_blocks(snapshot, held))
    if not blocks:
        return _refused(_nothing(instance, held))
    owner = _owner(snapshot, instance)
    reasons: list[Reason] = []
    offers: list[int] = []
    asked = _Asked(snapshot, instance, owner, blocks, timedelta(seconds=seconds))
    for block in blocks:
        begin = max(block.end, snapshot.now)
        latest, found = _latest(asked, block, begin + asked.more)
        reasons += [item for item in found if item not in reasons]
        offers.append(int((latest - begin).total_seconds()))
    if reasons:
        offer = min(offers)
        return replace(_refused(*reasons), offer_s=offer if LEAST_S <= offer < seconds else None)
    return _granted(snapshot, blocks, seconds)


@dataclass(frozen=True, slots=True)
class _Asked:
    """The whole question: every block is to last so much longer."""

    snapshot: Snapshot
    instance: str
    owner: str
    blocks: tuple[_Block, ...]
    more: timedelta


def _blocks(snapshot: Snapshot, held: list[Assignment]) -> Iterator[_Block]:
    groups: defaultdict[tuple[str, str, datetime], list[Assignment]] = defaultdict(list)
    for row in held:
        booking = snapshot.records.reservation(row.reservation)
        running = booking if booking is not None and booking.state is ReservationState.ACTIVE else None
        end = running.until if running is not None else row.until
        if end is not None:
            groups[running.id if running else "", _model(snapshot, row), end].append(row)
    for (identifier, pool, end), rows in sorted(groups.items()):
        yield _Block(tuple(rows), end, pool, snapshot.records.reservation(identifier) if identifier else None)


def _latest(asked: _Asked, block: _Block, wanted: datetime) -> tuple[datetime, list[Reason]]:
    """Until when a block may last at most, and why not as long as wanted."""
    snapshot = asked.snapshot
    bounds = list(_bounds(snapshot, asked.owner, block))
    lead = timedelta(seconds=lead_s(snapshot.policy, block.rows[0].class_name))
    booked = _line(asked, block).lasting(0, snapshot.now)
    if booked is not None and booked - lead < wanted:
        bounds.append((booked - lead, Reason("no_room", _booked(snapshot, block, wanted + lead, booked - lead))))
    reasons = [reason for latest, reason in bounds if latest < wanted]
    if block.booking is not None and not reasons:
        reasons += _admitted(snapshot, block.booking, wanted)
        if reasons:
            bounds.append((block.end, reasons[0]))
    return min([wanted, *(latest for latest, _ in bounds)]), reasons


def _line(asked: _Asked, block: _Block) -> Skyline:
    """What is free of a block's model if it is never given back, and the other blocks when they would end."""
    now, others = asked.snapshot.now, [one for one in asked.blocks if one is not block and one.pool == block.pool]
    more: list[Span] = []
    booked: list[Span] = []
    for one, end in [(block, None), *((one, max(one.end, now) + asked.more) for one in others)]:
        (more if one.booking is None else booked).append(Span(now, end, len(one.rows), asked.instance))
    but = {row.id for one in asked.blocks for row in one.rows} | {one.booking.id for one in asked.blocks if one.booking}
    return outlook(asked.snapshot, block.pool, more=more, booked=booked, but=frozenset(but))


def _bounds(snapshot: Snapshot, owner: str, block: _Block) -> Iterator[tuple[datetime, Reason]]:
    """What the policy says on how long cards may be had, whoever else wants them."""
    now, rules = snapshot.now, snapshot.policy.rules.bookings
    entitled = entitlement(snapshot, owner)
    if entitled.until is not None:
        yield entitled.until, Reason("person_ended", f"{owner}'s time ends at {_show(snapshot, entitled.until)}")
    if (held := cards_of(snapshot, owner)) > entitled.limit:
        text = f"{owner} may hold {n_gpus(entitled.limit)} and holds {held}: nothing is lent for longer"
        yield block.end, Reason("over_limit", text)
    begin, longest = _longest(block, entitled, rules.longest_s, now)
    text = f"cards are lent for {format_duration(longest)} at a time"
    yield begin + timedelta(seconds=longest), Reason("booking_too_long", text)
    ahead = format_duration(rules.horizon_s)
    yield now + timedelta(seconds=rules.horizon_s), Reason("beyond_horizon", f"nothing is promised {ahead} ahead")


def _longest(block: _Block, entitled: Entitlement, longest_s: int, now: datetime) -> tuple[datetime, int]:
    """From when on, and for how long: a booking from its start, a lease from now, since it can be asked for anew."""
    if block.booking is not None:
        return block.booking.start or block.booking.created_at, longest_s
    return now, max(longest_s, entitled.lease_s)


def _admitted(snapshot: Snapshot, booking: Reservation, until: datetime) -> list[Reason]:
    """What the policy says of the longer booking as a whole: hours booked ahead, limits while it lasts."""
    start = booking.start or booking.created_at
    request = ReserveRequest(
        instance=booking.instance,
        owner=booking.owner,
        gpus=booking.gpus,
        duration_s=int((until - start).total_seconds()),
        at=start,
        model=booking.pool or booking.model,
        class_name=booking.class_name,
    )
    return list(admit_booking(snapshot, request, start=start, until=until, but=frozenset({booking.id})))


def _booked(snapshot: Snapshot, block: _Block, wanted: datetime, free: datetime) -> str:
    """Who has the cards next, and until when they can be had."""
    slots = {row.slot for row in block.rows}
    promised = {
        row.reservation
        for row in snapshot.records.assignments
        if row.state is AssignmentState.PLANNED and row.slot in slots
    }
    rivals = [
        row
        for row in snapshot.records.reservations
        if row.id in promised or (row.kind is Kind.BOOKING and row.open and row.pool == block.pool)
    ]
    mine = {block.booking.id if block.booking else "", *(row.reservation for row in block.rows)}
    first = min(
        (row for row in rivals if row.id not in mine and (row.start or snapshot.now) < wanted),
        key=lambda row: (row.start or snapshot.now, row.id),
        default=None,
    )
    who = "somebody else" if first is None else f"{first.instance} (reservation {first.id})"
    when = f" from {_show(snapshot, first.start)} on" if first is not None and first.start is not None else ""
    most = f"; until {_show(snapshot, free)} they can stay" if free > max(block.end, snapshot.now) else ""
    return f"{who} has the cards{when}, and taking them over needs time{most}"


def _granted(snapshot: Snapshot, blocks: tuple[_Block, ...], seconds: int) -> Extended:
    rows: list[Assignment | Reservation] = []
    steps: list[PlannedStep] = []
    ends = []
    for block in blocks:
        until = max(block.end, snapshot.now) + timedelta(seconds=seconds)
        ends.append(until)
        if block.booking is not None and block.booking not in rows:
            start = block.booking.start or block.booking.created_at
            longer = replace(block.booking, until=until, duration_s=int((until - start).total_seconds()))
            rows.append(retold(block.booking, longer))
        for row in block.rows:
            if block.booking is None or not outlasts(row, replace(block.booking, until=until)):
                rows.append(replace(row, until=until))
            why = f"{short_duration(seconds)} more than until {_show(snapshot, block.end)}"
            steps.append(PlannedStep("extend", row.instance, row.slot.gpu, until, why))
    return Extended(Plan(Verdict.GRANTED, steps=tuple(steps), when=min(ends)), tuple(rows), until=min(ends))


def _nothing(instance: str, held: list[Assignment]) -> Reason:
    if not held:
        return Reason("not_held", f"{instance} holds no GPU")
    return Reason("conflict", f"{instance}'s cards are lent without an end")


def _refused(*reasons: Reason) -> Extended:
    return Extended(Plan(Verdict.REFUSED, tuple(reasons)))


def _owner(snapshot: Snapshot, instance: str) -> str:
    row = snapshot.records.instance(instance)
    return row.owner if row else instance


def _model(snapshot: Snapshot, row: Assignment) -> str:
    gpu, card = snapshot.seen.gpu(row.slot.gpu), snapshot.records.card(row.slot.gpu)
    return gpu.model if gpu else card.model if card else ""


def _show(snapshot: Snapshot, at: datetime) -> str:
    return show_instant(at, now=snapshot.now, zone=snapshot.policy.zone)
