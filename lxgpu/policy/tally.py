"""Who has how many cards, counted once for each state of the tables. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from lxgpu.model.assignment import KEPT, LIVE, Assignment, AssignmentState
from lxgpu.model.instance import Instance
from lxgpu.model.snapshot import Records
from lxgpu.policy.lookup import owners_by_instance
from lxgpu.policy.tables import Key, Once, once, once_for_each

Moved = tuple[Assignment | None, Assignment | None]
"""A row as it was and as it is; None: it was, or is, not there."""
_HAD = (LIVE | {AssignmentState.PLANNED}) - {AssignmentState.QUARANTINED}


class Tally:
    """What people hold and are promised; what an instance had that is gone counts for the person of its name.

    `had` counts slots by person, `had_in` by person and class; one in quarantine is nobody's. `kept` counts those that
    are kept for now, of instances that are known. `live` are the assignments themselves that take a slot, by id.
    """

    def __init__(self, owners: Mapping[str, str], before: Tally | None = None) -> None:
        self.owners = owners
        self.had: dict[str, int] = dict(before.had) if before else {}
        self.had_in: dict[tuple[str, str], int] = dict(before.had_in) if before else {}
        self.kept: dict[str, int] = dict(before.kept) if before else {}
        self.live: dict[str, dict[str, Assignment]] = dict(before.live) if before else {}
        self._own: set[str] = set()
        """Of whom `live` is this count's own by now."""

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
        if row.state in LIVE:
            self._has(person, row, number)

    def _has(self, person: str, row: Assignment, number: int) -> None:
        if person not in self._own:
            self._own.add(person)
            self.live[person] = dict(self.live.get(person, ()))
        if number > 0:
            self.live[person][row.id] = row
        else:
            del self.live[person][row.id]


def _add(count: dict[Key, int], key: Key, number: int) -> None:
    """Who has nothing is in no count."""
    after = count.get(key, 0) + number
    if after:
        count[key] = after
    else:
        del count[key]


_NOTHING = Tally({})
_NONE: dict[str, Assignment] = {}


def tally(records: Records) -> Tally:
    """The count of these tables, which depends on who holds what and on whose the instances are."""
    return _table(records)(records.instances)


def recount(before: Records, after: Records, moved: Iterable[Moved]) -> None:
    """Hand the count on to tables in which some assignments became others, or their instances."""
    known = _table(before).known(before.instances)
    if known is not None:
        count = known.after(moved, owners_by_instance(after.instances))
        _table(after).remember(after.instances, count)


def live_of(records: Records, person: str) -> Collection[Assignment]:
    """The assignments that take a slot and are a person's, on all hosts, in no order."""
    return tally(records).live.get(person, _NONE).values()


Counts = Once[tuple[Instance, ...], Tally]


def _table(records: Records) -> Counts:
    return (_beside(records.elsewhere) if records.elsewhere else _counts)(records.assignments)


@once
def _counts(rows: tuple[Assignment, ...]) -> Counts:
    return Once(lambda instances: _NOTHING.after(((None, row) for row in rows), owners_by_instance(instances)))


@once_for_each
def _beside(elsewhere: tuple[Records, ...]) -> Once[tuple[Assignment, ...], Counts]:
    """The same, over what people have on other hosts."""
    (others,) = elsewhere

    def counts(rows: tuple[Assignment, ...]) -> Counts:
        return Once(lambda instances: tally(others).after(((None, row) for row in rows), owners_by_instance(instances)))

    return Once(counts)
