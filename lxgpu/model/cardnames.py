"""How a card is called for people: one way in tables, notices, banners and inside containers; pure."""

from __future__ import annotations

from collections.abc import Iterable

SHORTEST = 12
"""Characters of a card's UUID for people, `GPU-` included; more where two cards begin alike."""


def short_uuids(uuids: Iterable[str]) -> dict[str, str]:
    """Each UUID and its shortest beginning that no other one has; all are of one length."""
    known, length = set(uuids), SHORTEST
    while len({uuid[:length] for uuid in known}) < len(known):
        length += 1
    return {uuid: uuid[:length].rstrip("-") if length < len(uuid) else uuid for uuid in known}


def short_model(model: str) -> str:
    """A model without its maker."""
    return model.removeprefix("NVIDIA ").removeprefix("GeForce ")
