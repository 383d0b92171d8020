"""On which of several hosts a request that is bound to none is looked at first: where it disturbs least; pure."""

from __future__ import annotations

from collections.abc import Sequence

from lxgpu.model.request import Need
from lxgpu.model.snapshot import Snapshot
from lxgpu.policy.grounds import any_ground
from lxgpu.policy.guarantees import Guarantees
from lxgpu.policy.placement import blocked, matching
from lxgpu.policy.supply import Supply, supply
from lxgpu.policy.victims import cost


def hosts_for(snapshots: Sequence[Snapshot], need: Need) -> list[int]:
    """The places in the list of the hosts that may meet a need, the best first; empty: none can now.

    Those with enough free cards come first, the one that keeps the fewest before the others; then, only where there
    are none, the one whose holders lose least. All snapshots are of the same tables.
    """
    free = [(count, place) for place, one in enumerate(snapshots) if (count := _free(one, need)) >= need.gpus]
    if free:
        return [place for _, place in sorted(free)]
    found = []
    for place, snapshot in enumerate(snapshots):
        if any_ground(snapshot, need, Guarantees(snapshot, need.reservation)):
            answer = supply(snapshot, need)
            if isinstance(answer, Supply):
                found.append((cost(answer.units), place))
    return [min(found)[1]] if found else []


def _free(snapshot: Snapshot, need: Need) -> int:
    taken = blocked(snapshot)
    meant = matching((gpu.model for gpu in snapshot.seen.gpus), need.pool)
    return sum(gpu.model in meant and gpu.uuid not in taken for gpu in snapshot.seen.gpus)
