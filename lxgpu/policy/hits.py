"""How often somebody had to yield for others' sake; pure. Expiry and idleness are no hits."""

from __future__ import annotations

from datetime import timedelta
from itertools import takewhile

from lxgpu.model.assignment import AssignmentState
from lxgpu.model.snapshot import Snapshot
from lxgpu.policy.guarantees import Guarantees
from lxgpu.policy.lookup import instances_everywhere, names_with_past, past_by_instance

PREEMPTED = "preempted"
"""How an assignment ends that was taken by fairness or priority."""
FAIRNESS = frozenset({"within_guarantee", "priority"})
"""The rules that caps bind."""


def hits(snapshot: Snapshot, person: str, *, window_s: int, ledger: Guarantees) -> int:
    """How often a person was hit within the time before now.

    Cards that went at one instant are one hit. One that is on its way for another reservation counts too, once.
    """
    since = snapshot.now - timedelta(seconds=window_s)
    past = past_by_instance(snapshot.past)
    recent = (
        row
        for name in names_with_past(snapshot.past, instances_everywhere(snapshot.records), person)
        for row in takewhile(lambda row: row.closed_at is not None and row.closed_at > since, past[name])
    )
    times = {row.closed_at for row in recent if row.outcome == PREEMPTED}
    on_their_way = {
        ledger.promises(row.slot)
        for row in ledger.had(person)
        if (row.state is AssignmentState.RELEASING and row.outcome == PREEMPTED)
        or (row.state is AssignmentState.WARNED and row.outcome in FAIRNESS and ledger.promised(row.slot) is False)
    }
    return len(times) + len(on_their_way)
