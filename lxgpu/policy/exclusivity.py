"""Which cards LXD's devices give to whom, wherever they come from: one slot, one holder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lxgpu.model.gpu import Gpu, normal_pci
from lxgpu.model.snapshot import Observation

_SELECTORS = ("pci", "id", "vendorid", "productid", "mig.uuid")


@dataclass(frozen=True, slots=True)
class Holding:
    """A card that an instance's devices pass, in whatever project; `ours` says whether lxgpu made the instance."""

    uuid: str
    instance: str
    project: str
    device: str
    ours: bool


def passed(device: Mapping[str, str], gpus: Iterable[Gpu]) -> frozenset[str]:
    """The UUIDs of the cards that one device gives to a container.

    A `gpu` device without any selector passes every card; `id` is the DRM number, or a CDI name. What cannot be
    resolved counts as every card, since to take it for none could lend a card twice.
    """
    cards = tuple(gpus)
    if device.get("type") == "unix-char":
        return frozenset(gpu.uuid for gpu in cards if _names_node(device, gpu))
    if device.get("type") != "gpu":
        return frozenset()
    if pci := device.get("pci"):
        return frozenset(gpu.uuid for gpu in cards if gpu.pci == normal_pci(pci))
    if wanted := device.get("id"):
        hit = frozenset(gpu.uuid for gpu in cards if _has_id(gpu, wanted))
        return hit if hit or wanted.isdigit() else frozenset(gpu.uuid for gpu in cards)
    if mig := device.get("mig.uuid"):
        hit = frozenset(gpu.uuid for gpu in cards if gpu.uuid.removeprefix("GPU-") in mig)
        return hit or frozenset(gpu.uuid for gpu in cards)
    vendor = device.get("vendorid", "10de").lower().removeprefix("0x")
    return frozenset(gpu.uuid for gpu in cards) if vendor == "10de" else frozenset()


def _has_id(gpu: Gpu, wanted: str) -> bool:
    if wanted.isdigit():
        return any(node.path == f"dri/card{wanted}" for node in gpu.nodes)
    return wanted.endswith(f"={gpu.uuid}")


def _names_node(device: Mapping[str, str], gpu: Gpu) -> bool:
    numbers = (device.get("major", ""), device.get("minor", ""))
    paths = {device.get("source", "").removeprefix("/dev/"), device.get("path", "").removeprefix("/dev/")}
    return any((str(node.major), str(node.minor)) == numbers or node.path in paths for node in gpu.nodes)


def holdings(seen: Observation) -> tuple[Holding, ...]:
    """Every card passed to every instance of every project, profiles' devices included."""
    return tuple(
        Holding(uuid=uuid, instance=sighting.name, project=sighting.project, device=name, ours=sighting.ours)
        for sighting in seen.sightings
        for name, device in sorted(sighting.expanded_devices.items())
        for uuid in sorted(passed(device, seen.gpus))
    )
