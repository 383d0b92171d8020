"""Delete, suspend, resume: the cards go back, the port closes, what people made stays as long as promised."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lxgpu.errors import LxgpuError
from lxgpu.model.assignment import AssignmentState
from lxgpu.model.instance import Instance, InstanceState
from lxgpu.model.plan import Plan, PlannedStep, Verdict
from lxgpu.model.snapshot import Snapshot
from lxgpu.ports import Tx
from lxgpu.services import observe
from lxgpu.services.begin import decided, make_way, new_operation
from lxgpu.services.identity import ensure_identity
from lxgpu.services.leaving import DELETE, EMPTY, RESUME, SUSPEND
from lxgpu.services.lending import check_ready, known_instance, lasting_instance, ready_instance
from lxgpu.services.operations import carry_out
from lxgpu.services.recipes import Recipe
from lxgpu.services.site import Site
from lxgpu.services.unknown import no_container


def plan_delete(site: Site, name: str, *, purge: bool) -> Plan:
    """What a delete would do; nothing is written."""
    row = known_instance(site, name)
    purge = purge or row.throw_away
    kept = "home too" if purge and not row.throw_away else "its home stays" if not purge else "a throw-away container"
    end = PlannedStep("purge" if purge else "trash", name, why=kept)
    return _plan(site, name, PlannedStep("stop", name), end)


def plan_suspend(site: Site, name: str, *, reason: str) -> Plan:
    """What a suspension would do; nothing is written."""
    lasting_instance(site, name)
    ready_instance(site, name)
    return _plan(site, name, PlannedStep("stop", name, why=reason), PlannedStep("close_port", name))


def plan_resume(site: Site, name: str) -> Plan:
    """What resuming would do; nothing is written."""
    _suspended(known_instance(site, name))
    return Plan(decision=Verdict.GRANTED, steps=(PlannedStep("open_port", name), PlannedStep("start", name)))


def _plan(site: Site, name: str, first: PlannedStep, last: PlannedStep) -> Plan:
    held = site.inventory.read().held_by(name)
    cards = tuple(PlannedStep("release", name, gpu=row.slot.gpu, why="the container ends") for row in held)
    return Plan(decision=Verdict.GRANTED, steps=(first, *cards, last))


def _suspended(row: Instance) -> None:
    if row.state is not InstanceState.SUSPENDED:
        raise LxgpuError(
            "not_ready", f"{row.name} is not suspended", why=f"it is {row.state.value}", fix=f"lxgpu show {row.name}"
        )


def delete(site: Site, name: str, *, purge: bool) -> None:
    """Delete a container: its cards are proven free, it goes to the trash (or away), the home stays (or goes).

    One of a single run is purged, whatever `purge` says.
    """
    ensure_identity(site)
    row = known_instance(site, name)
    if row.state is InstanceState.TRASHED:
        _empty(site, name, purge=purge)
        return
    purge = purge or row.throw_away
    _end(site, name, kind="delete", recipe=DELETE, state=InstanceState.DELETING, args={"purge": purge})


def _empty(site: Site, name: str, *, purge: bool) -> None:
    if not purge:
        raise LxgpuError(
            "not_ready",
            f"{name} lies in the trash already",
            fix=f"lxgpu delete {name} --purge removes it for good; lxgpu adopt {name} brings it back",
        )
    snapshot = observe.snapshot(site)

    def write(tx: Tx, now: Snapshot) -> str:
        make_way(tx, now, name)
        operation = new_operation(site, kind="empty", instance=name)
        tx.put(operation)
        return operation.id

    carry_out(site, EMPTY, name, lambda: decided(site, snapshot, write), gpus=snapshot.seen.gpus)


def suspend(site: Site, name: str, *, reason: str) -> None:
    """Stop a container and close its port; cards go back, data stay."""
    ensure_identity(site)
    lasting_instance(site, name)
    ready_instance(site, name)
    _end(site, name, kind="suspend", recipe=SUSPEND, state=InstanceState.SUSPENDED, reason=reason)


def resume(site: Site, name: str) -> None:
    """Undo a suspension; cards have to be asked for again."""
    ensure_identity(site)
    _suspended(known_instance(site, name))
    snapshot = observe.snapshot(site)

    def write(tx: Tx, now: Snapshot) -> str:
        make_way(tx, now, name)
        current = _row(now, name)
        operation = new_operation(site, kind="resume", instance=name)
        tx.put(replace(current, state=InstanceState.READY, running=True, reason=""), operation)
        return operation.id

    carry_out(site, RESUME, name, lambda: decided(site, snapshot, write), gpus=snapshot.seen.gpus)


def _end(
    site: Site,
    name: str,
    *,
    kind: str,
    recipe: Recipe,
    state: InstanceState,
    reason: str = "",
    args: Mapping[str, object] | None = None,
) -> None:
    snapshot = observe.snapshot(site)

    def write(tx: Tx, now: Snapshot) -> str:
        make_way(tx, now, name, deletion=kind == "delete")
        return open_end(site, tx, now, name, kind=kind, state=state, reason=reason, args=args)

    carry_out(site, recipe, name, lambda: decided(site, snapshot, write), gpus=snapshot.seen.gpus)


def open_end(
    site: Site,
    tx: Tx,
    now: Snapshot,
    name: str,
    *,
    kind: str,
    state: InstanceState,
    reason: str = "",
    args: Mapping[str, object] | None = None,
) -> str:
    """Write that a container ends, with its cards; gives the operation that does it."""
    current, held = _row(now, name), now.records.held_by(name)
    if kind == "suspend":
        check_ready(current)
    for row in held:
        tx.put(replace(row, state=AssignmentState.RELEASING))
    operation = new_operation(
        site,
        kind=kind,
        instance=name,
        args={
            **(args or {}),
            "slots": [str(row.slot) for row in held],
            "outcome": kind,
            "fence_timeout_s": now.policy.rules.preemption.fence_timeout_s,
        },
    )
    tx.put(replace(current, state=state, running=False, reason=reason), operation)
    return operation.id


def _row(now: Snapshot, name: str) -> Instance:
    row = now.records.instance(name)
    if row is None:
        raise no_container(now.records, name)
    return row
