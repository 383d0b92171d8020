"""How a card is called for people: one way in tables, notices, banners and inside containers; pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_WHOLE = re.compile(r"\bGPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
SHORTEST = 12
"""Characters of a card's UUID for people, `GPU-` included; more where two cards begin alike."""


def short_uuids(uuids: Iterable[str]) -> dict[str, str]:
    """Each UUID and its shortest beginning that no other one has; all are of one length."""
    known, length = set(uuids), SHORTEST
    while len({uuid[:length] for uuid in known}) < len(known):
        length += 1
    return {uuid: uuid[:length].rstrip("-") if length < len(uuid) else uuid for uuid in known}


def in_short(text: str, names: Mapping[str, str]) -> str:
    """A sentence in which the cards of `short_uuids` are called by their names."""
    return re.sub("|".join(map(re.escape, names)), lambda found: names[found[0]], text) if names else text


def whole_uuids(texts: Iterable[str]) -> set[str]:
    """The UUIDs of cards that stand in some sentences."""
    return {uuid for text in texts for uuid in _WHOLE.findall(text)}


def short_model(model: str) -> str:
    """A model without its maker."""
    return model.removeprefix("NVIDIA ").removeprefix("GeForce ")
