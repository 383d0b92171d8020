"""What a lab is asked to be, and what it is: pure values, no I/O."""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from lxgpu.errors import LxgpuError
from lxgpu.lab.models import MODELS, Model, find_model

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

DEFAULT_GPUS = 4
MOST_GPUS = 16
NAME = re.compile(r"[a-z](?:[a-z0-9-]{0,22}[a-z0-9])?")

CONSOLE_MAJOR, SCREEN_MAJOR, NVIDIA_MAJOR = 4, 7, 195
ZERO_DEVICE = (1, 5)


@dataclass(frozen=True, slots=True)
class LabSpec:
    """What `lab up` was asked for; None and empty mean "as it is, else the default".

    `mappable` lets the last card's render node be a device that can be mapped into memory (it takes the
    number of /dev/zero, so containers that do not hold that card lose /dev/zero while a device rule denies
    the card).
    """

    name: str = "lab"
    gpus: int | None = None
    models: tuple[str, ...] = ()
    engine: str = "lxd"
    members: int = 1
    policy: Path | None = None
    mappable: bool | None = None


@dataclass(frozen=True, slots=True)
class Node:
    """A character device below /dev."""

    path: str
    major: int
    minor: int


@dataclass(frozen=True, slots=True)
class Card:
    """One pretend card. `console` is the text console whose numbers its DRM nodes carry."""

    index: int
    uuid: str
    pci: str
    minor: int
    model: str
    memory_bytes: int
    drm_card: str
    drm_render: str
    console: int
    mappable: bool = False

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes that belong to this card alone; those below /dev/dri can really be opened."""
        render = ZERO_DEVICE if self.mappable else (CONSOLE_MAJOR, self.console)
        return (
            Node(f"/dev/dri/{self.drm_card}", SCREEN_MAJOR, self.console),
            Node(f"/dev/dri/{self.drm_render}", *render),
            Node(f"/dev/nvidia{self.minor}", NVIDIA_MAJOR, self.minor),
        )

    @property
    def kind(self) -> Model:
        """The catalogue's entry for the card."""
        return find_model(self.model)


def check_spec(spec: LabSpec) -> None:
    """Refuse what cannot be, before anything is made.

    Raises:
        LxgpuError: `bad_name` or `usage`.
    """
    if not NAME.fullmatch(spec.name):
        raise LxgpuError(
            "bad_name",
            f"{spec.name!r} cannot be the name of a lab",
            why="a lab's name has 1 to 24 characters: a lower-case letter, then letters, digits and hyphens",
            fix="choose another --name, for instance --name lab2",
        )
    if spec.engine != "lxd":
        raise LxgpuError("usage", f"this lab runs LXD only, not {spec.engine!r}", fix="leave --engine out")
    if spec.members != 1:
        raise LxgpuError("usage", "this lab runs one host only", fix="leave --members out")
    for model in spec.models:
        find_model(model)
    if spec.gpus is not None and not 1 <= spec.gpus <= MOST_GPUS:
        raise LxgpuError("usage", f"a lab has 1 to {MOST_GPUS} cards, not {spec.gpus}", fix="choose another --gpus")
    if len(spec.models) > (spec.gpus or MOST_GPUS):
        raise LxgpuError("usage", f"{len(spec.models)} models were named for {spec.gpus} cards", fix="raise --gpus")


def models_of(spec: LabSpec) -> tuple[Model, ...]:
    """One model a card: those named, again from the first when there are more cards than names."""
    names = spec.models or (next(iter(MODELS)),)
    count = spec.gpus or max(len(spec.models), 0) or DEFAULT_GPUS
    return tuple(find_model(names[i % len(names)]) for i in range(count))


def digest(name: str, *, length: int = 8) -> str:
    """Hex digits that stand for a lab's name in UUIDs, subnets and link names."""
    return sha256(f"lxgpu lab {name}".encode()).hexdigest()[:length]


def plan_cards(spec: LabSpec, *, consoles: tuple[int, ...], taken_pci: Collection[str]) -> tuple[Card, ...]:
    """The cards of a lab: UUIDs that carry the lab's name, PCI addresses that no real device has.

    DRM numbers begin at 1, as on a server whose first display is its own VGA chip, so that nobody gets
    away with taking the DRM number for the index.
    """
    models = models_of(spec)
    mark = digest(spec.name, length=32)
    first_bus = 0x10 + int(mark[-2:], 16) % 0x40
    free = [address for bus in range(first_bus, 0xF0) if (address := f"0000:{bus:02x}:00.0") not in taken_pci]
    return tuple(
        Card(
            index=i,
            uuid=f"GPU-{mark[:8]}-{i:04x}-4{mark[9:12]}-8{mark[13:16]}-{mark[16:28]}",
            pci=free[i],
            minor=i,
            model=model.name,
            memory_bytes=model.memory_mib << 20,
            drm_card=f"card{i + 1}",
            drm_render=f"renderD{129 + i}",
            console=consoles[i],
            mappable=bool(spec.mappable) and i == len(models) - 1,
        )
        for i, model in enumerate(models)
    )
