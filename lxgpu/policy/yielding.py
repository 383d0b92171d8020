"""Those who were warned: called off when nobody needs it, taken when the grace is over and the rule stands; pure."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from datetime import datetime, timedelta

from lxgpu.model.assignment import Assignment, AssignmentState
from lxgpu.model.gpu import Slot
from lxgpu.model.reservation import Kind, Reservation, ReservationState
from lxgpu.policy import noshow, words
from lxgpu.policy.closing import busy, last_start
from lxgpu.policy.desk import Desk, Taking
from lxgpu.policy.pending import model_of, need_of
from lxgpu.policy.placement import free_cards, nearest
from lxgpu.policy.preemption import ASAP, units
from lxgpu.policy.supplying import promise
from lxgpu.policy.victims import Unit

_WARNINGS = frozenset({"warned", "booking_missed"})


def settle_warned(desk: Desk) -> None:
    """Every warned assignment: off, on, or now."""
    if not any(row.state is AssignmentState.WARNED for row in desk.here()):
        return
    _spare(desk)
    due: dict[tuple[str, str, str], list[Assignment]] = defaultdict(list)
    warned = [row for row in desk.here() if row.state is AssignmentState.WARNED]
    for row in sorted(warned, key=lambda item: (item.slot, item.id)):
        claimant = claimant_of(desk, row.slot)
        if row.outcome == noshow.RULE:
            _absent(desk, row, due)
        elif claimant is None:
            call_off(desk, row, "nobody needs it any more")
        elif _too_late(desk, claimant):
            call_off(desk, row, "the start that it was for is given up")
        elif _stands(desk, row, claimant):
            desk.look_again(row.due_at)
            if _over(desk, row) and not _lasts(desk, row, claimant):
                due[row.instance, claimant.id, row.outcome].append(row)
        else:
            call_off(desk, row, "it is in use again" if row.outcome == "idle" else "the rule applies no more")
    for (instance, reservation, rule), rows in due.items():
        claimant = desk.reservations.get(reservation)
        if not busy(desk, instance) and (going := _go(desk, rows, claimant) if claimant else rows):
            _take(desk, going, claimant, rule)


def _spare(desk: Desk) -> None:
    """Who was warned keeps their cards when others have come free meanwhile, which go to who waits instead."""
    warned = [row for row in desk.here() if row.state is AssignmentState.WARNED]
    claimants = {one.id: one for row in warned if (one := claimant_of(desk, row.slot))}
    behind: set[str] = set()
    for claimant in sorted(claimants.values(), key=lambda row: (row.start or row.created_at, row.created_at, row.id)):
        if need_of(desk, claimant).gpus > 0:
            behind.add(claimant.pool)
        if claimant.pool in behind:
            continue  # who is before lacks cards, and what is free is theirs
        for rows in _warned_together(desk, claimant):
            cards = [gpu for gpu in free_cards(desk.snapshot) if gpu.model == claimant.pool]
            if len(cards) < len(rows):
                continue
            for row, gpu in zip(rows, nearest(desk.snapshot, cards, len(rows)), strict=True):
                call_off(desk, row, "another card has come free")
                promise(desk, claimant, Slot(gpu.uuid))


def _warned_together(desk: Desk, claimant: Reservation) -> list[list[Assignment]]:
    """Who was warned for a reservation, by what would end together; those with the best title first."""
    together: dict[tuple[str, str, datetime | None], list[Assignment]] = defaultdict(list)
    for promised in desk.planned(claimant.id):
        row = desk.holder(promised.slot)
        if row is not None and row.state is AssignmentState.WARNED:
            together[row.instance, row.outcome, row.due_at].append(row)
    return [rows for _, rows in sorted(together.items(), key=lambda item: (_title(item[0][1]), item[0][0]))]


def _title(rule: str) -> int:
    """How good the title is of who is warned by a rule, the best first."""
    return 2 if rule in words.FINAL else 1 if rule == "idle" else 0


def _go(desk: Desk, rows: list[Assignment], claimant: Reservation) -> list[Assignment]:
    """Those whose grace is over and who may go together: each one counts for the next, so that guarantees hold."""
    going: list[Assignment] = []
    left = rows
    while left:
        unit = _unit(desk, left[0], claimant)
        mine = [row for row in left if unit is not None and row.slot in unit.slots]
        if not mine:
            call_off(desk, left[0], "the rule applies no more")
        for row in mine:
            desk.put(replace(row, state=AssignmentState.RELEASING, due_at=None))
        going += mine
        left = [row for row in left[1:] if row not in mine]
    return going


def _absent(desk: Desk, row: Assignment, due: dict[tuple[str, str, str], list[Assignment]]) -> None:
    """A card of a booking that nobody came to: whoever comes in the grace keeps it until somebody waits."""
    desk.look_again(row.due_at)
    if noshow.came_after_all(desk, row):
        call_off(desk, row, "it is in use after all")
    elif _over(desk, row):
        due[row.instance, "", row.outcome].append(row)


def claimant_of(desk: Desk, slot: Slot) -> Reservation | None:
    """The open reservation that a slot is promised to."""
    promise = desk.successor(slot)
    row = desk.reservations.get(promise.reservation or "") if promise else None
    return row if row is not None and row.pending else None


def call_off(desk: Desk, row: Assignment, why: str) -> None:
    """A warning taken back, and the promise that hung on it."""
    promise = desk.successor(row.slot)
    if promise is not None:
        desk.drop(promise)
    desk.put(replace(row, state=AssignmentState.ACTIVE, due_at=None, outcome=""))
    desk.note("unwarned", row.instance, rule=row.outcome, detail={"gpu": row.slot.gpu, "why": why})
    desk.tell("unwarned", row.instance, about=row.id, facts={"gpus": [row.slot.gpu], "why": why})


def _too_late(desk: Desk, claimant: Reservation) -> bool:
    """Whether a start is given up in this decision, since cards for it are still held: nobody yields in vain."""
    limit = last_start(desk, claimant) if claimant.kind is not Kind.RETURN else None
    return limit is not None and limit <= desk.now


def _stands(desk: Desk, row: Assignment, claimant: Reservation) -> bool:
    """Whether the rule that it was warned by still gives the card to who waits for it.

    By another rule it is warned anew, with that one's grace and bounds: people are told what calls a warning off.
    """
    unit = _unit(desk, row, claimant)
    return unit is not None and (unit.rule == row.outcome or {unit.rule, row.outcome} <= words.FINAL)


def _unit(desk: Desk, row: Assignment, claimant: Reservation) -> Unit | None:
    """The unit that may be taken for a reservation and that a slot is part of."""
    return next((one for one in units(desk.snapshot, need_of(desk, claimant)) if row.slot in one.slots), None)


def _lasts(desk: Desk, row: Assignment, claimant: Reservation) -> bool:
    """Whether a lease that is to expire, or a booking, lasts on, though the grace is over.

    A grace follows a clock that is set; the end of a lease and of a booking is the wall's.
    """
    booked = desk.reservations.get(row.reservation or "")
    ends = [row.until] if row.outcome == "expired" else []
    if booked is not None and booked.open and booked.kind is Kind.BOOKING and not booked.soft:
        ends.append(booked.until)
    ahead = [end for end in ends if end is not None and end > desk.now]
    for end in ahead:
        desk.look_again(end)
    return bool(ahead) and not claimant.no_warning


def _over(desk: Desk, row: Assignment) -> bool:
    """Whether the grace is over, and the warning was at least tried."""
    if row.due_at is None or row.due_at > desk.now:
        return False
    unsent = desk.given.records.notices
    return not any(notice.kind in _WARNINGS and notice.instance == row.instance for notice in unsent)


def _take(desk: Desk, rows: list[Assignment], claimant: Reservation | None, rule: str) -> None:
    first = rows[0]
    if claimant is None:
        _take_back(desk, rows, rule)
        return
    outcome = "expired" if rule in words.FINAL else "idle" if rule == "idle" else "preempted"
    for row in rows:
        desk.put(replace(row, state=AssignmentState.RELEASING, due_at=None, outcome=outcome))
    claim = None if rule in words.FINAL else _claim(desk, rows, claimant)
    slots = tuple(row.slot for row in rows)
    desk.takings.append(Taking(first.instance, slots, rule, outcome, first.class_name, claimant.id))
    facts: dict[str, object] = {
        "gpus": [slot.gpu for slot in slots],
        "reservation": claimant.id,
        "for": claimant.instance,
        "claim": claim.id if claim else None,
    }
    desk.note("displaced", first.instance, rule=rule, detail=facts)
    told = {
        **words.loss(slots, claimant, rule),
        "claim": claim is not None,
        "back_at": words.back_at(claimant) if claim else None,
        "dies": words.instant(claim.dies) if claim else None,
    }
    desk.tell("taken", first.instance, about=first.id, facts=told)


def _take_back(desk: Desk, rows: list[Assignment], rule: str) -> None:
    """Cards that nobody in particular waits for, of a booking that was missed."""
    for row in rows:
        desk.put(replace(row, state=AssignmentState.RELEASING, due_at=None, outcome=rule))
    slots = tuple(row.slot for row in rows)
    desk.takings.append(Taking(rows[0].instance, slots, rule, rule, rows[0].class_name))


def _asked_as_soon(desk: Desk, row: Assignment) -> bool:
    """Whether a card was lent for a time that began as soon as it could."""
    booked = desk.reservations.get(row.reservation or "")
    return booked is not None and booked.kind is Kind.BOOKING and bool(booked.told.get(ASAP))


def _claim(desk: Desk, rows: list[Assignment], claimant: Reservation) -> Reservation:
    """The right to have as many cards of the same model again."""
    first, now = rows[0], desk.now
    bookings = desk.given.policy.rules.bookings
    until = max((row.until for row in rows if row.until), default=None)
    life = now + timedelta(seconds=bookings.claim_life_s)
    left_s = max(1, int(((until or life) - now).total_seconds()))
    if _asked_as_soon(desk, first):
        until = None  # no time of the clock was asked for, but so much of it: what is left is owed, whenever it is
    dies = min(until, life) if until and until > now else life
    instance = desk.instance(first.instance)
    model = model_of(desk.given.seen, first)
    row = Reservation(
        id="c" + desk.new_id("c", first.instance, claimant.id, *(row.slot for row in rows))[:7],
        instance=first.instance,
        owner=instance.owner if instance else first.instance,
        kind=Kind.RETURN,
        gpus=len(rows),
        state=ReservationState.WAITING,
        created_at=now,
        duration_s=left_s,
        class_name=first.class_name,
        model=model,
        host=desk.given.seen.host,
        pool=model,
        cause=claimant.id,
        prefers=",".join(str(row.slot) for row in rows),
        until=until,
        dies=dies,
    )
    desk.put(row)
    return row
