"""Whether there is any ground at all to take cards of a host for a need: a quick look that spares the long one; pure.

It may say yes where there is nothing to take, and never says no where there is: tests hold it against the long look.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from lxgpu.model.assignment import ATTACHED, Assignment, AssignmentState
from lxgpu.model.quota import Policy
from lxgpu.model.request import Need
from lxgpu.model.reservation import Kind
from lxgpu.model.snapshot import Snapshot
from lxgpu.policy.classes import class_of
from lxgpu.policy.guarantees import Guarantees
from lxgpu.policy.lookup import by_card, owners_by_instance, reservations_by_id
from lxgpu.policy.tables import once_for_each


@dataclass(frozen=True, slots=True)
class Holders:
    """Those who hold a host's cards: when the first one's time ends, whether any is idle, their classes and people."""

    ends: datetime | None
    idle: bool
    classes: frozenset[str]
    people: frozenset[str]


def any_ground(snapshot: Snapshot, need: Need, ledger: Guarantees) -> bool:
    """Whether a holder's time is over by then, one is idle or over a limit, or the need goes before one."""
    there = holders(snapshot)
    if there.ends is not None and there.ends <= max(need.at, snapshot.now):
        return True
    if need.kind is Kind.RETURN or not there.people:
        return False
    return (
        there.idle
        or need.kind is Kind.BOOKING
        or _goes_before(snapshot.policy, need, there)
        or any(map(ledger.over, there.people))
        or bool(ledger.covers(need))
    )


def within_reach(snapshot: Snapshot, need: Need, ledger: Guarantees) -> int:
    """How many cards of the host might be taken in time for a need at most, by whatever ground."""
    if need.no_warning or need.at <= snapshot.now or need.kind is Kind.BOOKING:
        return len(snapshot.seen.gpus)
    known: dict[tuple[str, str], tuple[bool, bool]] = {}
    count = 0
    for one in _held(snapshot):
        who = (ledger.owners.get(one.row.instance, ""), one.row.class_name)
        if who not in known:
            known[who] = _may_yield(snapshot, need, ledger, *who)
        anyway, fairly = known[who]
        count += one.soon <= need.at or anyway or (fairly and one.fairly <= need.at)
    return count


@dataclass(frozen=True, slots=True)
class _Held:
    """A card that is held: when it could be free because its time is over or it is idle, and when by fairness."""

    row: Assignment
    soon: datetime
    fairly: datetime


def _may_yield(snapshot: Snapshot, need: Need, ledger: Guarantees, owner: str, class_name: str) -> tuple[bool, bool]:
    """Whether cards that somebody has in a class might go for a need: for a limit, and for fairness in its time.

    A stake of several cards asks for more.
    """
    if not owner:
        return False, False
    if ledger.over(owner):
        return True, True
    if min(ledger.floors(owner, asker=need.owner).values()) < 1:
        return False, False
    asker, cover = snapshot.policy.classes.get(need.class_name), ledger.covers(need)
    by_class = asker is not None and class_of(snapshot.policy, class_name).yields_to(asker)
    return False, by_class or (cover is not None and cover.lends(owner, ledger.entitled(owner).groups, need.owner))


@once_for_each
def _held(snapshot: Snapshot) -> Sequence[_Held]:
    """Who holds the host's cards. One that is warned already, or is of no known class, might go at any time."""
    policy, now = snapshot.policy, snapshot.now
    had, known = by_card(snapshot.records.assignments), reservations_by_id(snapshot.records.reservations)
    found = []
    for row in (row for gpu in snapshot.seen.gpus for row in had.get(gpu.uuid, ()) if row.state in ATTACHED):
        verdict, booking = snapshot.verdicts.get(row.slot), known.get(row.reservation or "")
        chosen = policy.classes.get(row.class_name)
        end = row.until or (booking.until if booking else None) or datetime.max.replace(tzinfo=UTC)
        if chosen is None or row.state is AssignmentState.WARNED or (verdict and verdict.takeable(now)):
            found.append(_Held(row, now, now))
            continue
        lead = chosen.grace_s + chosen.term_wait_s + policy.rules.preemption.fence_timeout_s
        runtime_over = (row.since or row.created_at) + timedelta(seconds=chosen.min_runtime_s)
        found.append(_Held(row, end, max(now, runtime_over) + timedelta(seconds=lead)))
    return found


@once_for_each
def holders(snapshot: Snapshot) -> Holders:
    """Those who hold the host's cards and could give them up."""
    had, known = by_card(snapshot.records.assignments), reservations_by_id(snapshot.records.reservations)
    owners, verdicts = owners_by_instance(snapshot.records.instances), snapshot.verdicts
    rows = [row for gpu in snapshot.seen.gpus for row in had.get(gpu.uuid, ()) if row.state in ATTACHED]
    booked = [known.get(row.reservation) if row.reservation else None for row in rows]
    ends = [row.until or (booking.until if booking else None) for row, booking in zip(rows, booked, strict=True)]
    judged = (verdicts.get(row.slot) for row in rows) if verdicts else ()
    return Holders(
        ends=min((end for end in ends if end is not None), default=None),
        idle=any(verdict.takeable(snapshot.now) for verdict in judged if verdict is not None),
        classes=frozenset({row.class_name for row in rows}),
        people=frozenset({owners[row.instance] for row in rows if row.instance in owners}),
    )


def _goes_before(policy: Policy, need: Need, there: Holders) -> bool:
    """By priority; a class that the policy does not have says nothing of its holder's."""
    asker = policy.classes.get(need.class_name)
    if asker is None:
        return False
    return any(name not in policy.classes or policy.classes[name].yields_to(asker) for name in there.classes)
