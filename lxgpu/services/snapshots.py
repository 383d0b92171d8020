"""Snapshots of a container's system, and the way back to one; the home is a volume of its own and stays as it is.

A snapshot carries devices and `user.lxgpu.*` of its day. So restoring one is: stop, restore, write what the inventory
says now, start, prove. Who restores one with LXD's own tools gets the old cards in the configuration, which the next
command of lxgpu takes off again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import datetime

from lxgpu.errors import LxgpuError
from lxgpu.model.instance import Instance, InstanceState
from lxgpu.model.plan import Plan, PlannedStep, Verdict
from lxgpu.model.snapshot import Snapshot
from lxgpu.ports import Tx
from lxgpu.services import instances, leaving, making, observe, power
from lxgpu.services.begin import decided, make_way, new_operation
from lxgpu.services.configure import picture
from lxgpu.services.identity import ensure_identity
from lxgpu.services.lending import known_instance, lasting_instance, ready_instance
from lxgpu.services.operations import carry_out
from lxgpu.services.recipes import Recipe, Step, Work
from lxgpu.services.site import Site
from lxgpu.services.unknown import no_container
from lxgpu.services.wanted import full

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_MAY = frozenset({InstanceState.READY, InstanceState.SUSPENDED})


@dataclass(frozen=True, slots=True)
class SnapshotView:
    """One snapshot: schema `lxgpu.snapshots/v1`; `created_at` is None where LXD does not say."""

    instance: str
    name: str
    created_at: datetime | None


def views(site: Site, name: str) -> tuple[SnapshotView, ...]:
    """The snapshots of a container, oldest first."""
    known_instance(site, name)
    return tuple(SnapshotView(name, snapshot, at) for snapshot, at in site.engine.snapshots(name))


def take(work: Work) -> None:
    """The snapshot, if it is not there yet."""
    site, snapshot = work.site, work.text("snapshot")
    instances.sighting(site, work.name, with_state=False)
    if _has(site, work.name, snapshot):
        return
    try:
        site.engine.snapshot(work.name, snapshot)
    except LxgpuError:
        instances.settle(site, work.name)
        if not _has(site, work.name, snapshot):
            raise


def drop(work: Work) -> None:
    """The snapshot goes."""
    instances.sighting(work.site, work.name, with_state=False)
    instances.insist(lambda: work.site.engine.delete_snapshot(work.name, work.text("snapshot")))


def note(work: Work) -> None:
    """The history has it."""
    with work.site.write() as tx:
        tx.event(_KINDS[work.operation.kind], work.name, detail={"snapshot": work.text("snapshot")})


def failed(work: Work) -> None:
    """Undo: nothing was changed that could be taken back; the history has that it did not work."""
    with work.site.write() as tx:
        detail = {"snapshot": work.text("snapshot"), "why": work.operation.error}
        tx.event(f"{work.operation.kind}_failed", work.name, detail=detail)


def bring_back(work: Work) -> None:
    """The system of the snapshot, with all that LXD keeps beside it."""
    site = work.site
    instances.by_uuid(site, work.name)  # a snapshot may be older than our mark
    instances.insist(lambda: site.engine.restore(work.name, work.text("snapshot")))
    work.note(restored=True)


def in_line(work: Work) -> None:
    """Cards, limits, port and marks as the inventory has them today; a snapshot may be older than all of them."""
    wanted = picture(work.site, work.name, gpus=work.gpus())
    instances.put(
        work.site,
        work.name,
        lambda now: full(wanted, now, attached=wanted.usable, operation=work.operation.id),
        read=instances.by_uuid,
    )


def rest(work: Work) -> None:
    """One that did not run before does not run after it."""
    if not work.flag("was_running"):
        leaving.stop(work)
    with work.site.write() as tx:
        row = tx.records.instance(work.name)
        if row is not None:
            tx.put(replace(row, running=work.flag("was_running")))


def told(work: Work) -> None:
    """Undo: what it is now is said."""
    failed(work)
    with work.site.write() as tx:
        row = tx.records.instance(work.name)
        if row is not None:
            tx.put(replace(row, running=work.flag("was_running")))
    if work.flag("restored"):
        work.site.say(f"the system is that of {work.text('snapshot')}, and not proven to work; home and cards are kept")


SNAPSHOT = Recipe(
    kind="snapshot", steps=(Step("take", "", take), Step("note", "", note)), undo=(Step("told", "", failed),)
)
UNSNAPSHOT = Recipe(
    kind="unsnapshot", steps=(Step("drop", "", drop), Step("note", "", note)), undo=(Step("told", "", failed),)
)
RESTORE = Recipe(
    kind="restore",
    steps=(
        Step("stop", "stopping", leaving.stop),
        Step("restore", "restoring", bring_back),
        Step("configure", "", in_line),
        Step("start", "starting", making.start),
        Step("account", "account and SSH login", making.account),
        Step("verify", "checking cards and limits", making.verify),
        Step("rest", "", rest),
        Step("note", "", note),
    ),
    undo=(Step("configure", "", in_line), Step("told", "", told), Step("start", "", power.start_again)),
)
_KINDS = {"snapshot": "snapshot_taken", "unsnapshot": "snapshot_deleted", "restore": "restored"}


def check_new_name(snapshot: str) -> None:
    """Refuse what cannot name a snapshot; error `bad_name`."""
    if not _NAME.fullmatch(snapshot):
        raise LxgpuError(
            "bad_name",
            f"{snapshot!r} cannot name a snapshot",
            why="up to 63 letters, digits, dots, hyphens and underscores, a letter or digit first and last",
        )


def plan_snapshot(site: Site, name: str, snapshot: str) -> Plan:
    """What taking one would do; nothing is written. Errors: `bad_name`, `exists`."""
    _may(lasting_instance(site, name))
    check_new_name(snapshot)
    if _has(site, name, snapshot):
        raise LxgpuError("exists", f"{name} has a snapshot {snapshot} already", fix="give it another name")
    return _plan(PlannedStep("snapshot", name, why=f"{snapshot}; its home is not in it"))


def plan_delete(site: Site, name: str, snapshot: str) -> Plan:
    """What deleting one would do; nothing is written. Error `not_found`."""
    _may(known_instance(site, name))
    _ensure_there(site, name, snapshot)
    return _plan(PlannedStep("delete_snapshot", name, why=snapshot))


def newest(site: Site, name: str) -> str:
    """The newest snapshot of a container; error `not_found` when it has none."""
    ready_instance(site, name)
    taken = site.engine.snapshots(name)
    if not taken:
        raise LxgpuError("not_found", f"{name} has no snapshot", fix=f"lxgpu snapshot {name} takes one")
    return taken[-1][0]


def plan_restore(site: Site, name: str, snapshot: str) -> Plan:
    """What restoring would do; nothing is written. Error `not_found`."""
    row = ready_instance(site, name)
    _ensure_there(site, name, snapshot)
    stop = (PlannedStep("stop", name),) if row.running else ()
    restore = PlannedStep("restore", name, why=f"{snapshot}; home, keys, cards, port and limits stay as they are now")
    return _plan(*stop, restore, PlannedStep("verify", name))


def take_snapshot(site: Site, name: str, snapshot: str) -> None:
    """Keep the present state of a container's system; it may run."""
    plan_snapshot(site, name, snapshot)
    _run(site, name, SNAPSHOT, snapshot)


def delete_snapshot(site: Site, name: str, snapshot: str) -> None:
    """Forget a kept state."""
    plan_delete(site, name, snapshot)
    _run(site, name, UNSNAPSHOT, snapshot)


def restore(site: Site, name: str, snapshot: str) -> None:
    """Bring a container back to a snapshot; done when the person's login works and the cards are as granted."""
    plan_restore(site, name, snapshot)
    _run(site, name, RESTORE, snapshot)


def _run(site: Site, name: str, recipe: Recipe, snapshot: str) -> None:
    ensure_identity(site)
    seen = observe.snapshot(site)

    def write(tx: Tx, now: Snapshot) -> str:
        make_way(tx, now, name)
        row = now.records.instance(name)
        if row is None:
            raise no_container(now.records, name)
        _may(row)
        args = {"snapshot": snapshot, "was_running": row.running}
        operation = new_operation(site, kind=recipe.kind, instance=name, args=args)
        if recipe is RESTORE:
            tx.put(replace(row, running=True))
        tx.put(operation)
        return operation.id

    carry_out(site, recipe, name, lambda: decided(site, seen, write), gpus=seen.seen.gpus)


def _may(row: Instance) -> None:
    if row.state not in _MAY:
        raise LxgpuError("not_ready", f"{row.name} is {row.state.value}", fix=f"lxgpu show {row.name}")


def _has(site: Site, name: str, snapshot: str) -> bool:
    return any(known == snapshot for known, _ in site.engine.snapshots(name))


def _ensure_there(site: Site, name: str, snapshot: str) -> None:
    names = [known for known, _ in site.engine.snapshots(name)]
    if snapshot not in names:
        raise LxgpuError(
            "not_found",
            f"{name} has no snapshot {snapshot}",
            why=f"it has {', '.join(names)}" if names else "it has none",
            fix=f"lxgpu snapshot {name} --list",
        )


def _plan(*steps: PlannedStep) -> Plan:
    return Plan(decision=Verdict.GRANTED, steps=steps)
