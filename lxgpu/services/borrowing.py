"""Lending on a card that its holder leaves idle: now, to a container that runs, until the holder comes back."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from functools import partial

from lxgpu.errors import LxgpuError
from lxgpu.model import devices
from lxgpu.model.borrowing import Borrowing, BorrowState
from lxgpu.model.gpu import Gpu
from lxgpu.model.instance import Sighting
from lxgpu.model.plan import Plan
from lxgpu.model.request import GpuRequest
from lxgpu.model.snapshot import Snapshot
from lxgpu.policy.borrowing import decide_borrow
from lxgpu.policy.resolve import resolve_gpus
from lxgpu.ports import Change, Tx
from lxgpu.services import instances, observe
from lxgpu.services.begin import decided
from lxgpu.services.borrowed import POLL_S, card_of_row, end, finish
from lxgpu.services.identity import ensure_identity
from lxgpu.services.lending import ready_instance
from lxgpu.services.operations import LOCK_WAIT_S
from lxgpu.services.refusal import raise_if_refused
from lxgpu.services.site import Site

OPEN_S = 15.0
"""So long a command waits for the sentry to open the card."""


def plan_borrow(site: Site, request: GpuRequest) -> tuple[Snapshot, Plan, GpuRequest]:
    """What a borrowing would do; nothing is written."""
    row = ready_instance(site, request.instance)
    if not site.watched:
        why = f"{row.name} lives on {row.host}, and idle cards are watched on the host that the daemon runs on"
        fix = f"lxgpu reserve {row.name} --gpus {request.more or 1} --for 1h asks for a card of its own"
        raise LxgpuError("unavailable", f"idle cards of {row.host} are not lent on", why=why, fix=fix)
    snapshot = observe.snapshot(site, people=[row.owner], readings=True)
    uuids = resolve_gpus(snapshot.seen.gpus, snapshot.records.cards, request.uuids)
    request = replace(request, owner=row.owner, uuids=uuids)
    return snapshot, _decide(site, request, snapshot), request


def borrow(site: Site, request: GpuRequest) -> tuple[Borrowing, ...]:
    """Lend idle cards of others on to a container, now; they are open when this returns.

    Errors: what `decide_borrow` refuses; `not_ready`: the container does not run; `no_capacity`: it is idle no more.
    """
    ensure_identity(site)
    name = request.instance
    with site.locks.hold(name, wait_s=LOCK_WAIT_S) as free:
        if not free:
            raise LxgpuError("conflict", f"another lxgpu is at work on {name}", fix="repeat in a moment")
        snapshot, _, request = plan_borrow(site, request)
        seen = instances.sighting(site, name)
        if seen.init_pid is None:
            raise LxgpuError("not_ready", f"{name} does not run", fix=f"lxgpu start {name}")
        rows = decided(site, snapshot, partial(_claim, site, request, seen.init_pid))
        for row in rows:
            _plug(site, row, card_of_row(snapshot.seen.gpus, row), seen.init_pid)
        with site.write() as tx:
            tx.put(*(replace(row, state=BorrowState.GRANTED) for row in rows if _attaching(tx, row)))
    return rows


def opened(site: Site, rows: Iterable[Borrowing]) -> None:
    """Wait until the sentry has opened the cards; else they go back, and error `no_capacity` says so."""
    ids, ends = {row.id for row in rows}, site.clock.monotonic() + OPEN_S
    while True:
        now = [row for row in site.inventory.read().borrowings if row.id in ids]
        lent = {row.id for row in now if row.state is BorrowState.LENT}
        if lent == ids:
            return
        if site.clock.monotonic() >= ends or len(now) < len(ids):
            break
        site.clock.sleep(POLL_S)
    for row in now:
        finish(site, row, why="the card was not opened in time")
    raise LxgpuError(
        "no_capacity", "the card was idle no more when it was to be opened", fix="repeat it later: it is its holder's"
    )


def _decide(site: Site, request: GpuRequest, now: Snapshot) -> Plan:
    idle_s = now.policy.rules.sharing.borrow.idle_s
    samples = site.inventory.samples(since=now.now - timedelta(seconds=2 * idle_s + 60))
    return decide_borrow(now, request, samples=samples)


def _claim(site: Site, request: GpuRequest, init: int, tx: Tx, now: Snapshot) -> tuple[Borrowing, ...]:
    plan = _decide(site, request, now)
    raise_if_refused(plan, f"borrow for {request.instance}", now.policy)
    held = {row.slot: row for row in now.records.assignments if row.live}
    mine = now.records.instance(request.instance)
    class_name = request.class_name or (mine.class_name if mine else "")
    rows = tuple(
        Borrowing(
            id=uuid.uuid4().hex[:12],
            slot=slot,
            instance=request.instance,
            holder=held[slot].instance,
            assignment=held[slot].id,
            state=BorrowState.ATTACHING,
            created_at=now.now,
            class_name=class_name,
            init=init,
        )
        for slot in plan.slots
    )
    tx.put(*rows)
    for row in rows:
        tx.event("borrowing", row.instance, rule="borrow", detail={"gpu": row.slot.gpu, "holder": row.holder})
    return rows


def _plug(site: Site, row: Borrowing, gpu: Gpu | None, init: int) -> None:
    """The card into the container's devices; its rule denies it still. Error `attach_failed`: it is not there then."""
    if gpu is None:
        return

    def build(_seen: Sighting) -> Change:
        return Change(devices={devices.gpu_device_name(gpu): devices.gpu_device(gpu)})

    instances.put(site, row.instance, build)
    if site.probe.nodes_inside(init, gpu.nodes) != frozenset(gpu.nodes):
        end(site, row, why="its nodes did not come in")
        why = "LXD attached it, and not all of its nodes are inside"
        fix = f"lxgpu restart {row.instance} --yes makes its devices anew; then repeat"
        raise LxgpuError("attach_failed", f"{row.slot} is not inside {row.instance}", why=why, fix=fix)


def _attaching(tx: Tx, row: Borrowing) -> bool:
    """Whether nobody has ended it meanwhile."""
    return any(one.id == row.id and one.state is BorrowState.ATTACHING for one in tx.records.borrowings)
