"""What labs there are, and how they do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lxgpu.errors import LxgpuError
from lxgpu.lab import daemon, engine, record, state
from lxgpu.lab.paths import lab_root

if TYPE_CHECKING:
    from lxgpu.lab.record import Lab


@dataclass(frozen=True, slots=True)
class CardStatus:
    """One card as `lab status` shows it."""

    index: int
    uuid: str
    pci: str
    model: str
    memory_bytes: int
    nodes: tuple[str, ...]
    fault: str | None


@dataclass(frozen=True, slots=True)
class LabStatus:
    """One lab. `state` is up, broken (`lab up` mends it) or half (`lab up` was interrupted)."""

    name: str
    state: str
    engine: str
    gpus: tuple[CardStatus, ...]
    instances: tuple[str, ...] | None
    bridge: str
    subnet: str
    socket: str
    directory: str


def names() -> list[str]:
    """The names of all labs that have begun to exist."""
    root = lab_root()
    return sorted(entry.name for entry in root.iterdir() if entry.is_dir()) if root.is_dir() else []


def status(name: str | None = None) -> list[LabStatus]:
    """All labs, or the one of that name.

    Raises:
        LxgpuError: `not_found` when the one that was named does not exist.
    """
    if name is not None:
        return [_status(record.require(name))]
    return [_status(lab) for lab in map(record.load, names()) if lab is not None]


def _status(lab: Lab) -> LabStatus:
    faults = state.read(lab).faults
    cards = tuple(
        CardStatus(
            index=card.index,
            uuid=card.uuid,
            pci=card.pci,
            model=card.model,
            memory_bytes=card.memory_bytes,
            nodes=tuple(node.path for node in card.nodes),
            fault=faults.get(card.uuid),
        )
        for card in lab.gpus
    )
    instances: tuple[str, ...] | None = None
    word = "half" if lab.holder is None else "broken"
    if daemon.holder_of(lab) is not None:
        try:
            found = engine.query(lab, "/1.0/instances", limit=5) or ()
        except LxgpuError:
            word = "broken"
        else:
            word = "up"
            instances = tuple(path.rpartition("/")[2] for path in found)
    return LabStatus(
        name=lab.name,
        state=word,
        engine=lab.engine,
        gpus=cards,
        instances=instances,
        bridge=lab.bridge,
        subnet=lab.subnet,
        socket=str(lab.socket),
        directory=str(lab.directory),
    )
