"""How many slots people and groups keep, against what they are guaranteed and may have; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

from lxgpu.model.assignment import KEPT, Assignment, AssignmentState
from lxgpu.model.gpu import Slot
from lxgpu.model.quota import Entitlement
from lxgpu.model.request import Need
from lxgpu.model.snapshot import Records, Snapshot
from lxgpu.policy import lookup
from lxgpu.policy.admission import entitlement
from lxgpu.policy.tables import once
from lxgpu.policy.tally import live_of, tally

_NOBODY: Mapping[str, int] = {}


@dataclass(frozen=True, slots=True)
class Cover:
    """Whose guarantee covers a need, in a sentence. `group` is empty where it is the asker's own."""

    why: str
    group: str = ""

    def lends(self, holder: str, groups: Collection[str], asker: str) -> bool:
        """Whether it gets a card back from a holder in those groups: whom it is for gains nothing by their own."""
        return self.group not in groups if self.group else holder != asker


class Guarantees:
    """One snapshot's count of who keeps what, seen by a reservation that looks for cards.

    A slot counts for its holder until it is being released or is promised to somebody else; what is promised to the
    reservation that looks may still stay where it is. Each person is counted when they are asked about.
    """

    def __init__(self, snapshot: Snapshot, reservation: str = "") -> None:
        self._snapshot = snapshot
        self._reservation = reservation
        records = snapshot.records
        self._kept = tally(records).kept
        self.owners = lookup.owners_by_instance(records.instances)
        self._by_card = lookup.by_card(records.assignments)
        self._entitled: dict[str, Entitlement] = {}
        self._over: dict[str, bool] = {}
        self._covers: dict[tuple[str, int], Cover | None] = {}
        self._groups: dict[str, tuple[int, int]] = {}
        self._floors: dict[tuple[str, str], dict[str, int]] = {}
        self.hits: dict[tuple[str, int], int] = {}
        """How often each person was hit within so many seconds, as far as it was asked."""
        self._promised_to = lookup.promised_to(records.assignments)

    def counts_for(self, snapshot: Snapshot) -> bool:
        """Whether this is the count of another look at the same tables, at the same moment."""
        mine = self._snapshot
        same = mine.records is snapshot.records and mine.past is snapshot.past and mine.policy is snapshot.policy
        return same and mine.now == snapshot.now and mine.unix_groups == snapshot.unix_groups

    def promised(self, slot: Slot) -> bool | None:
        """Whether a slot is promised to the reservation that looks; None: to nobody."""
        row = self._promise(slot)
        if row is None:
            return None
        return bool(self._reservation) and row.reservation == self._reservation

    def promises(self, slot: Slot) -> str:
        """The reservation that a slot is promised to, or an empty text."""
        row = self._promise(slot)
        return "" if row is None else row.reservation or ""

    def keeps(self, row: Assignment) -> bool:
        """Whether its holder has a slot and it is promised to nobody else."""
        return row.state in KEPT and self.promised(row.slot) is not False

    def entitled(self, person: str) -> Entitlement:
        """What a person may have now."""
        if person not in self._entitled:
            self._entitled[person] = entitlement(self._snapshot, person)
        return self._entitled[person]

    def had(self, person: str) -> Collection[Assignment]:
        """The live assignments of a person's instances, on all hosts."""
        return live_of(self._snapshot.records, person)

    def held(self, person: str) -> int:
        """How many slots a person keeps, on all hosts."""
        return self._kept.get(person, 0) - self._given_up.get(person, 0)

    def beyond(self, person: str) -> int:
        """How many slots a person keeps beyond their own guarantee; negative: so many below."""
        return self.held(person) - self.entitled(person).guaranteed

    def over_limit(self, person: str) -> int:
        """How many slots a person keeps beyond what they may hold now."""
        return max(0, self.held(person) - self.entitled(person).limit)

    def over(self, person: str) -> bool:
        """Whether a person, or a group of theirs, keeps more than they may hold now."""
        if person not in self._over:
            groups = self.entitled(person).groups
            self._over[person] = bool(self.over_limit(person)) or any(map(self.group_over_limit, groups))
        return self._over[person]

    def group_beyond(self, group: str) -> int:
        """How many slots a group's members keep together beyond its guarantee."""
        return self._group_held[group] - self._snapshot.policy.group_total(group, self._snapshot.now).guaranteed

    def group_over_limit(self, group: str) -> int:
        """How many slots a group's members keep together beyond its limit."""
        limit = self._snapshot.policy.group_total(group, self._snapshot.now).limit
        return 0 if limit is None else max(0, self._group_held[group] - limit)

    def floors(self, person: str, *, asker: str = "") -> dict[str, int]:
        """The guarantees that a person's loss counts against, with how many slots may go from under each.

        A group's counts beside the person's own, but not against its own members: the group keeps the card.
        """
        key = (person, asker)
        if key not in self._floors:
            self._floors[key] = self._counted_floors(person, asker)
        return self._floors[key]

    def _counted_floors(self, person: str, asker: str) -> dict[str, int]:
        shared = set(self.entitled(asker).groups) if asker else set()
        groups = [name for name in self.entitled(person).groups if name not in shared]
        guaranteed = {name for name in groups if self._snapshot.policy.group_total(name, self._snapshot.now).guaranteed}
        found = {f"person:{person}": max(0, self.beyond(person))}
        return {**found, **{f"group:{name}": max(0, self.group_beyond(name)) for name in sorted(guaranteed)}}

    def covers(self, need: Need) -> Cover | None:
        """Whose guarantee covers a need whole, with all that its owner and their groups have; None: nobody's.

        What is promised to the owner counts as had, for whatever it is promised.
        """
        key = (need.owner, max(0, need.gpus))
        if key not in self._covers:
            self._covers[key] = self._covered(*key)
        return self._covers[key]

    def _covered(self, person: str, gpus: int) -> Cover | None:
        entitled = self.entitled(person)
        had = self.held(person) + self._to_come_of.get(person, 0)
        if entitled.guaranteed and had + gpus <= entitled.guaranteed:
            why = f"{person} has {had}, asks for {gpus} more and is guaranteed {entitled.guaranteed}"
            return Cover(why)
        for name in entitled.groups:
            guaranteed, together = self._group(name)
            if guaranteed and together + gpus <= guaranteed:
                why = f"group {name} has {together}, {gpus} more are asked for, it is guaranteed {guaranteed}"
                return Cover(why, name)
        return None

    def _group(self, name: str) -> tuple[int, int]:
        """How many slots a group is guaranteed, and how many its members keep and are promised."""
        if name not in self._groups:
            guaranteed = self._snapshot.policy.group_total(name, self._snapshot.now).guaranteed
            to_come = sum(count for one, count in self._to_come_of.items() if name in self.entitled(one).groups)
            self._groups[name] = (guaranteed, self._group_held[name] + to_come)
        return self._groups[name]

    def _promise(self, slot: Slot) -> Assignment | None:
        rows = self._by_card.get(slot.gpu, ())
        return next((row for row in rows if row.slot == slot and row.state is AssignmentState.PLANNED), None)

    @cached_property
    def _given_up(self) -> Mapping[str, int]:
        """How many of the slots that each person still has are promised to others."""
        if not self._promised_to:
            return _NOBODY
        promised = {row.slot for rows in self._promised_to.values() for row in rows}
        holders = (row for slot in promised for row in self._by_card.get(slot.gpu, ()) if row.slot == slot)
        lost = (row for row in holders if row.state in KEPT and row.instance in self.owners and not self.keeps(row))
        return Counter(self.owners[row.instance] for row in lost)

    @cached_property
    def _to_come_of(self) -> Mapping[str, int]:
        if not self._promised_to:
            return _NOBODY
        count: Counter[str] = Counter()
        for name, rows in self._promised_to.items():
            if name in self.owners:
                count[self.owners[name]] += len(rows)
        return count

    @cached_property
    def _group_held(self) -> Counter[str]:
        count: Counter[str] = Counter()
        for person in self._kept:
            for name in self.entitled(person).groups:
                count[name] += self.held(person)
        return count


def ledger(snapshot: Snapshot, reservation: str) -> Guarantees:
    """The count as that reservation sees it: one for all to whom nothing is promised, and for all hosts."""
    if reservation in lookup.by_reservation(snapshot.records.assignments):
        return Guarantees(snapshot, reservation)
    known = _common(snapshot.records)
    if not (known and known[0].counts_for(snapshot)):
        known[:] = [Guarantees(snapshot)]
    return known[0]


@once
def _common(_records: Records) -> list[Guarantees]:
    """As seen by one to whom nothing is promised, at the latest moment that was asked about."""
    return []
