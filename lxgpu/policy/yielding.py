"""Those who were warned: called off when nobody needs it, taken when the grace is over and the rule stands; pure."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from datetime import timedelta

from lxgpu.model.assignment import Assignment, AssignmentState
from lxgpu.model.gpu import Slot
from lxgpu.model.reservation import Kind, Reservation, ReservationState
from lxgpu.policy import noshow, words
from lxgpu.policy.closing import busy
from lxgpu.policy.desk import Desk, Taking
from lxgpu.policy.pending import model_of, need_of
from lxgpu.policy.preemption import units

_WARNINGS = frozenset({"warned", "booking_missed"})


def settle_warned(desk: Desk) -> None:
    """Every warned assignment: off, on, or now."""
    due: dict[tuple[str, str, str], list[Assignment]] = defaultdict(list)
    warned = [row for row in desk.here() if row.state is AssignmentState.WARNED]
    for row in sorted(warned, key=lambda item: (item.slot, item.id)):
        claimant = claimant_of(desk, row.slot)
        if row.outcome == noshow.RULE:
            _absent(desk, row, due)
        elif claimant is None:
            call_off(desk, row, "nobody needs it any more")
        elif _stands(desk, row, claimant):
            desk.look_again(row.due_at)
            if _over(desk, row):
                due[row.instance, claimant.id, row.outcome].append(row)
        else:
            call_off(desk, row, "it is in use again" if row.outcome == "idle" else "the rule applies no more")
    for (instance, reservation, rule), rows in due.items():
        if not busy(desk, instance):
            _take(desk, rows, desk.reservations.get(reservation), rule)


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


def _stands(desk: Desk, row: Assignment, claimant: Reservation) -> bool:
    """Whether the rule that it was warned by still gives the card to who waits for it.

    By another rule it is warned anew, with that one's grace and bounds: people are told what calls a warning off.
    """
    found = (unit for unit in units(desk.snapshot, need_of(desk, claimant)) if row.slot in unit.slots)
    return any(unit.rule == row.outcome or {unit.rule, row.outcome} <= words.FINAL for unit in found)


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


def _claim(desk: Desk, rows: list[Assignment], claimant: Reservation) -> Reservation:
    """The right to have as many cards of the same model again."""
    first, now = rows[0], desk.now
    bookings = desk.given.policy.rules.bookings
    until = max((row.until for row in rows if row.until), default=None)
    life = now + timedelta(seconds=bookings.claim_life_s)
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
        duration_s=max(1, int(((until or life) - now).total_seconds())),
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
