"""What LXD carries of an inventory, read back as rows: what the instances say, and what the server promises; pure."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from lxgpu.config.keys import parse_keys
from lxgpu.errors import LxgpuError
from lxgpu.model.assignment import Assignment, AssignmentState, Card, SlotRecord
from lxgpu.model.gpu import Slot
from lxgpu.model.instance import Instance, InstanceKind, InstanceState, Key, Limits, Person, Sighting
from lxgpu.model.layout import names, whole
from lxgpu.model.reservation import Keep, Reservation
from lxgpu.model.slices import profiles
from lxgpu.model.snapshot import Observation, Row
from lxgpu.policy.drift import TEMPLATE_PREFIX, is_orphan
from lxgpu.services import promised
from lxgpu.services.identity import KEY_PROMISES
from lxgpu.services.wanted import KEY_HOLDS, KEY_INSTANCE, KEY_PERSON

_UNREADABLE = (ValueError, KeyError, TypeError, LxgpuError)

RESERVED = "lxgpu-"
"""No person's container has a name that begins so."""


@dataclass(slots=True)
class Found:
    """What LXD's configuration says; `troubles` are the texts for people."""

    people: dict[str, Person] = field(default_factory=dict)
    keys: list[Key] = field(default_factory=list)
    instances: list[Instance] = field(default_factory=list)
    assignments: list[Assignment] = field(default_factory=list)
    slots: dict[Slot, SlotRecord] = field(default_factory=dict)
    cards: dict[str, Card] = field(default_factory=dict)
    promised: list[Reservation | Keep] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)

    def rows(self) -> list[Row]:
        """All rows, people before what is theirs."""
        return [
            *self.people.values(),
            *self.keys,
            *self.instances,
            *self.assignments,
            *self.slots.values(),
            *self.cards.values(),
            *self.promised,
        ]


def read_back(seen: Observation, promises: Mapping[str, str], *, now: datetime) -> Found:
    """Everything that LXD carries, as rows; pure. What cannot be read is a trouble, not an end."""
    found = Found()
    for gpu in whole(seen.gpus):
        found.cards[gpu.uuid] = Card(
            uuid=gpu.uuid, host=seen.host, pci=gpu.pci, model=gpu.model, memory_bytes=gpu.memory_bytes, seen_at=now
        )
    for sighting in seen.sightings:
        if sighting.name.startswith(TEMPLATE_PREFIX):
            continue
        if is_orphan(sighting):
            text = "begun by a create that never ended; nobody ever had it, so it may be deleted in LXD"
            found.troubles.append(f"{sighting.name}: {text}")
        elif sighting.name.startswith(RESERVED):
            text = "left by a rebuild that was cut off; it may hold somebody's system: look, then rename or delete it"
            found.troubles.append(f"{sighting.name}: {text}")
        elif sighting.ours:
            try:
                _read_instance(found, sighting, host=seen.host)
            except _UNREADABLE as error:
                found.troubles.append(f"{sighting.name}: what it carries cannot be read ({error})")
    _read_promises(found, promises.get(KEY_PROMISES, "{}"), now=now)
    _settle_doubles(found, now=now)
    _settle_layouts(found, now=now)
    return found


def _read_instance(found: Found, sighting: Sighting, *, host: str) -> None:
    config = sighting.config
    person, row = json.loads(config[KEY_PERSON]), json.loads(config[KEY_INSTANCE])
    owner = Person(
        name=person["name"],
        uid=int(person["uid"]),
        ssh_port=int(person["ssh_port"]),
        created_at=datetime.fromisoformat(person["created_at"]),
    )
    state = InstanceState(row["state"])
    instance = Instance(
        name=sighting.name,
        owner=row["owner"],
        host=host,
        state=state,
        created_at=datetime.fromisoformat(row["created_at"]),
        uuid=sighting.uuid,
        class_name=row["class"],
        profile=row["profile"],
        image=row["image"],
        limits=Limits(**row["limits"]),
        address=row["address"],
        hwaddr=row["hwaddr"],
        running=bool(row["running"]),
        expires=_instant(row["expires"]),
        reason=row["reason"],
        deleted_at=_instant(row.get("deleted_at")),
        kind=InstanceKind(row.get("kind", InstanceKind.OWN)),
    )
    holds = [_read_hold(sighting.name, hold) for hold in json.loads(config.get(KEY_HOLDS, "[]"))]
    found.people[owner.name] = owner
    if state is not InstanceState.TRASHED:
        found.keys.extend(_read_keys(owner.name, person["keys"], added_at=owner.created_at))
    found.instances.append(instance)
    found.assignments.extend(holds)


def _read_hold(instance: str, hold: dict[str, Any]) -> Assignment:
    since = datetime.fromisoformat(hold["since"])
    return Assignment(
        id=hold["assignment"],
        slot=Slot(hold["slot"]),
        instance=instance,
        state=AssignmentState.ACTIVE,
        created_at=since,
        class_name=hold["class"],
        since=since,
        until=_instant(hold["until"]),
        reservation=hold["reservation"],
    )


def _read_keys(person: str, lines: list[str], *, added_at: datetime) -> list[Key]:
    """The keys of a person, who may have none."""
    keys = parse_keys("\n".join(lines)) if lines else ()
    return [Key(person=person, fingerprint=key.fingerprint, line=key.text, added_at=added_at) for key in keys]


def _read_promises(found: Found, text: str, *, now: datetime) -> None:
    """Each promise by itself, so that one that cannot be read takes no other with it."""
    try:
        promises = {kind: dict(entries) for kind, entries in json.loads(text or "{}").items()}
    except (ValueError, TypeError, AttributeError) as error:
        found.troubles.append(f"what LXD's configuration promises cannot be read ({error})")
        return
    for kind, entries in promises.items():
        for name, value in entries.items():
            try:
                _read_promise(found, kind, name, value, now=now)
            except _UNREADABLE as error:
                found.troubles.append(f"{kind} {name}: what LXD's configuration promises cannot be read ({error})")


def _read_promise(found: Found, kind: str, name: str, value: Any, *, now: datetime) -> None:  # noqa: ANN401 - JSON
    if kind == "people":
        uid, port = value
        found.people.setdefault(name, Person(name=name, uid=uid, ssh_port=port, created_at=now))
    elif kind == "keys":
        found.keys.extend(_read_keys(name, value, added_at=now))
    elif kind == "closed":
        reason, by = value
        known = found.cards.get(name) or Card(uuid=name, host="", pci="", model="", memory_bytes=None, seen_at=now)
        found.cards[name] = replace(known, closed=reason, closed_by=by, closed_at=now)
    elif kind == "layouts":
        known = found.cards.get(name) or Card(uuid=name, host="", pci="", model="", memory_bytes=None, seen_at=now)
        found.cards[name] = replace(known, layout=_known_layout(value))
    elif kind == "reservations":
        found.promised.append(promised.reservation(value))
    elif kind == "keeps":
        found.promised.append(promised.keep(value))
    elif kind == "quarantined":
        slot = Slot(name)
        found.slots[slot] = SlotRecord(slot=slot, host="", quarantine=value, quarantined_at=now)


def _settle_doubles(found: Found, *, now: datetime) -> None:
    """Two holders of one slot: nobody can say whose it is, so it goes into quarantine under the older one's name."""
    by_slot: dict[Slot, list[Assignment]] = defaultdict(list)
    for row in found.assignments:
        by_slot[row.slot].append(row)
    found.assignments = []
    for slot, rows in by_slot.items():
        first = min(rows, key=lambda row: (row.since or row.created_at, row.instance))
        if len(rows) == 1:
            found.assignments.append(first)
            continue
        names = " and ".join(sorted(row.instance for row in rows))
        why = f"{names} both say that they hold it"
        found.assignments.append(replace(first, state=AssignmentState.QUARANTINED))
        found.slots[slot] = SlotRecord(slot=slot, host="", quarantine=why, quarantined_at=now)
        found.troubles.append(f"{slot}: {why}; it is in quarantine")


def _settle_layouts(found: Found, *, now: datetime) -> None:
    """A card is divided as those say who hold it; where they contradict each other it goes into quarantine.

    Whole and in parts, or parts of two kinds: a snapshot from before the card was divided may have come back.
    """
    by_card: dict[str, list[Assignment]] = defaultdict(list)
    for row in found.assignments:
        by_card[row.slot.card].append(row)
    for uuid, rows in by_card.items():
        first = min(rows, key=lambda row: (row.since or row.created_at, row.instance))
        card = found.cards.get(uuid)
        layouts = {_layout(row, card) for row in rows}
        if len(layouts) > 1 or None in layouts:
            names = " and ".join(sorted(f"{row.instance} ({row.slot.part})" for row in rows))
            why = f"{names} say that they hold it, whole and in parts, or in parts of two kinds"
            found.assignments = [row for row in found.assignments if row not in rows]
            found.assignments.append(replace(first, state=AssignmentState.QUARANTINED))
            found.slots[first.slot] = SlotRecord(slot=first.slot, host="", quarantine=why, quarantined_at=now)
            found.troubles.append(f"{uuid}: {why}; it is in quarantine")
        layout = _layout(first, card)
        if card is not None and layout is not None:
            found.cards[uuid] = replace(card, layout=layout)


def _known_layout(value: object) -> str:
    text = str(value)
    return "+".join(profiles(text)) or str(int(text))


def _layout(row: Assignment, card: Card | None) -> str | None:
    """How the card must be divided for somebody to hold this; None: it has no such MIG slice, as far as is known."""
    if card is not None and row.slot.gpu in names(row.slot.card, card.layout):
        return card.layout
    return None if row.slot.profile else row.slot.part.partition("/")[2]


def _instant(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
