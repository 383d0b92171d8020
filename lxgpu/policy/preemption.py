"""Who may be taken for a need, by which rule and by when: held slots as units for `victims.cheapest`; pure.

The rules, the gentlest first: `expired` and `over_limit` (the title is gone, for anybody who waits), `idle`,
`booking_start` (granted after the booking was made), `within_guarantee` and `priority`. Minimum runtime and caps bind
the last two; nobody is taken below their guarantee but for being idle or expired.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from datetime import datetime, timedelta

from lxgpu.instants import format_utc, show_instant
from lxgpu.model.assignment import Assignment, AssignmentState
from lxgpu.model.quota import Policy
from lxgpu.model.request import Need
from lxgpu.model.reservation import Kind
from lxgpu.model.rules import DAY, IdleWhen, PriorityClass
from lxgpu.model.snapshot import Snapshot
from lxgpu.model.usage import NOT_JUDGED
from lxgpu.policy.classes import class_of
from lxgpu.policy.grounds import any_ground
from lxgpu.policy.guarantees import Cover, Guarantees, ledger
from lxgpu.policy.hits import FAIRNESS, hits
from lxgpu.policy.lookup import by_instance, by_reservation, reservations_by_id
from lxgpu.policy.stakes import Stake, stakes
from lxgpu.policy.tables import once_for_each
from lxgpu.policy.titles import beyond, over_limit
from lxgpu.policy.victims import Standing, Unit

ASAP = "asap"
"""The mark in `Reservation.told` of a request whose turn has come: it was not booked ahead."""
_SURPLUS = frozenset({"expired", "over_limit"})


@dataclass(frozen=True, slots=True)
class _Ground:
    """By which rule, with what was compared, in words and numbers."""

    rule: str
    why: str
    numbers: dict[str, object]


def units(snapshot: Snapshot, need: Need) -> tuple[Unit, ...]:
    """The units on this host that may be taken for a need and are ready in time, by id.

    A need whose `at` is not after now is wanted as soon as possible: for it every unit is in time whose grace can
    begin now, so that no minimum runtime stands in its way. What was warned for this need already is always in time.
    """
    return tuple(unit for unit in candidates(snapshot, need) if _in_time(snapshot, need, unit))


def soonest_warning(snapshot: Snapshot, need: Need) -> datetime | None:
    """When the first of those who cannot be taken yet may be warned for a need; None: nobody will by time alone."""
    begins = (unit.ready - timedelta(seconds=unit.lead_s) for unit in candidates(snapshot, need))
    return min((at for at in begins if at > snapshot.now), default=None)


def candidates(snapshot: Snapshot, need: Need) -> tuple[Unit, ...]:
    """The units that may be taken for a need sooner or later, by id; `ready` says when."""
    counted = ledger(snapshot, need.reservation)
    if not any_ground(snapshot, need, counted):
        return ()
    key, known = asked(snapshot, need, counted), _found(snapshot)
    if key not in known:
        judge = _Judge(snapshot, need, counted)
        known[key] = tuple(unit for stake in judge.stakes if (unit := judge.unit(stake)) is not None)
    return known[key]


@once_for_each
def _found(_snapshot: Snapshot) -> dict[Hashable, tuple[Unit, ...]]:
    """What may be taken, by all that it depends on: many wait who differ in nothing but how long they want cards."""
    return {}


def asked(snapshot: Snapshot, need: Need, counted: Guarantees) -> Hashable:
    """All of a need that says who may be taken for it: neither until when it is, nor whose it is who has nothing."""
    rows = snapshot.records.assignments
    return (
        need.owner,
        need.class_name,
        need.kind,
        need.pool,
        need.at,
        need.no_warning,
        counted.covers(need),
        _made_at(snapshot, need),
        need.instance if need.instance in by_instance(rows) else "",
        need.reservation if need.reservation in by_reservation(rows) else "",
    )


def lead_s(policy: Policy, class_name: str) -> int:
    """Seconds from the warning of a holder of that class to a slot that is proven free, at the longest."""
    return class_of(policy, class_name).grace_s + after_s(policy, class_name)


def after_s(policy: Policy, class_name: str) -> int:
    """Seconds from the end of the grace to a slot that is proven free, at the longest."""
    return class_of(policy, class_name).term_wait_s + policy.rules.preemption.fence_timeout_s


def _in_time(snapshot: Snapshot, need: Need, unit: Unit) -> bool:
    if unit.begun:
        return True
    at = need.at if need.at > snapshot.now else snapshot.now + timedelta(seconds=unit.lead_s)
    return unit.ready <= at


class _Judge:
    """The rules, asked of every stake in one snapshot."""

    def __init__(self, snapshot: Snapshot, need: Need, ledger: Guarantees) -> None:
        self.snapshot, self.need, self.ledger = snapshot, need, ledger
        self.stakes = stakes(snapshot, need, self.ledger)
        self._covered = self.ledger.covers(need)
        self._over = over_limit(self.stakes, self.ledger)
        self._beyond = beyond(self.stakes, self.ledger, asker=need.owner)
        self._made_at = _made_at(snapshot, need)

    def unit(self, stake: Stake) -> Unit | None:
        """The stake as a unit; None: no rule takes it."""
        ground = self._ground(stake)
        if ground is None:
            return None
        floors = self.ledger.floors(stake.owner, asker=self.need.owner)
        bound = ground.rule in FAIRNESS or ground.rule == "booking_start"
        if bound and min(floors.values()) < stake.size:
            return None
        classes = [self._class(row) for row in stake.rows]
        grace = 0 if self.need.no_warning else max(one.grace_s for one in classes)
        after = max(one.term_wait_s for one in classes) + self.snapshot.policy.rules.preemption.fence_timeout_s
        begun = [row for row in stake.taken if self._begun(row)]
        standing = self._standing(stake, ground.rule)
        return Unit(
            id=stake.id,
            instance=stake.instance,
            slots=tuple(row.slot for row in stake.taken),
            standing=standing,
            priority=max(one.priority for one in classes) if standing >= Standing.BUSY_BEYOND else 0,
            cards=len(stake.rows),
            weight=2 if self._hit(stake.owner, DAY) else 1,
            work_lost_s=stake.work_lost_s,
            held_s=stake.held_s,
            comes_back=round(1000 * self.snapshot.returns.get(stake.instance, 0.0)) if stake.idle else 0,
            ready=self._due(stake, ground.rule, begun, grace=grace, after=after) + timedelta(seconds=after),
            grace_s=grace,
            after_s=after,
            rule=ground.rule,
            why=ground.why,
            numbers=ground.numbers,
            begun=bool(begun),
            floors=tuple((key, most if bound else None) for key, most in floors.items()),
        )

    def _ground(self, stake: Stake) -> _Ground | None:
        """The gentlest rule that takes it. A claim never preempts: it gets what is expired."""
        now, zone = self.snapshot.now, self.snapshot.policy.zone
        if stake.expired and stake.ends is not None and not self._ended_by_a_jump(stake.ends):
            word = "ended" if stake.ends <= now else "ends"
            why = f"the time that it was lent for {word} at {show_instant(stake.ends, now=now, zone=zone)}"
            return _Ground("expired", why, {"until": format_utc(stake.ends)})
        if self.need.kind is Kind.RETURN:
            return None
        if stake.id in self._over:
            return self._over_ground(stake)
        if stake.idle and self.snapshot.policy.rules.idle.when is IdleWhen.NEEDED:
            verdict = self.snapshot.verdicts.get(stake.rows[0].slot, NOT_JUDGED)
            since = f" since {show_instant(verdict.since, now=now, zone=zone)}" if verdict.since else ""
            return _Ground("idle", f"idle{since}", {"idle_since": format_utc(verdict.since) if verdict.since else None})
        if self._booked_before(stake):
            return _Ground("booking_start", f"lent after {self.need.owner} had booked the time", {})
        return self._fairness(stake)

    def _ended_by_a_jump(self, end: datetime) -> bool:
        """Whether a lease is over because somebody set the clock: a booking alone, which has its time, trusts that."""
        moved = self.snapshot.clock_set
        return moved is not None and moved.before < end <= moved.at and self.need.kind is not Kind.BOOKING

    def _over_ground(self, stake: Stake) -> _Ground:
        held, limit = self.ledger.held(stake.owner), self.ledger.entitled(stake.owner).limit
        if held > limit:
            return _Ground(
                "over_limit", f"{stake.owner} holds {held} and may hold {limit}", {"held": held, "limit": limit}
            )
        return _Ground("over_limit", f"{stake.owner}'s group holds more than it may", {"held": held})

    def _fairness(self, stake: Stake) -> _Ground | None:
        """What minimum runtime and caps bind: the asker's guarantee, then the classes."""
        classes = [self._class(row) for row in stake.rows]
        if any(self._capped(stake.owner, one) for one in classes):
            return None
        asker = self.snapshot.policy.classes.get(self.need.class_name)
        dearest = max(classes, key=lambda one: one.priority)
        if self._covered and self._lends(stake, self._covered) and all(one.preemptible for one in classes):
            held, mine = self.ledger.held(stake.owner), self.ledger.entitled(stake.owner).guaranteed
            why = f"{self._covered.why}; {stake.owner} holds {held} and is guaranteed {mine}"
            return _Ground("within_guarantee", why, {"held": held, "guaranteed": mine})
        if asker is None or not all(one.yields_to(asker) for one in classes):
            return None
        why = f"class {dearest.name} ({dearest.priority}) yields to class {asker.name} ({asker.priority})"
        numbers: dict[str, object] = {"class": dearest.name, "priority": dearest.priority}
        return _Ground("priority", why, {**numbers, "for_class": asker.name, "for_priority": asker.priority})

    def _lends(self, stake: Stake, cover: Cover) -> bool:
        """Whether whom a guarantee is for gains anything by taking this one."""
        return cover.lends(stake.owner, self.ledger.entitled(stake.owner).groups, self.need.owner)

    def _booked_before(self, stake: Stake) -> bool:
        return self._made_at is not None and all(row.created_at >= self._made_at for row in stake.rows)

    def _standing(self, stake: Stake, rule: str) -> Standing:
        if stake.booked:
            return Standing.BOOKED
        if rule in _SURPLUS:
            return Standing.IDLE_SURPLUS if stake.idle else Standing.BUSY_SURPLUS
        if rule == "idle":
            return Standing.IDLE_BEYOND if stake.id in self._beyond else Standing.IDLE_WITHIN
        return Standing.BUSY_BEYOND

    def _due(self, stake: Stake, rule: str, begun: list[Assignment], *, grace: int, after: int) -> datetime:
        """The earliest end of the grace; what was warned already has its own."""
        now = self.snapshot.now
        told = [row.due_at for row in begun if row.due_at is not None]
        if told:
            return max(now, *told)
        due = now
        if rule in FAIRNESS or rule == "over_limit":
            runtimes = (_runtime_over(row, self._class(row)) for row in stake.rows)
            due = max(now, *runtimes)
        due += timedelta(seconds=grace)
        # One that is not over yet is ended so that the slot is free at its end, and no sooner.
        return max(due, stake.ends - timedelta(seconds=after)) if rule == "expired" and stake.ends else due

    def _begun(self, row: Assignment) -> bool:
        return row.state is AssignmentState.WARNED and self.ledger.promised(row.slot) is True

    def _class(self, row: Assignment) -> PriorityClass:
        """The class of an assignment, or else of its holder."""
        classes = self.snapshot.policy.classes
        if row.class_name in classes:
            return classes[row.class_name]
        return class_of(self.snapshot.policy, self.ledger.entitled(self.ledger.owners[row.instance]).class_name)

    def _capped(self, person: str, chosen: PriorityClass) -> bool:
        cap = chosen.max_preemptions
        return cap is not None and self._hit(person, cap.window_s) >= cap.amount

    def _hit(self, person: str, window_s: int) -> int:
        known = self.ledger.hits
        if (person, window_s) not in known:
            known[person, window_s] = hits(self.snapshot, person, window_s=window_s, ledger=self.ledger)
        return known[person, window_s]


def _made_at(snapshot: Snapshot, need: Need) -> datetime | None:
    """When the booking was made that needs the cards; a request whose turn has come was not booked."""
    booking = reservations_by_id(snapshot.records.reservations).get(need.reservation)
    if booking is None or booking.kind is not Kind.BOOKING or booking.told.get(ASAP):
        return None
    return booking.created_at


def _runtime_over(row: Assignment, chosen: PriorityClass) -> datetime:
    begin = row.since or row.created_at
    return begin + timedelta(seconds=chosen.min_runtime_s)
