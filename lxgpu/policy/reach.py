"""Whom a container can hand an open file to: a card's descriptor travels through a socket in a folder that both see.

The device rule keeps the others from opening a card, not from being given it open (ran). Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product

from lxgpu.model.instance import Sighting

Device = Mapping[str, str]


def within_reach(names: Iterable[str], sightings: Sequence[Sighting]) -> frozenset[str]:
    """The instances named and all that they share a folder with, directly or through others.

    A folder that neither may write to carries nothing: somebody has to make the socket.
    """
    folders = {seen.name: _folders(seen) for seen in sightings}
    found, fresh = set(names), set(names)
    while fresh:
        mine = [device for name in fresh for device in folders.get(name, ())]
        fresh = {name for name, theirs in folders.items() if name not in found and _meet(mine, theirs)}
        found |= fresh
    return frozenset(found)


def _folders(seen: Sighting) -> list[Device]:
    return [
        device
        for device in seen.expanded_devices.values()
        if device.get("type") == "disk" and device.get("path") != "/" and device.get("source")
    ]


def _meet(mine: Iterable[Device], theirs: Iterable[Device]) -> bool:
    return any(_same_place(one, other) and _writable(one, other) for one, other in product(mine, theirs))


def _same_place(one: Device, other: Device) -> bool:
    """One volume of one pool, or folders of the host of which one lies in the other."""
    if one.get("pool") != other.get("pool"):
        return False
    if one.get("pool"):
        return one["source"] == other["source"]
    first, second = (f"{device['source'].rstrip('/')}/" for device in (one, other))
    return first.startswith(second) or second.startswith(first)


def _writable(*devices: Device) -> bool:
    return any(device.get("readonly") != "true" for device in devices)
