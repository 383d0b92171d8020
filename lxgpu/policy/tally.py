"""Who has how many cards, counted once for each state of the tables. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass

from lxgpu.model.assignment import KEPT, Assignment, AssignmentState
from lxgpu.model.snapshot import Records
from lxgpu.policy.lookup import owners_by_instance
from lxgpu.policy.tables import once


@dataclass(frozen=True, slots=True)
class Tally:
    """What people hold and are promised; what an instance had that is gone counts for the person of its name.

    `had` counts slots by person, `had_in` by person and class; one in quarantine is nobody's. `kept` counts those that
    are kept for now, of instances that are known. `live` are the assignments that take a slot, by person.
    """

    had: Counter[str]
    had_in: Counter[tuple[str, str]]
    kept: Counter[str]
    live: dict[str, list[Assignment]]


@once
def tally(records: Records) -> Tally:
    """The count of these tables."""
    owners = owners_by_instance(records.instances)
    rows = [row for row in records.assignments if row.state is not AssignmentState.CLOSED]
    people = [owners.get(row.instance, row.instance) for row in rows]
    both = list(zip(people, rows, strict=True))
    had = [(person, row) for person, row in both if row.state is not AssignmentState.QUARANTINED]
    live: defaultdict[str, list[Assignment]] = defaultdict(list)
    for person, row in both:
        if row.state is not AssignmentState.PLANNED:
            live[person].append(row)
    return Tally(
        had=Counter(person for person, _ in had),
        had_in=Counter((person, row.class_name) for person, row in had),
        kept=Counter(person for person, row in both if row.state in KEPT and row.instance in owners),
        live=dict(live),
    )
