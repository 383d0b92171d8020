"""Opening an operation: what was begun earlier is ended first, then the intent is written in one transaction."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar

from lxgpu.errors import LxgpuError
from lxgpu.model.assignment import Card
from lxgpu.model.operation import Operation
from lxgpu.model.snapshot import Snapshot
from lxgpu.ports import Tx
from lxgpu.services import observe
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

    `act` decides on the snapshot it is given and writes. If the rows moved since the snapshot was taken, it is given
    the rows of the transaction itself, so that two at once can never both be right.
    """
    with site.write() as tx:
        current = tx.records
        if current.version != snapshot.records.version:
            people = set(snapshot.unix_groups)
            snapshot = observe.of(site, snapshot.seen, current, people=people)
        remember_cards(tx, snapshot)
        return act(tx, snapshot)


def remember_cards(tx: Tx, snapshot: Snapshot) -> None:
    """Write down cards that are new or sit elsewhere now, so that one that vanishes is known to be missing."""
    for gpu in snapshot.seen.gpus:
        known = snapshot.records.card(gpu.uuid)
        now = known or Card(
            uuid=gpu.uuid,
            host=snapshot.seen.host,
            pci=gpu.pci,
            model=gpu.model,
            memory_bytes=gpu.memory_bytes,
            seen_at=snapshot.now,
        )
        now = replace(now, host=snapshot.seen.host, pci=gpu.pci, model=gpu.model)
        if now != known:
            tx.put(replace(now, seen_at=snapshot.now))


def ensure_idle(snapshot: Snapshot, instance: str) -> None:
    """Refuse while another operation on the instance is not at its end."""
    busy = [row for row in snapshot.records.operations if row.instance == instance and row.live]
    if busy:
        raise LxgpuError(
            "conflict",
            f"{busy[0].kind} of {instance} is not at its end yet",
            why=f"begun {busy[0].created_at:%Y-%m-%d %H:%M} UTC by {busy[0].actor}, at step {busy[0].step or '-'}",
            fix="repeat in a moment; lxgpu history shows how it goes",
        )
