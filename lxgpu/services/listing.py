"""Containers as the JSON schema `lxgpu.instances/v1` has them, from rows and sightings; pure, and light to load.

`lxgpu ls` must cost hardly more than `lxc list`, so next to nothing is imported here: rows and sightings may be the
model's, or bare ones with the same names (`lxgpu.quick`). Values pass through; states are compared as text.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    Row = Any
    """A row or a sighting: of the model, or with the same names."""
    Item = dict[str, Any]

EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104 -- what is compared, not bound
OWN_PREFIX = "lxgpu-"
"""Instances that lxgpu keeps for itself: the templates that containers are copied from."""


def public_host(address: str, listen: str) -> str:
    """What people type after `ssh`: the address set, else the one listened on, else the host's own name."""
    if address:
        return address
    return os.uname().nodename if listen in EVERYWHERE else listen


def instance_items(
    records: Row,
    sightings: Sequence[Row] | None,
    ssh_host: str,
    *,
    trashed: bool = False,
    foreign: bool = False,
    idle: Mapping[str, Item] | None = None,
) -> list[Item]:
    """All containers by name.

    Args:
        records: the inventory: `instances`, `assignments`, `persons`, `cards`, `reservations`.
        sightings: what LXD showed, with or without state; None when it did not answer.
        ssh_host: what people type after `ssh`.
        trashed: with deleted ones that are still kept.
        foreign: with those that lxgpu did not make.
        idle: whether the containers that hold cards use them, by name, as far as it is known.
    """
    seen = {sighting.name: sighting for sighting in sightings or () if sighting.project == "default"}
    cards = {card.uuid: card for card in records.cards}
    people = {person.name: person for person in records.persons}
    held: dict[str, list[Row]] = {}
    for row in records.assignments:
        if row.live:
            held.setdefault(row.instance, []).append(row)
    claims: dict[str, list[Row]] = {}
    for row in records.reservations:
        if str(row.kind) == "return":
            claims.setdefault(row.instance, []).append(row)
    items = []
    for row in records.instances:
        if trashed or str(row.state) != "trashed":
            sighting = seen.get(row.engine_name or row.name)
            item = _item(row, sighting, state=state_of(row, sighting, reachable=sightings is not None))
            item["gpus"] = _held(held.get(row.name, []), cards, sighting)
            if item["gpus"] and idle:
                item["idle"] = idle.get(row.name, item["idle"])
            item["ssh"] = _ssh(row, people.get(row.owner), ssh_host)
            item["claims"] = _claims(claims.get(row.name, []))
            items.append(item)
    if foreign and sightings is not None:
        items += [_stranger(sighting) for sighting in strangers(records, sightings)]
    return sorted(items, key=lambda item: str(item["name"]))


def strangers(records: Row, sightings: Iterable[Row]) -> list[Row]:
    """The instances of all projects that the inventory does not know, lxgpu's own templates left out."""
    known = {(row.engine_name or row.name, row.uuid) for row in records.instances}
    return [
        seen
        for seen in sightings
        if not seen.name.startswith(OWN_PREFIX)
        and (seen.project != "default" or not known & {(seen.name, seen.uuid), (seen.name, "")})
    ]


def lost(records: Row, sightings: Iterable[Row]) -> tuple[str, ...]:
    """Containers that carry lxgpu's own mark but are not in the inventory: it was lost, or is another one."""
    return tuple(seen.name for seen in strangers(records, sightings) if seen.ours)


def remedy(records: Row) -> str:
    """What finds lost containers again: an inventory of nothing was lost as a whole."""
    return "lxgpu inventory verify" if records.instances else "lxgpu inventory rebuild"


def some(names: Sequence[str], most: int = 5) -> str:
    """Names for a sentence: the first few, and how many more there are."""
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def state_of(row: Row, seen: Row | None, *, reachable: bool) -> str | None:
    """The one word for how a container is; see `views.InstanceView`."""
    meant, gone = str(row.state), seen is None or row.uuid not in ("", seen.uuid)
    if meant in ("creating", "deleting"):
        return meant
    if reachable and gone:
        return "missing"
    if meant != "ready":
        return meant
    if seen is None:
        return "unreachable"
    power = str(seen.power)
    return None if power == "other" else power


def _item(row: Row, seen: Row | None, *, state: str | None) -> Item:
    """A container without its cards and its login, in the order of the schema."""
    return {
        "name": row.name,
        "owner": row.owner,
        "host": row.host,
        "state": state,
        "kind": str(row.kind),
        "class": row.class_name or None,
        "gpus": [],
        "ssh": {},
        "limits": row.limits,
        "disk_used_bytes": seen.disk_used_bytes if seen else None,
        "idle": {"verdict": None, "since": None},
        "claims": [],
        "created_at": row.created_at,
        "expires": row.expires,
    }


def _held(rows: Iterable[Row], cards: dict[str, Row], seen: Row | None) -> list[Item]:
    held = []
    for row in sorted(rows, key=lambda row: (row.since or row.created_at, row.id)):
        card, uuid = cards.get(row.slot.card), row.slot.card
        held.append(
            {
                "uuid": uuid,
                "pci": card.pci if card else _pci_in(seen, uuid),
                "model": card.model if card else None,
                "slot": str(row.slot),
                "state": str(row.state),
                "since": row.since,
                "lease_until": row.until,
                "reservation": row.reservation,
            }
        )
    return held


def _claims(rows: Iterable[Row]) -> list[Item]:
    """What the container has a right to have again, oldest first."""
    return [
        {"gpus": row.gpus, "model": row.pool, "since": row.created_at, "dies": row.dies}
        for row in sorted(rows, key=lambda row: (row.created_at, row.id))
    ]


def _pci_in(seen: Row | None, uuid: str) -> str | None:
    """The address in the device that carries the card; None when the inventory and LXD do not tell."""
    device = seen.devices.get(f"gpu-{uuid.removeprefix('GPU-')}") if seen else None
    return device.get("pci") if device else None


def _ssh(row: Row, person: Row | None, host: str) -> Item:
    if person is None or str(row.state) == "trashed" or str(row.kind) == "run":
        return {"host": None, "port": None, "user": None}
    return {"host": host, "port": person.ssh_port, "user": person.name}


def _stranger(seen: Row) -> Item:
    devices = [device for _, device in sorted(seen.expanded_devices.items()) if device.get("type") == "gpu"]
    nothing = dict.fromkeys(("uuid", "pci", "model", "slot", "state", "since", "lease_until", "reservation"))
    return {
        "name": seen.name if seen.project == "default" else f"{seen.project}/{seen.name}",
        "owner": None,
        "host": seen.location,
        "state": "lost" if seen.ours else "foreign",
        "kind": None,
        "class": None,
        "gpus": [{**nothing, "pci": device.get("pci"), "state": "foreign"} for device in devices],
        "ssh": {"host": None, "port": None, "user": None},
        "limits": {"cpu": None, "memory_bytes": None, "disk_bytes": None, "processes": None},
        "disk_used_bytes": seen.disk_used_bytes,
        "idle": {"verdict": None, "since": None},
        "claims": [],
        "created_at": seen.created_at,
        "expires": None,
    }
