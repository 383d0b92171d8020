"""Who has how many cards, counted once for each state of the tables. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from lxgpu.model.assignment import KEPT, LIVE, Assignment, AssignmentState
from lxgpu.model.instance import Instance
from lxgpu.model.snapshot import Records
from lxgpu.policy.lookup import owners_by_instance
from lxgpu.policy.tables import Key, Once, once

Moved = tuple[Assignment | None, Assignment | None]
"""A row as it was and as it is; None: it was, or is, not there."""
_HAD = (LIVE | {AssignmentState.PLANNED}) - {AssignmentState.QUARANTINED}


class Tally:
    """What people hold and are promised; what an instance had that is gone counts for the person of its name.

    `had` counts slots by person, `had_in` by person and class; one in quarantine is nobody's. `kept` counts those that
    are kept for now, of instances that are known.
    """

    def __init__(self, owners: Mapping[str, str], before: Tally | None = None) -> None:
        self.owners = owners
        self.had: Counter[str] = before.had.copy() if before else Counter()
        self.had_in: Counter[tuple[str, str]] = before.had_in.copy() if before else Counter()
        self.kept: Counter[str] = before.kept.copy() if before else Counter()

    def after(self, moved: Iterable[Moved], owners: Mapping[str, str]) -> Tally:
        """The count after some rows became others, or other people's."""
        count = Tally(owners, self)
        for before, after in moved:
            if before is not None:
                count.owners = self.owners
                count._count(before, -1)
            if after is not None:
                count.owners = owners
                count._count(after, 1)
        return count

    def _count(self, row: Assignment, number: int) -> None:
        person = self.owners.get(row.instance, row.instance)
        if row.state in _HAD:
            _add(self.had, person, number)
            _add(self.had_in, (person, row.class_name), number)
        if row.state in KEPT and row.instance in self.owners:
            _add(self.kept, person, number)


def _add(count: Counter[Key], key: Key, number: int) -> None:
    """Who has nothing is in no count."""
    count[key] += number
    if not count[key]:
        del count[key]


_NOTHING = Tally({})


def tally(records: Records) -> Tally:
    """The count of these tables, which depends on who holds what and on whose the instances are."""
    return _counts(records.assignments)(records.instances)


def recount(before: Records, after: Records, moved: Iterable[Moved]) -> None:
    """Hand the count on to tables in which some assignments became others, or their instances."""
    known = _counts(before.assignments).known(before.instances)
    if known is not None:
        count = known.after(moved, owners_by_instance(after.instances))
        _counts(after.assignments).remember(after.instances, count)


def live_of(records: Records, person: str) -> Sequence[Assignment]:
    """The assignments that take a slot and are a person's, on all hosts."""
    return _live(records.assignments)(records.instances).get(person, ())


@once
def _counts(rows: tuple[Assignment, ...]) -> Once[tuple[Instance, ...], Tally]:
    return Once(lambda instances: _NOTHING.after(((None, row) for row in rows), owners_by_instance(instances)))


@once
def _live(rows: tuple[Assignment, ...]) -> Once[tuple[Instance, ...], Mapping[str, Sequence[Assignment]]]:
    return Once(lambda instances: _by_person(rows, owners_by_instance(instances)))


def _by_person(rows: Iterable[Assignment], owners: Mapping[str, str]) -> Mapping[str, Sequence[Assignment]]:
    found: defaultdict[str, list[Assignment]] = defaultdict(list)
    for row in rows:
        if row.state in LIVE:
            found[owners.get(row.instance, row.instance)].append(row)
    return found
