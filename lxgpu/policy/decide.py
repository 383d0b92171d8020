"""Requests in, plans out. A plan that is not granted says every reason at once."""

from __future__ import annotations

from lxgpu.figures import n_gpus
from lxgpu.instants import format_utc
from lxgpu.model.assignment import Assignment
from lxgpu.model.gpu import Slot
from lxgpu.model.instance import InstanceKind
from lxgpu.model.plan import Plan, PlannedStep, Reason, Verdict
from lxgpu.model.request import CreateRequest, GpuRequest
from lxgpu.model.snapshot import Snapshot
from lxgpu.policy.admission import admit
from lxgpu.policy.lease import booked_from, booked_reasons
from lxgpu.policy.lookup import own_machine
from lxgpu.policy.placement import place

WAITING = frozenset({"no_capacity", "not_free", "booked"})
"""Reasons that time may cure: the request could be booked."""


def decide_create(snapshot: Snapshot, request: CreateRequest) -> Plan:
    """A new container with its cards."""
    reasons = [*_name_reasons(snapshot, request), *admit(snapshot, request.gpus)]
    slots = _placed(snapshot, request.gpus, reasons)
    reasons += booked_reasons(snapshot, request.name, slots)
    run = request.kind is InstanceKind.RUN
    checks = "cards and limits" if run else "SSH login through the published port, cards and limits"
    steps = (
        PlannedStep("create", request.name, why=f"from image {request.image[:12]}, profile {request.profile}"),
        *_attach_steps(snapshot, request.gpus, slots),
        PlannedStep("start", request.name),
        PlannedStep("verify", request.name, why=checks),
        *(
            [PlannedStep("run", request.name), PlannedStep("purge", request.name, why="whatever CMD did")]
            if run
            else []
        ),
    )
    return _plan(reasons, steps, slots)


def decide_attach(snapshot: Snapshot, request: GpuRequest) -> Plan:
    """More cards for a container that exists."""
    reasons = list(admit(snapshot, request))
    slots = _placed(snapshot, request, reasons)
    reasons += booked_reasons(snapshot, request.instance, slots)
    return _plan(reasons, _attach_steps(snapshot, request, slots), slots)


def decide_release(
    snapshot: Snapshot, instance: str, *, count: int | None = None, uuids: tuple[str, ...] = (), busy: bool = False
) -> Plan:
    """Which cards an instance gives back: the named ones, or `count` of them (None: all).

    Unbooked ones go first, then those whose time is over, idle ones, the newest. A card in use is given back only by
    name or with `busy`. Codes: `not_held`, `busy`.
    """
    held = snapshot.records.held_by(instance)
    reasons = [Reason("not_held", f"{instance} does not hold {uuid}") for uuid in uuids if not _holds(held, uuid)]
    if count is not None and count > len(held):
        reasons.append(
            Reason("not_held", f"{instance} holds {len(held)} of the {n_gpus(count)} that shall be given back")
        )
    if uuids:
        chosen = [row for row in held if row.slot.gpu in uuids or row.slot.card in uuids]
    else:
        working = {row.slot: _working(snapshot, row.slot) for row in held}
        order = sorted(held, key=lambda row: _dearness(snapshot, row, working=working[row.slot]))
        chosen = order[: len(held) if count is None else count]
        in_use = [row.slot.gpu for row in chosen if working[row.slot]]
        if in_use and not busy:
            reasons.append(Reason("busy", f"in use now: {', '.join(in_use)}"))
    slots = tuple(sorted(row.slot for row in chosen))
    steps = tuple(PlannedStep("release", instance, gpu=slot.gpu, why="given back by the owner") for slot in slots)
    return _plan(reasons, steps, slots)


def _name_reasons(snapshot: Snapshot, request: CreateRequest) -> list[Reason]:
    records, reasons = snapshot.records, []
    if records.instance(request.name) is not None:
        reasons.append(Reason("exists", f"there is a container {request.name} already"))
    elif snapshot.seen.sighting(request.name) is not None:
        reasons.append(Reason("exists", f"LXD has an instance {request.name} that lxgpu did not make"))
    other = (
        None if request.kind is InstanceKind.RUN else own_machine(records.instances, request.owner, but=request.name)
    )
    if other is not None:
        reasons.append(Reason("exists", f"{request.owner} has the container {other.name} on this host already"))
    return reasons


def _placed(snapshot: Snapshot, request: GpuRequest, reasons: list[Reason]) -> tuple[Slot, ...]:
    slots: list[Slot] = []
    for item in place(snapshot, request):
        if isinstance(item, Reason):
            reasons.append(item)
        else:
            slots.append(item)
    return tuple(slots)


def _attach_steps(snapshot: Snapshot, request: GpuRequest, slots: tuple[Slot, ...]) -> tuple[PlannedStep, ...]:
    booked = booked_from(snapshot, request.instance, slots)
    why = f"free until {format_utc(booked)}, when it is booked" if booked else "free"
    return tuple(PlannedStep("attach", request.instance, gpu=slot.gpu, why=why) for slot in slots)


def _holds(held: tuple[Assignment, ...], uuid: str) -> bool:
    return any(uuid in {row.slot.gpu, row.slot.card} for row in held)


def _dearness(snapshot: Snapshot, row: Assignment, *, working: bool) -> tuple[bool, bool, bool, float, Slot]:
    """How little somebody wants to lose a card: booked, its time not over, at work, long had."""
    booking = snapshot.records.reservation(row.reservation)
    lasts = row.until is None or row.until > snapshot.now
    return (booking is not None, lasts, working, -(row.since or row.created_at).timestamp(), row.slot)


def _working(snapshot: Snapshot, slot: Slot) -> bool:
    """Whether NVML shows a process on the card, or cannot tell: not known is not idle."""
    reading = snapshot.seen.readings.of(slot.gpu) if snapshot.seen.readings else None
    return reading is None or reading.processes is None or bool(reading.processes)


def _plan(reasons: list[Reason], steps: tuple[PlannedStep, ...], slots: tuple[Slot, ...]) -> Plan:
    if not reasons:
        return Plan(decision=Verdict.GRANTED, steps=steps, slots=slots)
    curable = all(reason.code in WAITING for reason in reasons)
    return Plan(decision=Verdict.WAITING if curable else Verdict.REFUSED, reasons=tuple(reasons))
