"""Where those who wait stand: their place in the line, when they may begin, and what they wait for.

It is told from the inventory alone, so that asking costs no look at LXD: cards are those remembered, and how busy they
are is not judged. So an estimate is rather too late than too early.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from lxgpu.model.assignment import Assignment
from lxgpu.model.gpu import Gpu, Readings
from lxgpu.model.onehost import rows_of
from lxgpu.model.quota import Policy
from lxgpu.model.reservation import Reservation, ReservationState
from lxgpu.model.snapshot import Observation, Records, Snapshot
from lxgpu.policy.backfill import estimates, foreseen
from lxgpu.policy.fairness import looks_back_s
from lxgpu.policy.queue import in_order
from lxgpu.policy.waiting import why_waiting
from lxgpu.services.reservationviews import InLine

EXPLAINED = 20
"""For so many from the head of the line it is worked out what they wait for."""
_NO_FREES: Mapping[str, datetime] = {}


def counts_since(policy: Policy | None, now: datetime) -> datetime:
    """From when on what people had counts in the order of the queue."""
    return now - timedelta(seconds=looks_back_s(policy or Policy()))


def explained_line(
    records: Records,
    policy: Policy | None,
    *,
    host: str,
    now: datetime,
    past: tuple[Assignment, ...] = (),
    frees: Mapping[str, datetime] = _NO_FREES,
    readings: Callable[[], Readings] | None = None,
) -> Mapping[str, InLine]:
    """The place in the line of every reservation that waits, by id; nothing is known without a policy.

    `past` are assignments closed of late, newest first: who used much stands further back. `frees` is when holders
    without an end are expected to be gone, as `foresight` has it. `readings` are asked for only where cards seem to be
    there for somebody: NVML may be out of order, and then nobody gets any.
    """
    waiting = [row for row in records.reservations if row.state is ReservationState.WAITING]
    if policy is None or not waiting:
        return {}
    snapshot = replace(remembered(records, policy, host=host, now=now, past=past), frees=frees)
    order = in_order(snapshot, waiting)
    first = {row.id: why_waiting(snapshot, row, order)[0] for row in order[:EXPLAINED]}
    hopeful = [row for row in order[:EXPLAINED] if first[row.id].code == "can_begin"]
    if hopeful and readings is not None:
        looked = replace(snapshot, seen=replace(snapshot.seen, readings=readings()))
        first |= {row.id: why_waiting(looked, row, order)[0] for row in hopeful}
    whys = {key: reason.text for key, reason in first.items()}
    return {key: replace(found, why=whys.get(key, "")) for key, found in _line(snapshot, order).items()}


def lines(
    records: Records,
    policy: Policy | None,
    hosts: Mapping[str, Callable[[], Readings]],
    *,
    now: datetime,
    past: tuple[Assignment, ...] = (),
    frees: Mapping[str, datetime] = _NO_FREES,
) -> Mapping[str, InLine]:
    """The same on several hosts, each with a line of its own; `hosts` are they, this one first, and their readings."""
    found: dict[str, InLine] = {}
    for host, readings in hosts.items():
        rows = rows_of(records, host, hosts=tuple(hosts)) if len(hosts) > 1 else records
        found |= explained_line(rows, policy, host=host, now=now, past=past, frees=frees, readings=readings)
    return found


def line(
    records: Records,
    policy: Policy,
    *,
    host: str,
    now: datetime,
    past: tuple[Assignment, ...] = (),
    frees: Mapping[str, datetime] = _NO_FREES,
) -> Mapping[str, InLine]:
    """The same without what they wait for, which is a question for each of them."""
    waiting = [row for row in records.reservations if row.state is ReservationState.WAITING]
    snapshot = replace(remembered(records, policy, host=host, now=now, past=past), frees=frees)
    return _line(snapshot, in_order(snapshot, waiting))


def _line(snapshot: Snapshot, order: Sequence[Reservation]) -> Mapping[str, InLine]:
    told = estimates(snapshot, order)
    likely = foreseen(snapshot, order, told)
    return {
        key: InLine(position, likely.get(key, estimate), foreseen=key in likely)
        for key, (position, estimate) in told.items()
    }


def remembered(
    records: Records, policy: Policy, *, host: str, now: datetime, past: tuple[Assignment, ...] = ()
) -> Snapshot:
    """A Snapshot of what the inventory remembers, for questions about time and quota."""
    cards = tuple(
        Gpu(uuid=card.uuid, pci=card.pci, model=card.model, host=card.host, memory_bytes=card.memory_bytes)
        for card in records.cards
        if card.host == host
    )
    seen = Observation(host=host, boot_id="", at=now, gpus=cards)
    return Snapshot(now=now, records=records, seen=seen, policy=policy, past=past)
