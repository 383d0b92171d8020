"""Containers and people whose time is over: told a month ahead, then suspended; the trash is emptied in the end."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from lxgpu.model.instance import Instance, InstanceState
from lxgpu.model.snapshot import Snapshot
from lxgpu.policy.admission import entitlement
from lxgpu.ports import Tx
from lxgpu.services import observe
from lxgpu.services.begin import new_operation
from lxgpu.services.ending import open_end
from lxgpu.services.notices import notice
from lxgpu.services.site import Site

AHEAD = timedelta(days=30)


def end_in_time(site: Site, snapshot: Snapshot) -> int:
    """Begin what is due, each in a transaction of its own; gives how many. Who advances the journal does the rest."""
    begun = 0
    for row in snapshot.records.instances:
        if any(item.live and item.instance == row.name for item in snapshot.records.operations):
            continue
        if row.state is InstanceState.READY:
            at = over_at(snapshot, row)
            if at is not None and at <= snapshot.now:
                begun += _suspend(site, row.name, f"its time ended on {at.astimezone(snapshot.policy.zone):%Y-%m-%d}")
            elif at is not None and at - AHEAD <= snapshot.now:
                begun += _tell(site, row, at)
        elif row.state is InstanceState.TRASHED and row.deleted_at is not None:
            kept = timedelta(seconds=entitlement(snapshot, row.owner).retain_s)
            if row.deleted_at + kept <= snapshot.now:
                begun += _empty(site, row.name)
    return begun


def over_at(snapshot: Snapshot, row: Instance) -> datetime | None:
    """When a container's time is over: its own, or its owner's; None: never."""
    ends = (row.expires, entitlement(snapshot, row.owner).until)
    return min((at for at in ends if at is not None), default=None)


def _suspend(site: Site, name: str, reason: str) -> int:
    def write(tx: Tx, now: Snapshot) -> None:
        open_end(site, tx, now, name, kind="suspend", state=InstanceState.SUSPENDED, reason=reason)
        tx.event("expired", name, rule="until", detail={"reason": reason})

    return _begin(site, name, InstanceState.READY, write)


def _empty(site: Site, name: str) -> int:
    def write(tx: Tx, now: Snapshot) -> None:
        del now
        tx.put(new_operation(site, kind="empty", instance=name))
        tx.event("expired", name, rule="retain")

    return _begin(site, name, InstanceState.TRASHED, write)


def _begin(site: Site, name: str, state: InstanceState, write: Callable[[Tx, Snapshot], None]) -> int:
    """Write the beginning, unless another command has the container in hand or it is something else by now."""
    seen = observe.look(site)
    with site.locks.hold(name, wait_s=0) as free:
        if not free:
            return 0
        with site.write() as tx:
            now = observe.of(site, seen, tx.records)
            row = now.records.instance(name)
            busy = any(item.live and item.instance == name for item in now.records.operations)
            if row is None or row.state is not state or busy:
                return 0
            write(tx, now)
    return 1


def _tell(site: Site, row: Instance, at: datetime) -> int:
    """Once for each end; one that is put off is told anew when it comes near."""
    about = f"{row.name} until {at.isoformat()}"
    if site.inventory.notices_about(about):
        return 0
    then = "the container is stopped, its cards go back and its port closes; what is in it stays"
    facts = {"until": at, "then": then}
    with site.write() as tx:
        tx.put(notice("expires", instance=row.name, person=row.owner, about=about, facts=facts, now=site.clock.now()))
    return 1
