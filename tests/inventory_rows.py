"""Sensible rows of the inventory, of which a test names what matters."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from lxgpu.model.assignment import Assignment, AssignmentState, Card, SlotRecord
from lxgpu.model.gpu import Slot
from lxgpu.model.instance import Instance, InstanceState, Key, Person
from lxgpu.model.operation import Operation

T0 = datetime(2026, 11, 30, 8, 0, tzinfo=UTC)


def at(minutes: float) -> datetime:
    """That many minutes after `T0`."""
    return T0 + timedelta(minutes=minutes)


def person(name: str = "alice", **fields: Any) -> Person:
    """A person whose uid and port follow from the name."""
    number = sum(map(ord, name))
    return Person(**{"name": name, "uid": 10000 + number, "ssh_port": 22000 + number, "created_at": T0, **fields})


def key(of: str = "alice", fingerprint: str = "SHA256:aaaa", **fields: Any) -> Key:
    """A public key."""
    line = f"ssh-ed25519 AAAA {of}"
    return Key(**{"person": of, "fingerprint": fingerprint, "line": line, "added_at": T0, **fields})


def instance(name: str = "alice", **fields: Any) -> Instance:
    """A ready instance; its owner has its name unless another is named."""
    usual = {"name": name, "owner": name, "host": "gpu1", "state": InstanceState.READY, "created_at": T0}
    return Instance(**{**usual, **fields})


def assignment(id_: str = "a1", gpu: str = "GPU-1", part: str = "whole", **fields: Any) -> Assignment:
    """An active assignment of alice, attached at `T0`."""
    usual = {"instance": "alice", "state": AssignmentState.ACTIVE, "created_at": T0, "since": T0}
    return Assignment(**{"id": id_, "slot": Slot.of(gpu, part), **usual, **fields})


def operation(id_: str = "o1", **fields: Any) -> Operation:
    """An open attach of alice."""
    return Operation(**{"id": id_, "kind": "attach", "instance": "alice", "created_at": T0, "actor": "root", **fields})


def slot_record(gpu: str = "GPU-1", part: str = "whole", **fields: Any) -> SlotRecord:
    """A slot of which nothing is known."""
    return SlotRecord(**{"slot": Slot.of(gpu, part), "host": "gpu1", **fields})


def card(uuid: str = "GPU-1", **fields: Any) -> Card:
    """A card in service."""
    usual = {"host": "gpu1", "pci": "0000:02:00.0", "model": "NVIDIA A100", "memory_bytes": 2**36, "seen_at": T0}
    return Card(**{"uuid": uuid, **usual, **fields})
