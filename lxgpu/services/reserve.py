"""Reserving cards: what would come of it, writing it down, cancelling, changing, waiting for it."""

from __future__ import annotations

import shlex
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
from functools import partial
from typing import TypeVar, Unpack

from lxgpu.errors import LxgpuError
from lxgpu.instants import show_instant
from lxgpu.model.assignment import KEPT, Assignment
from lxgpu.model.plan import Plan, PlannedStep, Verdict
from lxgpu.model.request import Changes, ReserveRequest
from lxgpu.model.reservation import Kind, Reservation, ReservationState
from lxgpu.model.snapshot import Snapshot
from lxgpu.policy.closing import end
from lxgpu.policy.desk import Desk
from lxgpu.policy.edit import decide_edit
from lxgpu.policy.noshow import outlasts
from lxgpu.policy.reserve import Decided, decide_reserve
from lxgpu.ports import Tx
from lxgpu.services import observe
from lxgpu.services.carrying import write_down
from lxgpu.services.holds import mirror_holds
from lxgpu.services.identity import ensure_identity, mirror_promises
from lxgpu.services.lending import ready_instance, ready_row
from lxgpu.services.oneversion import on_one_version
from lxgpu.services.refusal import raise_if_refused
from lxgpu.services.site import Site
from lxgpu.services.tick import look, tick
from lxgpu.units import format_duration

T = TypeVar("T")
POLL_S = 1.0
_ENDS = frozenset({ReservationState.FINISHED, ReservationState.MISSED, ReservationState.CANCELLED})


@dataclass(frozen=True, slots=True)
class Booked:
    """What was written: one reservation, or those of a series, as they are by now; and the plan it was written by."""

    reservations: tuple[Reservation, ...]
    plan: Plan


def plan_reserve(site: Site, request: ReserveRequest) -> Booked:
    """What a request would come to now, with the rows that would be written; nothing is."""
    row = ready_instance(site, request.instance)
    snapshot = _snapshot(site)
    found = decide_reserve(snapshot, replace(request, owner=row.owner), identifier=_new_id())
    return Booked(found.rows, found.plan)


def other_time(request: ReserveRequest, plan: Plan, *, now: datetime, zone: tzinfo) -> str:
    """The command that asks for the time at which a refused booking would fit; empty where none is known."""
    if plan.decision is not Verdict.REFUSED or plan.when is None:
        return ""
    model = "" if request.model == "*" else request.model
    options = {"--model": model, "--class": request.class_name, "--host": request.host}
    more = "".join(f" {name} {shlex.quote(value)}" for name, value in options.items() if value)
    length, at = format_duration(request.duration_s), show_instant(plan.when, now=now, zone=zone)
    more += " --weekly" if request.weekly else ""
    return f'lxgpu reserve {request.instance} --gpus {request.gpus} --for {length} --at "{at}"{more}'


def reserve(site: Site, request: ReserveRequest, *, begin: bool = True) -> Booked:
    """Write a request down, and begin with what it asks for now; without `begin` that is left to the daemon.

    Errors: the reasons of the policy when it refuses; `not_found`, `not_ready`.
    """
    ensure_identity(site)
    ready_instance(site, request.instance)
    identifier = _new_id()

    def write(tx: Tx, now: Snapshot) -> Decided:
        owner = ready_row(now, request.instance).owner
        decided = decide_reserve(now, replace(request, owner=owner), identifier=identifier)
        if decided.plan.decision is Verdict.REFUSED:
            fix = other_time(request, decided.plan, now=now.now, zone=now.policy.zone)
            raise_if_refused(decided.plan, f"reserve {request.instance}", now.policy, fix=fix)
        tx.put(*decided.rows)
        for row in decided.rows:
            tx.event("reserved", row.instance, rule=row.kind.value, detail=_facts(row, decided.plan))
        return decided

    decided = _on_one_version(site, write)
    mirror_promises(site)
    if begin:
        tick(_silent(site))
    rows = (site.inventory.reservation(row.id) or row for row in decided.rows)
    return Booked(tuple(rows), decided.plan)


def find(site: Site, identifier: str) -> Reservation:
    """A reservation by its id or a unique beginning of it, closed ones by the whole id only; error `not_found`."""
    known = site.inventory.reservation(identifier)
    if known is not None:
        return known
    near = [row for row in site.inventory.read().reservations if row.id.startswith(identifier)] if identifier else []
    if len(near) == 1:
        return near[0]
    if near:
        names = [row.id for row in near]
        raise LxgpuError("usage", f"{identifier} is the beginning of {len(near)} ids", why=names, fix="write one out")
    raise LxgpuError(
        "not_found",
        f"there is no reservation {identifier}",
        why="no open one begins so, and none of the past is called so",
        fix="lxgpu reservations lists those there are",
    )


def plan_cancel(site: Site, identifier: str, *, series: bool = False) -> Plan:
    """What cancelling would do; nothing is written."""
    rows = _with_series(site, _of_series(find(site, identifier), series=series), series=series)
    steps = tuple(PlannedStep("cancel", row.instance, None, None, f"{row.kind.value} {row.id}") for row in rows)
    return Plan(Verdict.GRANTED, steps=steps)


def cancel(
    site: Site, identifier: str, *, instance: str | None = None, series: bool = False, begin: bool = True
) -> tuple[Reservation, ...]:
    """End reservations: before the cards are there nothing is left of them; a running one gives its time back.

    The cards of a running one are kept, like any whose time is over, until somebody waits. `instance`: only if it is
    that one's. Without `begin` what follows from it is left to the daemon. Errors: `not_found`, `conflict` (it is over
    already).
    """
    ensure_identity(site)
    row = _of_instance(find(site, identifier), instance)
    _of_series(row, series=series)

    def write(tx: Tx, now: Snapshot) -> tuple[Reservation, ...]:
        rows = [one for one in now.records.reservations if one.id == row.id or (series and _same_series(one, row))]
        if not rows:
            why = "it was over before; what is over stands in the history and changes no more"
            raise LxgpuError("conflict", f"{row.id} is {_over_as(site, row)}", why=why, fix="nothing needs to be done")
        desk = Desk(now)
        for one in rows:
            end(desk, one, ReservationState.CANCELLED, f"cancelled by {site.actor}")
            for held in desk.live(one.id):
                if held.state in KEPT and not outlasts(held, one):
                    desk.put(replace(held, until=now.now))
        write_down(site, tx, now, desk.agenda())
        return tuple(desk.reservations[one.id] for one in rows)

    ended = _on_one_version(site, write)
    mirror_promises(site)
    for name in dict.fromkeys(one.instance for one in ended):
        mirror_holds(site, name)
    if begin:
        tick(_silent(site))
    return ended


def plan_edit(site: Site, identifier: str, **changes: Unpack[Changes]) -> Plan:
    """What a change would come to; nothing is written."""
    row = find(site, identifier)
    return decide_edit(_snapshot(site), row, **changes).plan


def edit(
    site: Site, identifier: str, *, instance: str | None = None, begin: bool = True, **changes: Unpack[Changes]
) -> Reservation:
    """Change what is still to come of a reservation, as one thing; refused whole when it does not fit.

    `instance` and `begin` are those of `cancel`.
    """
    ensure_identity(site)
    row = _of_instance(find(site, identifier), instance)

    def write(tx: Tx, now: Snapshot) -> Reservation:
        current = now.records.reservation(row.id)
        if current is None:
            why = "what is over stands in the history and changes no more"
            raise LxgpuError("conflict", f"{row.id} is over already", why=why, fix="book again: lxgpu reserve")
        decided = decide_edit(now, current, **changes)
        if decided.plan.decision is Verdict.REFUSED:
            raise_if_refused(decided.plan, f"change {row.id}", now.policy)
        changed = decided.rows[0]
        tx.put(changed)
        mine = sorted((held for held in now.records.held_by(row.instance) if held.reservation == row.id), key=_newest)
        for position, held in enumerate(mine):
            if position >= changed.gpus:  # no part of it any more: it goes to who waits, or is the lease it was before
                left = held.until if outlasts(held, current) else now.now
                tx.put(replace(held, reservation=None, until=left))
            elif changed.until != current.until and not (outlasts(held, current) and outlasts(held, changed)):
                tx.put(replace(held, until=changed.until))
        tx.event("edited", changed.instance, rule=changed.kind.value, detail=_facts(changed, decided.plan))
        return changed

    changed = _on_one_version(site, write)
    mirror_promises(site)
    mirror_holds(site, changed.instance)
    if begin:
        tick(_silent(site))
    return site.inventory.reservation(changed.id) or changed


def wait(site: Site, identifier: str, *, timeout_s: float | None = None) -> Reservation:
    """Wait until a reservation has its cards, ticking meanwhile.

    Errors: `no_capacity` when the time is over (it stays in its place) or the start failed; `cancelled`.
    """
    begun, told = site.clock.monotonic(), ""
    while True:
        row = find(site, identifier)
        if row.state is ReservationState.ACTIVE or (row.kind is Kind.RETURN and row.outcome == "returned"):
            return row
        if not row.open:
            code = "cancelled" if row.state in _ENDS else "no_capacity"
            raise LxgpuError(code, f"{row.id} is {row.state.value}", why=row.outcome, fix=f"lxgpu why {row.id}")
        if timeout_s is not None and site.clock.monotonic() - begun >= timeout_s:
            raise LxgpuError(
                "no_capacity",
                f"{row.id} is still {row.state.value}",
                why=f"waited {timeout_s:.0f} s; it stays in its place",
                fix=f"lxgpu reservation show {row.id}; lxgpu why {row.id}",
            )
        if row.state.value != told:
            told = row.state.value
            site.say(f"{row.id} is {told}")
        site.clock.sleep(POLL_S)
        tick(_silent(site))


def _on_one_version(site: Site, write: Callable[[Tx, Snapshot], T]) -> T:
    """One look, and what is decided on it with the rows there are."""
    return on_one_version(site, partial(look, site, observe.look(site, readings=True)), write)


def _snapshot(site: Site) -> Snapshot:
    return look(site, observe.look(site, readings=True), site.inventory.read())


def _silent(site: Site) -> Site:
    """The site for a tick that a command makes: what it does for others is not this command's to tell."""
    return replace(site, say=lambda _text: None)


def _of_instance(row: Reservation, instance: str | None) -> Reservation:
    """The row, if it is that one's; error `not_found`: another's is as unknown as none."""
    if instance is not None and row.instance != instance:
        raise LxgpuError("not_found", f"there is no reservation {row.id}", fix="lxgpu reservations lists them")
    return row


def _over_as(site: Site, row: Reservation) -> str:
    """How a reservation ended, as it is by now."""
    found = site.inventory.reservation(row.id) or row
    return f"{found.state.value} already"


def _newest(row: Assignment) -> tuple[datetime, str]:
    """The order in which cards stay when there are to be fewer: the oldest first."""
    return row.since or row.created_at, str(row.slot)


def _of_series(row: Reservation, *, series: bool) -> Reservation:
    """The row, if it is of a series where one is asked for."""
    if series and not row.series:
        fix = f"lxgpu reservation cancel {row.id} gives this one up"
        raise LxgpuError("usage", f"{row.id} is not one of a weekly series", fix=fix)
    return row


def _with_series(site: Site, row: Reservation, *, series: bool) -> tuple[Reservation, ...]:
    if not series:
        return (row,)
    return tuple(one for one in site.inventory.read().reservations if one.id == row.id or _same_series(one, row))


def _same_series(one: Reservation, other: Reservation) -> bool:
    return bool(one.series) and one.series == other.series


def _facts(row: Reservation, plan: Plan) -> dict[str, object]:
    return {
        "reservation": row.id,
        "gpus": row.gpus,
        "model": row.pool or row.model,
        "start": row.start.isoformat() if row.start else None,
        "until": row.until.isoformat() if row.until else None,
        "duration_s": row.duration_s,
        "decision": plan.decision.value,
        "reasons": [reason.code for reason in plan.reasons],
        "no_warning": row.no_warning or None,
    }


def _new_id() -> str:
    return f"r{uuid.uuid4().hex[:7]}"
