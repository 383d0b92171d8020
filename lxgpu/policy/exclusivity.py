"""Which cards LXD's devices give to whom, wherever they come from: one slot, one holder."""

from __future__ import annotations

from dataclasses import dataclass

from lxgpu.model.devices import gpus_in
from lxgpu.model.gpu import card_of
from lxgpu.model.snapshot import Observation
from lxgpu.policy.tables import once_for_each


@dataclass(frozen=True, slots=True)
class Holding:
    """A card that an instance's devices pass, in whatever project; `ours` says whether lxgpu made the instance."""

    uuid: str
    instance: str
    project: str
    device: str
    ours: bool


@once_for_each
def holdings(seen: Observation) -> tuple[Holding, ...]:
    """Every card passed to every instance of every project, profiles' devices included."""
    return tuple(
        Holding(uuid=uuid, instance=sighting.name, project=sighting.project, device=name, ours=sighting.ours)
        for sighting in seen.sightings
        for name, device in sorted(sighting.expanded_devices.items())
        for uuid in sorted({card_of(gpu) for gpu in gpus_in({name: device}, seen.gpus)})
    )
