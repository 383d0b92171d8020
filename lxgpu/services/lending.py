"""Attach and release: cards in and out of a container that lives on."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from lxgpu.errors import LxgpuError
from lxgpu.model.assignment import AssignmentState
from lxgpu.model.gpu import is_part
from lxgpu.model.instance import Instance, InstanceState, Sighting
from lxgpu.model.layout import in_parts
from lxgpu.model.plan import Plan
from lxgpu.model.request import GpuRequest
from lxgpu.model.snapshot import Snapshot
from lxgpu.policy.decide import decide_attach, decide_release
from lxgpu.policy.resolve import resolve_gpus
from lxgpu.ports import Tx
from lxgpu.services import giving, observe, slots, taking
from lxgpu.services.begin import decided, make_way, new_operation
from lxgpu.services.identity import ensure_identity, mirror_promises
from lxgpu.services.instances import sighting
from lxgpu.services.operations import carry_out
from lxgpu.services.recipes import Recipe, Step
from lxgpu.services.refusal import raise_if_refused
from lxgpu.services.site import Site
from lxgpu.services.unknown import no_container

ATTACH = Recipe(
    kind="attach",
    steps=giving.ATTACH_STEPS,
    undo=(
        Step("back", "", giving.take_back),
        Step("deny", "", taking.deny),
        Step("detach", "", taking.detach),
        Step("tidy", "", giving.tidy),
        Step("fence", "", taking.prove),
    ),
)
RELEASE = Recipe(kind="release", steps=taking.RELEASE_STEPS)


def plan_attach(
    site: Site, name: str, *, number: int, more: bool, request: GpuRequest
) -> tuple[Snapshot, Plan, GpuRequest]:
    """What an attach would do; `number` is a total, or that many more. Nothing is written.

    Cards named in the request may be named as `resolve_gpu` takes them; the request given back has their UUIDs.
    """
    row = ready_instance(site, name)
    snapshot = observe.snapshot(site, people=[row.owner], readings=True)
    uuids = resolve_gpus(snapshot.seen.gpus, snapshot.records.cards, request.uuids)
    request = _counted(snapshot, replace(request, owner=row.owner, uuids=uuids), number=number, more=more)
    return snapshot, decide_attach(snapshot, request), request


def attach(site: Site, name: str, *, number: int, more: bool, request: GpuRequest, lease_s: int | None) -> bool:
    """Give a container more cards, as an open lease; displaces nobody. False: it holds as many already."""
    with near(site, name) as left:
        ensure_identity(site)
        snapshot, _, request = plan_attach(site, name, number=number, more=more, request=request)

    def write(tx: Tx, now: Snapshot) -> str | None:
        make_way(tx, now, name)
        wanted = _counted(now, replace(request, owner=ready_row(now, name).owner), number=number, more=more)
        decision = decide_attach(now, wanted)
        raise_if_refused(decision, f"attach {name}", now.policy)
        if not decision.slots:
            return None
        slots.claim(tx, now, wanted, decision.slots, lease_s=lease_s)
        timeout = now.policy.rules.preemption.fence_timeout_s
        operation = new_operation(
            site, kind="attach", instance=name, args={"fence_timeout_s": timeout, "term_wait_s": 0}
        )
        tx.put(operation)
        return operation.id

    begun = partial(decided, site, snapshot, write)
    return carry_out(site, ATTACH, name, begun, gpus=snapshot.seen.gpus, left=left.result()) is not None


def plan_release(
    site: Site, name: str, *, count: int | None, uuids: tuple[str, ...], busy: bool
) -> tuple[Snapshot, Plan]:
    """What a release would do; nothing is written. `uuids` are as `resolve_gpu` takes them."""
    known_instance(site, name)
    snapshot = observe.snapshot(site, readings=True)
    uuids = resolve_gpus(snapshot.seen.gpus, snapshot.records.cards, uuids)
    return snapshot, decide_release(snapshot, name, count=count, uuids=uuids, busy=busy)


def release(site: Site, name: str, *, count: int | None, uuids: tuple[str, ...] = (), busy: bool = False) -> bool:
    """Take cards back from a container, which lives on: rule, TERM, detach, KILL, fence. False: it holds none."""
    with near(site, name) as left:
        ensure_identity(site)
        snapshot, _ = plan_release(site, name, count=count, uuids=uuids, busy=busy)
    uuids = resolve_gpus(snapshot.seen.gpus, snapshot.records.cards, uuids)

    def write(tx: Tx, now: Snapshot) -> str | None:
        return intend_release(site, tx, now, name, count=count, uuids=uuids, busy=busy)

    begun = partial(decided, site, snapshot, write)
    if carry_out(site, RELEASE, name, begun, gpus=snapshot.seen.gpus, left=left.result()) is None:
        return False
    _tell_quarantine(site, name)
    return True


def intend_release(
    site: Site, tx: Tx, now: Snapshot, name: str, *, count: int | None, uuids: tuple[str, ...] = (), busy: bool
) -> str | None:
    """Decide which cards go back, and open the operation that takes them; None when there are none to take.

    The caller holds the instance's lock. Errors: what `decide_release` refuses, and `conflict`.
    """
    make_way(tx, now, name)
    decision = decide_release(now, name, count=count, uuids=uuids, busy=busy)
    raise_if_refused(decision, f"release {name}", now.policy)
    if not decision.slots:
        return None
    return open_release(site, tx, now, name, slots_taken=[str(slot) for slot in decision.slots], outcome="given back")


@contextmanager
def near(site: Site, name: str) -> Iterator[Future[Sighting | None]]:
    """Look at an instance while a decision on it is made; None when that fails, and the steps will say why.

    The first write is built on this: LXD refuses it if the instance has changed by then.
    """

    def seen() -> Sighting | None:
        try:
            return sighting(site, name)
        except LxgpuError:
            return None

    with ThreadPoolExecutor(max_workers=1) as pool:
        yield pool.submit(seen)


def open_release(site: Site, tx: Tx, now: Snapshot, name: str, *, slots_taken: list[str], outcome: str) -> str:
    """Write that cards are being taken; from here on there is no way back."""
    wanted = set(slots_taken)
    class_name = ""
    for row in now.records.held_by(name):
        if str(row.slot) in wanted:
            class_name = row.class_name
            tx.put(replace(row, state=AssignmentState.RELEASING))
    chosen = now.policy.classes.get(class_name)
    operation = new_operation(
        site,
        kind="release",
        instance=name,
        args={
            "slots": slots_taken,
            "outcome": outcome,
            "term_wait_s": chosen.term_wait_s if chosen else 0,
            "fence_timeout_s": now.policy.rules.preemption.fence_timeout_s,
        },
    )
    tx.put(operation)
    tx.event("releasing", name, rule=outcome, detail={"slots": slots_taken})
    return operation.id


def known_instance(site: Site, name: str) -> Instance:
    """The row of an instance; error `not_found`."""
    records = site.inventory.read()
    row = records.instance(name)
    if row is None:
        raise no_container(records, name)
    return row


def ready_instance(site: Site, name: str) -> Instance:
    """The row of an instance that may be given cards; error `not_ready` says why not."""
    return check_ready(known_instance(site, name))


def lasting_instance(site: Site, name: str) -> Instance:
    """The row of a container that lives on; error `throw_away` for one of a single run."""
    row = known_instance(site, name)
    if row.throw_away:
        raise LxgpuError(
            "throw_away",
            f"{name} lives for one run only",
            why="it goes with its program, whatever becomes of it",
            fix=f"lxgpu create NAME makes a container to keep; lxgpu delete {name} --yes ends this run",
        )
    return row


def ready_row(now: Snapshot, name: str) -> Instance:
    """The same, of the rows that a transaction decides on: it may have been suspended or deleted since it was read."""
    row = now.records.instance(name)
    if row is None:
        raise no_container(now.records, name)
    return check_ready(row)


def check_ready(row: Instance) -> Instance:
    """The row, if the instance is in use; error `not_ready`."""
    if row.state is not InstanceState.READY:
        raise LxgpuError(
            "not_ready",
            f"{row.name} is {row.state.value}",
            why=row.reason or "it is not in use",
            fix=f"lxgpu resume {row.name}" if row.state is InstanceState.SUSPENDED else f"lxgpu show {row.name}",
        )
    return row


def _counted(snapshot: Snapshot, request: GpuRequest, *, number: int, more: bool) -> GpuRequest:
    """The request with the number of cards that are missing."""
    if request.uuids:
        return replace(request, more=len(request.uuids))
    rows = snapshot.records.held_by(request.instance)
    rows = tuple(row for row in rows if is_part(row.slot.gpu) is in_parts(request.model))
    held = sum(row.state is not AssignmentState.QUARANTINED for row in rows)
    return replace(request, more=number if more else max(0, number - held))


def _tell_quarantine(site: Site, name: str) -> None:
    records = site.inventory.read()
    stuck = [row.slot for row in records.held_by(name) if row.state is AssignmentState.QUARANTINED]
    if not stuck:
        return
    mirror_promises(site)
    reasons = [f"{slot}: {record.quarantine}" for slot in stuck if (record := records.slot(slot)) is not None]
    raise LxgpuError(
        "quarantined",
        f"{len(stuck)} of {name}'s cards could not be proven free and go to nobody",
        why=reasons,
        fix=f"lxgpu stop {name} --yes ends everything in it; then lxgpu gpu open GPU proves the card again",
    )
