"""Idle cards kept by hand: a bounded amount for each person, told each time. Pure.

A keep protects idle cards from those who wait, as a lease in use does; it never delays a booking.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from lxgpu.instants import show_instant
from lxgpu.model.assignment import KEPT
from lxgpu.model.plan import Plan, PlannedStep, Reason, Verdict
from lxgpu.model.reservation import Keep, Kind
from lxgpu.model.rules import Allowance
from lxgpu.model.snapshot import Snapshot
from lxgpu.units import format_duration, short_duration


@dataclass(frozen=True, slots=True)
class Kept:
    """What a keep comes to: the plan, the row to write when it is granted, and what is left in seconds after it.

    Refused, `left_s` is what could still be had.
    """

    plan: Plan
    left_s: int
    row: Keep | None = None


def decide_keep(snapshot: Snapshot, instance: str, *, seconds: int, reason: str, identifier: str) -> Kept:
    """So many seconds from now in which an instance's idle cards are left alone; a running keep is made longer.

    Codes: `not_held`, `over_keep`.
    """
    now, allowance = snapshot.now, snapshot.policy.rules.idle.keep
    owner = next((row.owner for row in snapshot.records.instances if row.name == instance), instance)
    held = [row for row in snapshot.records.held_by(instance) if row.state in KEPT]
    current = current_keep(snapshot.records.keeps, instance, now)
    until = now + timedelta(seconds=seconds)
    if current is not None:
        until = max(until, current.until)
    mine = [row for row in snapshot.records.keeps if row.person == owner]
    left = left_s(mine, allowance, now=now, until=until)
    added = int((until - (current.until if current else now)).total_seconds())
    if not held:
        return Kept(_refused("not_held", f"{instance} holds no GPU"), left)
    if added > left:
        most = f"{format_duration(allowance.amount)} in any {format_duration(allowance.window_s)}"
        text = f"idle cards may be kept for {most}, and {short_duration(left) if left else 'nothing'} of it is left"
        return Kept(_refused("over_keep", text), left)
    row = Keep(identifier, instance, owner, now, until, reason)
    if current is not None:
        row = replace(current, until=until, reason=reason)
    steps = [PlannedStep("keep", instance, one.slot.gpu, until, reason) for one in held]
    why = (
        f"{short_duration(left - added) if left > added else 'nothing'} is left of {format_duration(allowance.amount)}"
    )
    plan = Plan(Verdict.GRANTED, (Reason("kept", why),), tuple(steps), when=until)
    return Kept(plan, left - added, row)


def current_keep(keeps: Iterable[Keep], instance: str, now: datetime) -> Keep | None:
    """The keep that holds now."""
    return next((row for row in keeps if row.instance == instance and row.since <= now < row.until), None)


def left_s(keeps: Iterable[Keep], allowance: Allowance, *, now: datetime, until: datetime | None = None) -> int:
    """Seconds that a person may still keep cards, given all their keeps; `until` is the end of the one asked for.

    What counts is the window that ends when the keep would.
    """
    begin = (until or now) - timedelta(seconds=allowance.window_s)
    used = sum(max(0.0, (row.until - max(row.since, begin)).total_seconds()) for row in keeps)
    return max(0, int(allowance.amount - used))


def booked_soon(snapshot: Snapshot, instance: str, until: datetime) -> datetime | None:
    """When the first booking begins that a keep until then does not hold off; None: there is none.

    A card that is promised to a booking, or a booking of others of the same model that begins before `until`.
    """
    mine = [row for row in snapshot.records.held_by(instance) if row.state in KEPT]
    models = {card.model for row in mine if (card := snapshot.records.card(row.slot.gpu)) is not None}
    starts = [
        row.start
        for row in snapshot.records.reservations
        if row.kind is Kind.BOOKING
        and row.pending
        and row.instance != instance
        and row.pool in models
        and row.start is not None
        and row.start < until
    ]
    return min(starts, default=None)


def told_soon(snapshot: Snapshot, at: datetime) -> str:
    """The words for that."""
    return (
        f"a booking that begins at {show_instant(at, now=snapshot.now, zone=snapshot.policy.zone)} may still need them"
    )


def _refused(code: str, text: str) -> Plan:
    return Plan(Verdict.REFUSED, (Reason(code, text),))
