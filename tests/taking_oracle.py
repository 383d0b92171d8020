"""What must hold of every transaction of lending: a judge beside the inventory, with rules of its own.

`Judged` stands around an inventory; after each commit it compares before and after. What is wrong is kept in `wrong`
as sentences. It knows the truth of the fakes through `Truth`, and nothing of the policy's code but its values.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from lxgpu.inventory.memory import MemoryInventory, MemoryTx
from lxgpu.model.assignment import Assignment, AssignmentState
from lxgpu.model.gpu import Gpu, Slot, card_of, is_part
from lxgpu.model.quota import Entitlement, Policy
from lxgpu.model.reservation import Kind, Reservation, ReservationState
from lxgpu.model.rules import PriorityClass
from lxgpu.model.snapshot import Records
from lxgpu.model.usage import Sample, Use

S, R = AssignmentState, ReservationState
KEPT = frozenset({S.ATTACHING, S.ACTIVE, S.WARNED})
PROMISED = frozenset({R.SCHEDULED, R.PREPARING, R.ACTIVE})
FAIRNESS = frozenset({"within_guarantee", "priority"})
BOUND = FAIRNESS | {"booking_start"}
RULES = BOUND | {"expired", "over_limit", "idle"}
NEXT: dict[S | None, frozenset[S | None]] = {
    None: frozenset({S.PLANNED, S.ATTACHING}),
    S.PLANNED: frozenset({S.ATTACHING, None}),
    S.ATTACHING: frozenset({S.ACTIVE, S.RELEASING}),
    S.ACTIVE: frozenset({S.WARNED, S.RELEASING}),
    S.WARNED: frozenset({S.ACTIVE, S.RELEASING}),
    S.RELEASING: frozenset({S.QUARANTINED, None}),
    S.QUARANTINED: frozenset({S.RELEASING, None}),
}
NEXT_OF_RESERVATION: dict[R | None, frozenset[R]] = {
    None: frozenset({R.WAITING, R.SCHEDULED, R.PREPARING}),
    R.WAITING: frozenset({R.SCHEDULED, R.PREPARING, R.ACTIVE, R.CANCELLED}),
    R.SCHEDULED: frozenset({R.PREPARING, R.ACTIVE, R.WAITING, R.CANCELLED, R.FAILED}),
    R.PREPARING: frozenset({R.ACTIVE, R.WAITING, R.CANCELLED, R.FAILED, R.FINISHED}),
    R.ACTIVE: frozenset({R.FINISHED, R.MISSED, R.CANCELLED}),
}


@dataclass(frozen=True, slots=True)
class Hit:
    """A card that somebody lost for another's sake: when, to which reservation, after how many seconds."""

    at: datetime
    owner: str
    cause: str
    class_name: str
    held_s: float


@dataclass(slots=True)
class Truth:
    """The world as it is, whoever looks: cards that answer and work, and whose command is being carried out."""

    policy: Callable[[], Policy]
    use: Callable[[str], Use]
    sick: Callable[[str], bool]
    lent: Callable[[], Iterable[Gpu]]
    boot: Callable[[], str]
    by_hand: set[str] = field(default_factory=set)


class Judged:
    """`ports.Inventory` around one in memory, with a judge."""

    def __init__(self, inner: MemoryInventory, truth: Truth) -> None:
        self.inner = inner
        self.truth = truth
        self.wrong: list[str] = []
        self.seen: dict[str, list[tuple[datetime, Use]]] = defaultdict(list)
        self.used: set[str] = set()
        self.capacity: dict[str, int] = {}
        self.hits: list[Hit] = []
        self.proofs: dict[Slot, int] = {}
        self._warnings: dict[str, tuple[str, str]] = {}
        self._known = inner.read()

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)

    @contextmanager
    def write(self, *, actor: str, now: datetime, expected: int | None = None) -> Iterator[MemoryTx]:
        """A write transaction, judged when it is there."""
        with self.inner.write(actor=actor, now=now, expected=expected) as tx:
            yield tx
        before, after = self._known, self.inner.read()
        if after.version != before.version:
            self._known = after
            _Judge(self, before, after, now).judge()

    def add_samples(self, found: Iterable[Sample]) -> None:
        """Keeps a batch of readings, with the truth of that moment beside it."""
        found = tuple(found)
        self.inner.add_samples(found)
        records = self._known
        begun = {row.id: row for row in records.reservations if row.state is R.ACTIVE}
        for sample in found:
            use = self.truth.use(sample.uuid)
            self.seen[sample.uuid].append((sample.at, use))
            row = records.holder(Slot(sample.uuid))
            booking = begun.get(row.reservation or "") if row else None
            if booking is not None and booking.start and booking.start < sample.at and use is not Use.IDLE:
                self.used.add(booking.id)

    def warned_by(self, row: Assignment, about: str, notice: str) -> None:
        """Remember which notice warned of the loss of a slot."""
        self._warnings[row.id] = (about, notice)

    def told(self, row: Assignment) -> bool:
        """Whether the notice that warned of a loss was tried."""
        about, notice = self._warnings.get(row.id, ("", ""))
        return any(one.id == notice and one.sent for one in self.inner.notices_about(about))


class _Judge:
    """One commit."""

    def __init__(self, inventory: Judged, before: Records, after: Records, now: datetime) -> None:
        self.inventory, self.before, self.after, self.now = inventory, before, after, now
        self.truth, self.policy = inventory.truth, inventory.truth.policy()
        self.owners = {row.name: row.owner for row in (*before.instances, *after.instances)}
        self.was = {row.id: row for row in before.assignments}
        self.is_ = {row.id: row for row in after.assignments}

    def wrong(self, text: str) -> None:
        self.inventory.wrong.append(f"{self.now:%H:%M:%S.%f} {text}")

    def judge(self) -> None:
        """Every row that changed."""
        self._slots()
        if self.before.assignments is not self.after.assignments:
            self._unique()
            for identifier in self.was.keys() | self.is_.keys():
                old, new = self.was.get(identifier), self.is_.get(identifier)
                if (old and old.state) is not (new and new.state):
                    self._moved(old, new)
        if self.before.reservations is not self.after.reservations:
            self._reservations()

    # ---- slots and assignments

    def _slots(self) -> None:
        """What came last at each slot, a detach or a proof; clocks may be set back."""
        for row in self.after.slots:
            old = self.before.slot(row.slot)
            if old is None or old.detached_at != row.detached_at:
                self.inventory.proofs.pop(row.slot, None)
            if row.proven_at is not None and (old is None or old.proven_at != row.proven_at):
                self.inventory.proofs[row.slot] = self.after.version

    def _unique(self) -> None:
        for what, rows in (
            ("holders", [row for row in self.after.assignments if row.live]),
            ("successors", [row for row in self.after.assignments if row.state is S.PLANNED]),
        ):
            if len({row.slot for row in rows}) != len(rows):
                self.wrong(f"a slot has two {what}")

    def _moved(self, old: Assignment | None, new: Assignment | None) -> None:
        row = new or old
        assert row is not None
        what = f"{row.instance} {row.slot} {old and old.state.value} -> {new and new.state.value}"
        if (new and new.state) not in NEXT[old and old.state]:
            self.wrong(f"{what}: no such step")
        elif new is None and old is not None and old.state is not S.PLANNED:
            self._proven(row, what)
        elif new is not None and new.state is S.ATTACHING:
            self._handed(new, what)
        elif new is not None and new.state is S.ACTIVE and old is not None and old.state is S.ATTACHING:
            self._proven(row, what)
        elif new is not None and new.state is S.WARNED:
            self._warned(new, what)
        elif new is not None and new.state is S.RELEASING and old is not None and old.state in {S.ACTIVE, S.WARNED}:
            self._taken(old, new, what)

    def _proven(self, row: Assignment, what: str) -> None:
        record = self.after.slot(row.slot)
        if record is None or record.proven_at is None or record.boot_id != self.truth.boot():
            self.wrong(f"{what} without a proof")
        elif record.detached_at and record.proven_at < record.detached_at and row.slot not in self.inventory.proofs:
            self.wrong(f"{what} with a proof older than the last detach")

    def _handed(self, new: Assignment, what: str) -> None:
        """A card on its way to somebody: it answers, is in service, and comes with all others of its reservation."""
        card, record = self.after.card(new.slot.card), self.after.slot(new.slot)
        if self.truth.sick(new.slot.gpu):
            self.wrong(f"{what}: nobody can read the card")
        if (card is not None and card.closed) or (record is not None and record.quarantine):
            self.wrong(f"{what}: the card is out of service")
        if new.since is None:
            self.wrong(f"{what}: since when?")
        booking = self.after.reservation(new.reservation)
        if new.reservation and booking is not None:
            mine = sum(row.reservation == booking.id and row.state in KEPT for row in self.after.assignments)
            if mine != booking.gpus:
                self.wrong(f"{what}: {mine} of {booking.gpus} cards")

    def _warned(self, row: Assignment, what: str) -> None:
        rule, what = row.outcome, f"{what} ({row.outcome})"
        if rule == "no_show":
            self._missed(row, what)
            return
        promise = self.after.successor(row.slot)
        claimant = self.after.reservation(promise.reservation) if promise else None
        if rule not in RULES or row.due_at is None or claimant is None or not claimant.pending:
            self.wrong(f"{what}: rule {rule!r}, due {row.due_at}, for {claimant}")
            return
        told = [one for one in self.after.notices if one.kind == "warned" and row.slot.gpu in one.facts["gpus"]]
        told = [one for one in told if one.instance == row.instance and one.created_at == self.now]
        if not told:
            self.wrong(f"{what}: nobody is told")
            return
        self.inventory.warned_by(row, told[0].about, told[0].id)
        chosen = self._class(row)
        if row.due_at < self.now + timedelta(seconds=chosen.grace_s) and not claimant.no_warning:
            self.wrong(f"{what}: no grace")
        if claimant.kind is Kind.RETURN and rule != "expired":
            self.wrong(f"{what}: a claim preempts")
        self._immune(row, claimant, row.due_at, what)
        self._by_its_rule(row, chosen, claimant, what)

    def _by_its_rule(self, row: Assignment, chosen: PriorityClass, claimant: Reservation, what: str) -> None:
        rule = row.outcome
        if (
            rule == "expired"
            and not claimant.no_warning
            and (row.until is None or row.due_at is None or row.until > row.due_at)
        ):
            self.wrong(f"{what}: its time lasts until {row.until}")
        if rule == "idle":
            self._idle(row, what)
        if rule == "over_limit" and self._kept(self.before, row) <= self._entitled(row).limit:
            self.wrong(f"{what}: it is within the limit")
        if rule in BOUND:
            self._floor(row, what, {S.WARNED, S.RELEASING})
        if rule in FAIRNESS:
            self._fair(row, chosen, claimant, what)

    def _fair(self, row: Assignment, chosen: PriorityClass, claimant: Reservation, what: str) -> None:
        since = row.since or row.created_at
        if row.due_at is not None and row.due_at < since + timedelta(seconds=chosen.min_runtime_s):
            self.wrong(f"{what}: before its minimum runtime is over")
        if not chosen.preemptible:
            self.wrong(f"{what}: class {chosen.name} is not preemptible")
        asker = self.policy.classes.get(claimant.class_name)
        if row.outcome == "priority" and (asker is None or asker.priority <= chosen.priority):
            self.wrong(f"{what}: by {claimant.class_name}")
        cap = chosen.max_preemptions
        if cap is not None:
            owner = self.owners[row.instance]
            begin = self.now - timedelta(seconds=cap.window_s)
            hits = {one.cause for one in self.inventory.hits if one.owner == owner and one.at > begin}
            hits |= {
                one.reservation
                for held in self.before.assignments
                if held.state is S.WARNED and held.outcome in FAIRNESS and self.owners[held.instance] == owner
                if (one := self.before.successor(held.slot)) and one.reservation != claimant.id
            }
            if len(hits) >= cap.amount:
                self.wrong(f"{what}: hit {len(hits)} times already")

    def _taken(self, old: Assignment, new: Assignment, what: str) -> None:
        if new.instance in self.truth.by_hand:
            return
        what = f"{what} ({old.outcome or new.outcome})"
        if old.state is S.ACTIVE:
            self.wrong(f"{what}: without a warning")
            return
        if old.due_at is None or old.due_at > self.now:
            self.wrong(f"{what}: its grace lasts until {old.due_at}")
        if not self.inventory.told(old):
            self.wrong(f"{what}: the warning was not tried")
        if old.outcome == "no_show":
            return
        promise = self.before.successor(old.slot)
        claimant = self.before.reservation(promise.reservation) if promise else None
        if claimant is None:
            self.wrong(f"{what}: for nobody")
            return
        self._immune(old, claimant, self.now, what)
        if old.outcome == "expired" and not claimant.no_warning and (old.until is None or old.until > self.now):
            self.wrong(f"{what}: its time lasts until {old.until}")
        if old.outcome in BOUND:
            self._floor(old, what, {S.RELEASING})
            self._needless(claimant, what)
        if old.outcome in FAIRNESS:
            held_s = (self.now - (old.since or old.created_at)).total_seconds()
            hit = Hit(self.now, self.owners[old.instance], claimant.id, old.class_name, held_s)
            self.inventory.hits.append(hit)

    def _needless(self, claimant: Reservation, what: str) -> None:
        """Nobody yields while as many cards lie free and promised to nobody."""
        busy = {row.slot.gpu for row in self.after.assignments}
        shared = {row.slot.card for row in self.after.assignments if row.instance == claimant.instance}
        free = [uuid for uuid in self._lendable(claimant.pool) if uuid not in busy]
        free = [uuid for uuid in free if not is_part(uuid) or card_of(uuid) not in shared]
        gone = [
            row for row in self.after.assignments if row.state is S.RELEASING and self.was[row.id].state is S.WARNED
        ]
        others = any(row.state is R.PREPARING and row.id != claimant.id for row in self.after.reservations)
        if len([uuid for uuid in free if not self.truth.sick(uuid)]) >= len(gone) and not others:
            self.wrong(f"{what}: {free} lie free")

    def _missed(self, row: Assignment, what: str) -> None:
        """A booking that nobody came to, and whose time to come is over."""
        booking = self.inventory.inner.reservation(row.reservation or "")
        told = [one for one in self.after.notices if one.kind == "booking_missed" and one.about == row.reservation]
        if booking is None or booking.state is not R.MISSED or booking.start is None or not told:
            self.wrong(f"{what}: without a missed booking")
            return
        self.inventory.warned_by(row, told[0].about, told[0].id)
        if booking.id in self.inventory.used:
            self.wrong(f"{what}: it was used, or nobody knows")
        if booking.start + timedelta(seconds=self.policy.rules.bookings.no_show_s) > self.now:
            self.wrong(f"{what}: too soon")

    def _immune(self, row: Assignment, claimant: Reservation, at: datetime, what: str) -> None:
        booking = self.after.reservation(row.reservation)
        if booking is None or booking.kind is not Kind.BOOKING or booking.soft or claimant.no_warning:
            return
        if booking.state in {R.ACTIVE, R.PREPARING} and booking.until is not None and booking.until > at:
            self.wrong(f"{what}: its booking lasts until {booking.until}")

    def _idle(self, row: Assignment, what: str) -> None:
        begin = max(self.now - timedelta(seconds=self.policy.rules.idle.window_s), row.since or row.created_at)
        seen = [use for at, use in self.inventory.seen[row.slot.gpu] if begin < at <= self.now]
        if Use.BUSY in seen or not seen or seen[-1] is not Use.IDLE:
            self.wrong(f"{what}: it was {[use.value for use in seen]}")

    def _floor(self, row: Assignment, what: str, gone: set[S]) -> None:
        """What its owner keeps, with what goes now by other rules than fairness, is not below the guarantee."""
        owner, guaranteed = self.owners[row.instance], self._entitled(row).guaranteed
        others = sum(
            one.state in gone and one.outcome not in BOUND | {"preempted"}
            for one in self.after.assignments
            if self.owners[one.instance] == owner and (old := self.was.get(one.id)) and old.state is not one.state
        )
        kept = self._kept(self.after, row)
        if kept + others < guaranteed:
            self.wrong(f"{what}: {owner} keeps {kept} and is guaranteed {guaranteed}")

    def _kept(self, records: Records, row: Assignment) -> int:
        """How many slots their owner has, and goes on having."""
        owner = self.owners[row.instance]
        return sum(
            one.state in KEPT and not (one.state is S.WARNED and records.successor(one.slot))
            for one in records.assignments
            if self.owners.get(one.instance) == owner
        )

    def _entitled(self, row: Assignment) -> Entitlement:
        owner = self.owners[row.instance]
        return self.policy.entitlement(owner, self.policy.groups_of(owner, ()), self.now)

    def _class(self, row: Assignment) -> PriorityClass:
        return self.policy.classes[row.class_name or self._entitled(row).class_name]

    # ---- reservations

    def _reservations(self) -> None:
        was = {row.id: row for row in self.before.reservations}
        now = {row.id: row for row in self.after.reservations}
        changed = False
        for identifier in was.keys() | now.keys():
            old = was.get(identifier)
            new = now.get(identifier) or self.inventory.inner.reservation(identifier)
            if old == new or new is None:
                continue
            what = f"{new.kind.value} {identifier} of {new.instance}: {old and old.state.value} -> {new.state.value}"
            if (old and old.state) is not new.state:
                if new.state not in NEXT_OF_RESERVATION.get(old and old.state, frozenset()):
                    self.wrong(f"{what}: no such step")
                if new.state is R.ACTIVE:
                    self._begun(new, what)
            if new.kind is Kind.RETURN:
                self._claim(old, new, what)
            if _promised(new) and not (old is not None and _promised(old) and _within(new, old)):
                self.inventory.capacity[identifier] = 99 if new.no_warning else self._in_service(new.pool)
                changed = True
        if changed:
            self._over_commit()

    def _begun(self, new: Reservation, what: str) -> None:
        there = [row for row in self.after.assignments if row.reservation == new.id and row.state in KEPT]
        if sum(row.state is not S.ATTACHING for row in there) < new.gpus:
            self.wrong(f"{what} with {[row.state.value for row in there]} of {new.gpus}")

    def _claim(self, old: Reservation | None, new: Reservation, what: str) -> None:
        if old is None:
            gone = [
                row.slot
                for row in self.after.assignments
                if row.instance == new.instance and row.state is S.RELEASING and self.was[row.id].state is S.WARNED
            ]
            if new.gpus > len(gone) or not set(new.preferred) <= set(gone):
                self.wrong(f"{what}: {new.gpus} cards, taken were {len(gone)}")
        elif new.gpus > old.gpus:
            self.wrong(f"{what}: it grew to {new.gpus}")

    def _in_service(self, pool: str) -> int:
        return len(self._lendable(pool))

    def _lendable(self, pool: str) -> list[str]:
        """The cards, or parts of cards, of a model that are in service."""
        closed = {card.uuid for card in self.after.cards if card.closed}
        out = closed | {row.slot.gpu for row in self.after.slots if row.quarantine}
        return [gpu.uuid for gpu in self.truth.lent() if gpu.model == pool and out.isdisjoint((gpu.uuid, gpu.card))]

    def _over_commit(self) -> None:
        rows = [row for row in self.after.reservations if _promised(row) and row.start and row.until]
        for row in rows:
            at = _from(row)
            there = [one for one in rows if one.pool == row.pool and _from(one) <= at < one.until]
            most = max((self.inventory.capacity.get(one.id, 0) for one in there), default=0)
            total = sum(one.gpus for one in there)
            if total > most:
                text = ", ".join(f"{one.id} of {one.instance} {one.gpus}" for one in there)
                self.wrong(f"{total} of {most} cards of {row.pool} are booked at {at}: {text}")


def _promised(row: Reservation) -> bool:
    """Whether cards are promised to it for its time."""
    return row.kind is Kind.BOOKING and row.state in PROMISED and not row.soft


def _within(new: Reservation, old: Reservation) -> bool:
    """Whether a booking asks for nothing that it had not: fewer cards need no room, whatever is out of service."""
    assert new.until is not None
    assert old.until is not None
    return new.gpus <= old.gpus and _from(new) >= _from(old) and new.until <= old.until


def _from(row: Reservation) -> datetime:
    """When a booking has its cards; one that was not made ahead has them when those who must yield are gone."""
    assert row.start is not None
    assert row.until is not None
    late = row.state is R.PREPARING and row.told.get("asap")
    return max(row.start, row.until - timedelta(seconds=row.duration_s)) if late else row.start
