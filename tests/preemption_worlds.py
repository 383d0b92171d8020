"""Small worlds for questions about who must yield, written in few words; all times are minutes from now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from lxgpu.model.assignment import Assignment, AssignmentState, Card, SlotRecord
from lxgpu.model.gpu import Gpu, GpuProcess, Reading, Readings, Slot
from lxgpu.model.instance import Instance, InstanceState
from lxgpu.model.operation import Identity
from lxgpu.model.quota import Group, Policy, Terms, Total
from lxgpu.model.request import Need
from lxgpu.model.reservation import Kind, Reservation, ReservationState
from lxgpu.model.rules import DAY, HOUR, MINUTE, Allowance, IdleRules, IdleWhen, PriorityClass, Rules
from lxgpu.model.snapshot import Observation, Records, Snapshot
from lxgpu.model.usage import IdleVerdict, Use

NOW = datetime(2027, 3, 1, 12, 0, tzinfo=UTC)
CLASSES = {
    "urgent": PriorityClass("urgent", priority=100, preemptible=False),
    "high": PriorityClass("high", priority=80),
    "normal": PriorityClass(
        "normal",
        priority=50,
        min_runtime_s=HOUR,
        grace_s=5 * MINUTE,
        term_wait_s=2 * MINUTE,
        preemption_threshold=80,
        max_preemptions=Allowance(2, DAY),
    ),
    "low": PriorityClass("low", priority=20, min_runtime_s=30 * MINUTE, grace_s=MINUTE, term_wait_s=MINUTE),
    "scavenge": PriorityClass("scavenge", priority=10, min_runtime_s=30 * MINUTE, grace_s=MINUTE, term_wait_s=MINUTE),
}
"""The fence has two minutes: a lead of 9 minutes for normal, 4 for low and scavenge."""


def at(minutes: float | None) -> datetime | None:
    """That many minutes from now."""
    return None if minutes is None else NOW + timedelta(minutes=minutes)


def policy(
    people: Mapping[str, Mapping[str, Any]], groups: Mapping[str, Mapping[str, Any]], *, idle: str = "needed"
) -> Policy:
    """The classes above; everybody may have 8 cards in class normal, where nothing else is said."""
    users = {name: Terms(**terms) for name, terms in people.items()}
    made = {
        name: Group(
            name, members=tuple(each["members"]), total=Total(each.get("guaranteed", 0), limit=each.get("limit"))
        )
        for name, each in groups.items()
    }
    rules = Rules(idle=IdleRules(when=IdleWhen(idle)))
    return Policy(classes=CLASSES, defaults=Terms(limit=8), users=users, groups=made, rules=rules)


def assignment(held: Mapping[str, Any]) -> Assignment:
    """A held slot: `card` and `by`, and if they matter `class`, `had` (for how long), `until`, `booking`, `state`."""
    state = AssignmentState(held.get("state", "active"))
    begun = at(-held.get("had", 600))
    assert begun is not None
    return Assignment(
        id=f"held-{held['card']}",
        slot=Slot(held["card"]),
        instance=held["by"],
        state=state,
        created_at=begun,
        class_name=held.get("class", "normal"),
        since=begun,
        until=at(held.get("until")),
        due_at=at(held.get("due")),
        reservation=held.get("booking"),
        outcome=held.get("rule", ""),
    )


def verdict(held: Mapping[str, Any]) -> IdleVerdict | None:
    """`idle` is for how long; `parked`: with held memory; `left_alone`: for how much longer. Else it works."""
    if held.get("unjudged"):
        return None
    if held.get("idle") is None:
        return IdleVerdict(Use.BUSY, since=NOW)
    kept = at(held.get("left_alone"))
    return IdleVerdict(Use.IDLE, since=at(-held["idle"]), parked=held.get("parked", False), protected_until=kept)


def reading(held: Mapping[str, Any]) -> Reading:
    """The card's processes: `pids` are the holder's, `others` the host's own. `mute`: it cannot tell who it is."""
    mine = [GpuProcess(pid, 2**30, "compute", instance=held["by"]) for pid in held.get("pids", ())]
    others = [GpuProcess(pid, 2**20, "graphics") for pid in held.get("others", ())]
    told = None if held.get("untold") else (*mine, *others)
    return Reading("" if held.get("mute") else held["card"], NOW, processes=told, fault=held.get("fault"))


def promise(held: Mapping[str, Any]) -> Assignment | None:
    """Whom the slot goes to next: `next` is a reservation of `next_by` (bob when not said)."""
    if "next" not in held:
        return None
    who = held.get("next_by", "bob")
    return Assignment(
        f"next-{held['card']}", Slot(held["card"]), who, AssignmentState.PLANNED, NOW, reservation=held["next"]
    )


def reservation(name: str, facts: Mapping[str, Any]) -> Reservation:
    """A booking of `by` that runs, unless something else is said."""
    made = at(-facts.get("made", 0))
    assert made is not None
    return Reservation(
        id=name,
        instance=facts["by"],
        owner=facts["by"],
        kind=Kind(facts.get("kind", "booking")),
        gpus=facts.get("gpus", 1),
        state=ReservationState(facts.get("state", "active")),
        created_at=made,
        duration_s=HOUR,
        start=at(facts.get("start", -60)),
        until=at(facts.get("until", 60)),
        soft=facts.get("soft", False),
        told={"asap": True} if facts.get("asap") else {},
    )


def closed(past: Mapping[str, Any], number: int) -> Assignment:
    """A slot that was had: `by` whom, how long `ago` it ended and `how` (preempted, unless said)."""
    end = at(-past["ago"])
    assert end is not None
    return Assignment(
        f"past-{number}",
        Slot("gone"),
        past["by"],
        AssignmentState.CLOSED,
        end,
        closed_at=end,
        outcome=past.get("how", "preempted"),
    )


def need(facts: Mapping[str, Any]) -> Need:
    """Cards for bob, in class high and ten minutes from now, unless something else is said."""
    moment = at(facts.get("at", 10))
    assert moment is not None
    return Need(
        instance=facts.get("by", "bob"),
        owner=facts.get("by", "bob"),
        gpus=facts.get("gpus", 1),
        class_name=facts.get("class", "high"),
        at=moment,
        pool=facts.get("pool", "*"),
        kind=Kind(facts.get("kind", "request")),
        reservation=facts.get("reservation", ""),
        no_warning=facts.get("no_warning", False),
    )


def world(case: Mapping[str, Any], *, order: Sequence[int] | None = None) -> Snapshot:
    """The snapshot of a case; `order` shuffles what is held."""
    held = list(case.get("held", ()))
    held = [held[index] for index in order] if order is not None else held
    names = sorted({each["by"] for each in held} | {"bob"})
    promises = [row for each in held if (row := promise(each)) is not None]
    records = Records(
        version=1,
        identity=Identity("i", 1),
        instances=tuple(Instance(name, name, "h", InstanceState.READY, NOW) for name in names),
        assignments=(*(assignment(each) for each in held), *promises),
        slots=tuple(
            SlotRecord(Slot(each["card"]), "h", quarantine=each["stuck"]) for each in held if each.get("stuck")
        ),
        cards=tuple(
            Card(each["card"], "h", "", "", None, NOW, closed=each["closed"]) for each in held if each.get("closed")
        ),
        reservations=tuple(reservation(name, facts) for name, facts in case.get("reservations", {}).items()),
    )
    gpus = tuple(
        Gpu(each["card"], f"0000:{index:02x}:00.0", each.get("model", "A100"), "h")
        for index, each in enumerate(held)
        if not each.get("elsewhere")
    )
    readings = Readings(items=tuple(reading(each) for each in held), error=case.get("nvml"))
    return Snapshot(
        now=NOW,
        records=records,
        seen=Observation("h", "boot", NOW, gpus=gpus, readings=readings),
        policy=policy(case.get("people", {}), case.get("groups", {}), idle=case.get("idle_when", "needed")),
        verdicts={Slot(each["card"]): seen for each in held if (seen := verdict(each)) is not None},
        past=tuple(closed(past, number) for number, past in enumerate(case.get("past", ()))),
    )
