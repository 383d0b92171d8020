"""Containers as people and scripts see them, from rows of the inventory and what LXD showed; pure."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Sequence

from lxgpu.config.settings import NetworkSettings, Settings
from lxgpu.model.assignment import Assignment, Card
from lxgpu.model.instance import Instance, InstanceState, Person, Power, Sighting
from lxgpu.model.snapshot import Records
from lxgpu.services.views import HeldView, InstanceView, SshView

OWN_PREFIX = "lxgpu-"
"""Instances that lxgpu keeps for itself: the templates that containers are copied from."""
_EVERYWHERE = frozenset({"0.0.0.0", "::"})  # noqa: S104 -- what is compared, not bound


def instance_views(
    records: Records,
    sightings: Sequence[Sighting] | None,
    settings: Settings,
    *,
    trashed: bool = False,
    foreign: bool = False,
) -> tuple[InstanceView, ...]:
    """All containers by name.

    Args:
        records: the inventory.
        sightings: what LXD showed, with or without state; None when it did not answer.
        settings: for the address that people log in at.
        trashed: with deleted ones that are still kept.
        foreign: with those that lxgpu did not make.
    """
    seen = {sighting.name: sighting for sighting in sightings or () if sighting.project == "default"}
    cards = {card.uuid: card for card in records.cards}
    people = {person.name: person for person in records.persons}
    held: dict[str, list[Assignment]] = defaultdict(list)
    for row in records.assignments:
        if row.live:
            held[row.instance].append(row)
    host = ssh_host(settings.network)
    views = [
        _view(
            row,
            seen.get(row.engine_name or row.name),
            reachable=sightings is not None,
            gpus=_held(held[row.name], cards, seen.get(row.name)),
            ssh=_ssh(row, people.get(row.owner), host),
        )
        for row in records.instances
        if trashed or row.state is not InstanceState.TRASHED
    ]
    if foreign and sightings is not None:
        views += [_stranger(sighting) for sighting in strangers(records, sightings)]
    return tuple(sorted(views, key=lambda view: view.name))


def strangers(records: Records, sightings: Iterable[Sighting]) -> tuple[Sighting, ...]:
    """The instances of all projects that the inventory does not know, lxgpu's own templates left out."""
    known = {(row.engine_name or row.name, row.uuid) for row in records.instances}
    return tuple(
        seen
        for seen in sightings
        if not seen.name.startswith(OWN_PREFIX)
        and (seen.project != "default" or not known & {(seen.name, seen.uuid), (seen.name, "")})
    )


def lost(records: Records, sightings: Iterable[Sighting]) -> tuple[str, ...]:
    """Containers that carry lxgpu's own mark but are not in the inventory: it was lost, or is another one."""
    return tuple(seen.name for seen in strangers(records, sightings) if seen.ours)


def ssh_host(network: NetworkSettings) -> str:
    """What people type after `ssh`: the address set, else the one listened on, else the host's own name."""
    if network.address:
        return network.address
    return os.uname().nodename if network.listen in _EVERYWHERE else network.listen


def state_of(row: Instance, seen: Sighting | None, *, reachable: bool) -> str | None:
    """The one word for how a container is; see `InstanceView`."""
    gone = seen is None or row.uuid not in {"", seen.uuid}
    if row.state in {InstanceState.CREATING, InstanceState.DELETING}:
        return row.state.value
    if reachable and gone:
        return "missing"
    if row.state is not InstanceState.READY:
        return row.state.value
    if seen is None:
        return "unreachable"
    return None if seen.power is Power.OTHER else seen.power.value


def _view(
    row: Instance, seen: Sighting | None, *, reachable: bool, gpus: tuple[HeldView, ...], ssh: SshView
) -> InstanceView:
    return InstanceView(
        name=row.name,
        owner=row.owner,
        host=row.host,
        state=state_of(row, seen, reachable=reachable),
        class_=row.class_name or None,
        gpus=gpus,
        ssh=ssh,
        limits=row.limits,
        disk_used_bytes=seen.disk_used_bytes if seen else None,
        created_at=row.created_at,
        expires=row.expires,
    )


def _held(rows: Iterable[Assignment], cards: dict[str, Card], seen: Sighting | None) -> tuple[HeldView, ...]:
    order = sorted(rows, key=lambda row: (row.since or row.created_at, row.id))
    return tuple(
        HeldView(
            uuid=row.slot.gpu,
            pci=card.pci if (card := cards.get(row.slot.gpu)) else _pci_in(seen, row.slot.gpu),
            model=card.model if card else None,
            slot=str(row.slot),
            state=row.state.value,
            since=row.since,
            lease_until=row.until,
            reservation=row.reservation,
        )
        for row in order
    )


def _pci_in(seen: Sighting | None, uuid: str) -> str | None:
    """The address in the device that carries the card; None when the inventory and LXD do not tell."""
    device = seen.devices.get(f"gpu-{uuid.removeprefix('GPU-')}", {}) if seen else {}
    return device.get("pci")


def _ssh(row: Instance, person: Person | None, host: str) -> SshView:
    if person is None or row.state is InstanceState.TRASHED:
        return SshView()
    return SshView(host=host, port=person.ssh_port, user=person.name)


def _stranger(seen: Sighting) -> InstanceView:
    devices = [device for _, device in sorted(seen.expanded_devices.items()) if device.get("type") == "gpu"]
    return InstanceView(
        name=seen.name if seen.project == "default" else f"{seen.project}/{seen.name}",
        owner=None,
        host=seen.location,
        state="foreign",
        gpus=tuple(
            HeldView(uuid=None, pci=device.get("pci"), model=None, slot=None, state="foreign") for device in devices
        ),
        disk_used_bytes=seen.disk_used_bytes,
        created_at=seen.created_at,
    )
