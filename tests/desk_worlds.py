"""Whole sites at random, of two hosts and five people, for what is decided in one look; times are minutes from now."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count

from lxgpu.model.assignment import Assignment, AssignmentState, Card, SlotRecord
from lxgpu.model.gpu import Gpu, GpuProcess, Reading, Readings, Slot
from lxgpu.model.instance import Instance, InstanceState
from lxgpu.model.operation import Identity, Operation
from lxgpu.model.quota import Group, Policy, Terms, Total
from lxgpu.model.reservation import Kind, Notice, Reservation, ReservationState
from lxgpu.model.rules import DAY, MINUTE, Allowance, IdleRules, PriorityClass, Rules
from lxgpu.model.snapshot import Observation, Records, Snapshot
from lxgpu.model.usage import IdleVerdict, Use

NOW = datetime(2027, 3, 1, 12, 0, tzinfo=UTC)
PEOPLE = ("ann", "bob", "cid", "dan", "eva")
A100, T4 = "NVIDIA A100", "NVIDIA T4"
_TIMES = {"min_runtime_s": 10 * MINUTE, "grace_s": MINUTE, "term_wait_s": MINUTE}
POLICY = Policy(
    classes={
        "high": PriorityClass("high", priority=90, **_TIMES),
        "normal": PriorityClass("normal", priority=50, max_preemptions=Allowance(1, DAY), **_TIMES),
        "low": PriorityClass("low", priority=10, **_TIMES),
    },
    defaults=Terms(limit=4),
    users={"ann": Terms(guaranteed=1), "bob": Terms(weight=3.0, limit=1), "cid": Terms(guaranteed=2)},
    groups={"vision": Group("vision", members=("cid", "dan"), total=Total(guaranteed=2, limit=3))},
    rules=Rules(idle=IdleRules(window_s=10 * MINUTE, warn_s=(5 * MINUTE,))),
)


def site(rolls: random.Random) -> Snapshot:
    """What host h looks at: its own cards and containers, and the rows of all."""
    here = [Gpu(f"g{n}", f"0000:{n:02x}:00.0", rolls.choice((A100, T4)), "h") for n in range(rolls.randint(2, 7))]
    there = [Gpu(f"k{n}", f"0000:{n:02x}:00.0", rolls.choice((A100, T4)), "k") for n in range(3)]
    reservations = [_reservation(rolls, number) for number in range(rolls.randint(0, 14))]
    reservations = [_bound(rolls, row, [gpu.model for gpu in here]) for row in reservations]
    held = _assignments(rolls, [*here, *there], reservations)
    instances = [Instance(who, who, rolls.choice("hhhk"), InstanceState.READY, NOW, running=True) for who in PEOPLE]
    if rolls.random() < 0.2:
        instances[-1] = replace(instances[-1], state=InstanceState.SUSPENDED)
    records = Records(
        version=rolls.randint(1, 9),
        identity=Identity("i", 1),
        instances=tuple(instances[: rolls.choice((4, 5, 5, 5))]),
        assignments=tuple(held),
        slots=tuple(
            SlotRecord(
                Slot(gpu.uuid), gpu.host, quarantine="held by nobody knows whom" if rolls.random() < 0.05 else ""
            )
            for gpu in (*here, *there)
        ),
        cards=tuple(
            Card(gpu.uuid, gpu.host, gpu.pci, gpu.model, None, NOW, closed="fan" if rolls.random() < 0.05 else "")
            for gpu in (*here, *there)
        ),
        operations=tuple(Operation(f"o{who}", "attach", who, NOW, "me") for who in PEOPLE if rolls.random() < 0.05),
        reservations=tuple(reservations),
        notices=tuple(Notice(f"n{who}", "warned", who, who, NOW) for who in PEOPLE if rolls.random() < 0.05),
    )
    readings = Readings(items=tuple(_reading(rolls, gpu, held) for gpu in here))
    return Snapshot(
        now=NOW,
        records=records,
        seen=Observation("h", "boot", NOW, gpus=tuple(here), readings=readings),
        policy=POLICY,
        verdicts={row.slot: _verdict(rolls) for row in held if rolls.random() < 0.7},
        past=tuple(_past(rolls, number) for number in range(rolls.randint(0, 3))),
        shows=frozenset(row.id for row in reservations if rolls.random() < 0.5),
    )


def _reservation(rolls: random.Random, number: int) -> Reservation:
    kind = rolls.choice((Kind.REQUEST, Kind.REQUEST, Kind.RETURN, Kind.BOOKING))
    begun = kind is not Kind.REQUEST and rolls.random() < 0.4
    booked = (ReservationState.ACTIVE, ReservationState.PREPARING, ReservationState.SCHEDULED)
    state = ReservationState.WAITING
    if kind is Kind.BOOKING:
        state = rolls.choice(booked)
    elif begun:
        state = ReservationState.PREPARING
    length = timedelta(minutes=rolls.choice((5, 60, 600)))
    start = None
    if state is not ReservationState.WAITING:
        ahead = state is ReservationState.SCHEDULED
        start = _at(rolls.choice((5, 10, 30, 65, 800) if ahead else (-70, -30, -10, -1)))
    who = rolls.choice(PEOPLE)
    return Reservation(
        id=f"r{number:02}",
        instance=who,
        owner=who,
        kind=kind,
        gpus=rolls.choice((1, 1, 1, 2, 2, 3, 5)),
        state=state,
        created_at=_at(rolls.choice((-900, -100, -60, -60, -5))),
        duration_s=int(length.total_seconds()),
        class_name=rolls.choice(("high", "normal", "low")),
        model=rolls.choice(("*", "A100", "T4")),
        start=start,
        until=start + length if start and kind is Kind.BOOKING else None,
        soft=rolls.random() < 0.2,
        prefers="g0" if kind is Kind.RETURN else "",
        dies=_at(rolls.choice((-1, 500))) if kind is Kind.RETURN and rolls.random() < 0.3 else None,
        told={"asap": True} if kind is Kind.BOOKING and rolls.random() < 0.3 else {},
    )


def _bound(rolls: random.Random, row: Reservation, models: list[str]) -> Reservation:
    """To a host and a model, as it must be or may be."""
    if row.state is ReservationState.WAITING and row.kind is Kind.REQUEST:
        return replace(row, host=rolls.choice(("", "", "h", "h", "h", "k")))
    return replace(row, host=rolls.choice("hhhhk"), pool=rolls.choice(models))


def _assignments(rolls: random.Random, gpus: list[Gpu], reservations: list[Reservation]) -> list[Assignment]:
    """At most one holder and one successor of each card."""
    numbers = count()
    rows: list[Assignment] = []
    begun = [row for row in reservations if row.state is not ReservationState.WAITING]
    for gpu in gpus:
        mine = [row for row in begun if row.host == gpu.host]
        held = rolls.random() < 0.8
        if held:
            of = rolls.choice(mine) if mine and rolls.random() < 0.3 else None
            rows.append(_holder(rolls, f"a{next(numbers):02}", gpu, of))
        if mine and rolls.random() < (0.3 if held else 0.5):
            of = rolls.choice(mine)
            planned = AssignmentState.PLANNED
            rows.append(
                Assignment(f"a{next(numbers):02}", Slot(gpu.uuid), of.instance, planned, _at(-3), reservation=of.id)
            )
    rolls.shuffle(rows)
    return rows


def _holder(rolls: random.Random, name: str, gpu: Gpu, of: Reservation | None) -> Assignment:
    states = [AssignmentState.ACTIVE] * 6 + [AssignmentState.WARNED] * 3
    states += [AssignmentState.RELEASING, AssignmentState.ATTACHING, AssignmentState.QUARANTINED]
    state = rolls.choice(states)
    begun = _at(-rolls.choice((5, 60, 300)))
    warned = state is AssignmentState.WARNED
    return Assignment(
        id=name,
        slot=Slot(gpu.uuid),
        instance=of.instance if of else rolls.choice(PEOPLE),
        state=state,
        created_at=begun,
        class_name=rolls.choice(("high", "normal", "low", "low")),
        since=begun,
        until=_at(rolls.choice((-5, 3, 400))) if rolls.random() < 0.5 else None,
        due_at=_at(rolls.choice((-1, 1))) if warned else None,
        reservation=of.id if of else None,
        outcome=rolls.choice(("priority", "expired", "idle")) if warned else "",
    )


def _reading(rolls: random.Random, gpu: Gpu, held: list[Assignment]) -> Reading:
    holders = [row.instance for row in held if row.slot.gpu == gpu.uuid and row.live]
    work = tuple(GpuProcess(rolls.randint(1, 4), 2**30, "compute", instance=who) for who in holders)
    return Reading(gpu.uuid, NOW, processes=work, fault="lost" if rolls.random() < 0.04 else None)


def _verdict(rolls: random.Random) -> IdleVerdict:
    if rolls.random() < 0.6:
        return IdleVerdict(Use.BUSY, since=NOW)
    return IdleVerdict(Use.IDLE, since=_at(-rolls.choice((6, 30))), parked=rolls.random() < 0.3)


def _past(rolls: random.Random, number: int) -> Assignment:
    end, who = _at(-rolls.choice((30, 3000))), rolls.choice(PEOPLE)
    closed = AssignmentState.CLOSED
    return Assignment(
        f"p{number}", Slot("gone"), who, closed, _at(-4000), since=_at(-4000), closed_at=end, outcome="preempted"
    )


def _at(minutes: float) -> datetime:
    return NOW + timedelta(minutes=minutes)
