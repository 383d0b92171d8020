"""Snapshots for the calendar and the queue from plain data: times are hours from `NOW`, a Monday 08:00 UTC."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from lxgpu.config.policy import load_policy
from lxgpu.model.assignment import Assignment, AssignmentState, Card, SlotRecord
from lxgpu.model.gpu import Gpu, Reading, Readings, Slot
from lxgpu.model.instance import Instance, InstanceState, Person
from lxgpu.model.operation import Identity
from lxgpu.model.quota import Policy
from lxgpu.model.reservation import Kind, Reservation, ReservationState
from lxgpu.model.snapshot import Observation, Records, Snapshot

NOW = datetime(2027, 3, 1, 8, tzinfo=UTC)
HOST = "h"
A100, T4 = "NVIDIA A100", "NVIDIA T4"
MODELS = {"A100": A100, "T4": T4}
PLAIN = "{version: 1, defaults: {limit: 8}, reservations: {max_gpus: 8}}"


def hours(number: float) -> datetime:
    """That many hours after `NOW`."""
    return NOW + timedelta(hours=number)


def policy_of(text: str, folder: Path) -> Policy:
    """A policy as its file has it."""
    path = folder / "policy.yaml"
    path.write_text(text, encoding="utf-8")
    return load_policy(path)


def cards(counts: Mapping[str, int]) -> tuple[Gpu, ...]:
    """Cards of a host: how many of which model, UUIDs like `A100-0`."""
    names = [(name, number) for name, count in counts.items() for number in range(count)]
    return tuple(
        Gpu(f"{name}-{number}", f"0000:{place:02x}:00.0", MODELS.get(name, name), HOST)
        for place, (name, number) in enumerate(names)
    )


def reservation(id: str, who: str, *, kind: str = "booking", **fields: Any) -> Reservation:  # noqa: A002 -- the cases' word
    """One by the cases' words: gpus, from, for or until, asked (hours), class, model, pool, state."""
    start = hours(fields["from"]) if "from" in fields else None
    until = hours(fields["until"]) if "until" in fields else None
    length = until - start if until and start else timedelta(hours=fields.get("for", 1))
    if kind == "booking" and start and until is None:
        until = start + length
    usual = {"booking": "scheduled", "request": "waiting", "return": "waiting"}[kind]
    return Reservation(
        id=id,
        instance=fields.get("instance", who),
        owner=who,
        kind=Kind(kind),
        gpus=fields.get("gpus", 1),
        state=ReservationState(fields.get("state", usual)),
        created_at=hours(fields.get("asked", -1)),
        duration_s=int(length.total_seconds()),
        class_name=fields.get("class", "normal"),
        model=fields.get("model", "*"),
        host=HOST if kind == "booking" else fields.get("host", ""),
        pool=MODELS[fields.get("pool", "A100")] if kind == "booking" else "",
        start=start,
        until=until,
        soft=fields.get("soft", False),
    )


def holding(number: int, card: str, who: str, **fields: Any) -> Assignment:
    """A card that somebody holds, by the cases' words: since, until (hours), of (a reservation), class, state."""
    return Assignment(
        id=f"a{number}",
        slot=Slot(card),
        instance=fields.get("instance", who),
        state=AssignmentState(fields.get("state", "active")),
        created_at=hours(fields.get("since", -1)),
        class_name=fields.get("class", "normal"),
        since=hours(fields.get("since", -1)),
        until=hours(fields["until"]) if "until" in fields else None,
        reservation=fields.get("of"),
        closed_at=hours(fields["closed"]) if "closed" in fields else None,
    )


def world(
    policy: Policy,
    *,
    have: Mapping[str, int] | None = None,
    reservations: Sequence[Reservation] = (),
    held: Sequence[Assignment] = (),
    past: Sequence[Assignment] = (),
    out: Mapping[str, str] | None = None,
) -> Snapshot:
    """A host with cards, what is held and reserved; `out` says which cards are `closed`, `quarantined` or `sick`."""
    gpus = cards(have or {"A100": 4})
    against = out or {}
    people = sorted({row.owner for row in reservations} | {row.instance for row in (*held, *past)})
    records = Records(
        version=1,
        identity=Identity("i", 1),
        persons=tuple(Person(who, 2000 + number, 22000 + number, NOW) for number, who in enumerate(people)),
        instances=tuple(Instance(who, who, HOST, InstanceState.READY, NOW) for who in people),
        assignments=tuple(held),
        reservations=tuple(reservations),
        slots=tuple(
            SlotRecord(Slot(uuid), HOST, quarantine="held by nobody knows whom")
            for uuid, why in against.items()
            if why == "quarantined"
        ),
        cards=tuple(
            Card(
                gpu.uuid, HOST, gpu.pci, gpu.model, None, NOW, closed="fan" if against.get(gpu.uuid) == "closed" else ""
            )
            for gpu in gpus
        ),
    )
    readings = tuple(Reading(gpu.uuid, NOW, fault="lost" if against.get(gpu.uuid) == "sick" else None) for gpu in gpus)
    seen = Observation(HOST, "boot", NOW, gpus=gpus, readings=Readings(items=readings))
    return Snapshot(now=NOW, records=records, seen=seen, policy=policy, past=tuple(past))


def from_case(case: Mapping[str, Any], folder: Path) -> Snapshot:
    """The world of one case: `policy`, `have`, `booked`, `waiting`, `held`, `past`, `out`; `copies` of one row."""
    rows = [
        reservation(**{**row, "id": f"{row['id']}{number or ''}"})
        for row in ({"copies": 1} | one for one in (*case.get("booked", ()), *case.get("waiting", ())))
        for number in range(row.pop("copies"))
    ]
    held, past = (
        [holding(number, **row) for number, row in enumerate(case.get(name, ()), start=first)]
        for name, first in (("held", 0), ("past", 1000))
    )
    policy = policy_of(case.get("policy", PLAIN), folder)
    return world(policy, have=case.get("have"), reservations=rows, held=held, past=past, out=case.get("out"))


def cases(name: str) -> list[dict[str, Any]]:
    """The cases of one file of tests/cases/booking."""
    return yaml.safe_load((Path(__file__).parent / "cases/booking" / f"{name}.yaml").read_text(encoding="utf-8"))
