"""Opening an operation: what was begun earlier is ended first, then the intent is written in one transaction."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar

from lxgpu.errors import LxgpuError
from lxgpu.model.operation import Operation, OperationState
from lxgpu.model.snapshot import Records, Snapshot
from lxgpu.policy.divisions import cards_there
from lxgpu.ports import Tx
from lxgpu.services import observe
from lxgpu.services.oneversion import on_one_version
from lxgpu.services.site import Site

T = TypeVar("T")


def new_operation(site: Site, *, kind: str, instance: str, args: Mapping[str, object] | None = None) -> Operation:
    """An operation at its first step, not written yet."""
    return Operation(
        id=uuid.uuid4().hex[:16],
        kind=kind,
        instance=instance,
        created_at=site.clock.now(),
        actor=site.actor,
        args=dict(args or {}),
    )


def decided(site: Site, snapshot: Snapshot, act: Callable[[Tx, Snapshot], T]) -> T:
    """Decide and write against one version of the inventory.

    `act` decides on the snapshot it is given and writes. If the rows moved since the snapshot was taken, it is called
    again with the newer ones, so that two at once can never both be right.
    """

    def judge(records: Records) -> Snapshot:
        if records.version == snapshot.records.version:
            return snapshot
        return observe.of(site, snapshot.seen, records, people=set(snapshot.unix_groups))

    def write(tx: Tx, now: Snapshot) -> T:
        remember_cards(tx, now)
        return act(tx, now)

    return on_one_version(site, judge, write)


def remember_cards(tx: Tx, snapshot: Snapshot) -> None:
    """Write down cards that are new or sit elsewhere now, so that one that vanishes is known to be missing."""
    for now in cards_there(snapshot):
        if now != snapshot.records.card(now.uuid):
            tx.put(replace(now, seen_at=snapshot.now))


# What an abandoned one of these leaves is a state like any other; a command that follows need not wait for its end.
_PASSING = frozenset({"start", "stop", "restart", "resume"})
# And these end in a deletion, whatever they had in hand. One that changes names or swaps instances does not.
_DELETABLE = _PASSING | {"release", "attach", "suspend", "mend", "resize", "snapshot", "unsnapshot", "restore", "keys"}


def make_way(tx: Tx, snapshot: Snapshot, instance: str, *, deletion: bool = False) -> None:
    """Close an abandoned operation on the instance that may be left where it stands; refuse while another is not done.

    The caller holds the instance's lock, so nobody is at work on what is closed here. `deletion` ends more than others.
    """
    for row in snapshot.records.operations:
        if row.instance != instance or not row.live:
            continue
        if row.kind not in (_DELETABLE if deletion else _PASSING):
            raise LxgpuError(
                "conflict",
                f"{row.kind} of {instance} is not at its end yet",
                why=f"begun {row.created_at:%Y-%m-%d %H:%M} UTC by {row.actor}, at step {row.step or '-'}",
                fix="repeat in a moment; lxgpu history shows how it goes",
            )
        tx.put(replace(row, state=OperationState.UNDONE, closed_at=snapshot.now, error=row.error or "given up"))
        tx.event("given_up", instance, rule=row.kind, detail={"step": row.step})
