"""From what people type to a card: a UUID, the beginning of one, or a PCI address. Pure; one rule for all commands."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from lxgpu.errors import LxgpuError
from lxgpu.model.assignment import Card
from lxgpu.model.gpu import Gpu, card_of, normal_pci

_PCI = re.compile(r"(?:[0-9a-f]{4,8}:)?[0-9a-f]{1,2}:[0-9a-f]{1,2}(?:\.[0-7])?", re.IGNORECASE)
_SHORTEST = 5
"""`GPU-` alone would be the beginning of them all."""


def known_cards(gpus: Iterable[Gpu], cards: Iterable[Card]) -> dict[str, str | None]:
    """PCI address by UUID: the cards that the host shows, and those that the inventory remembers.

    A card that is gone keeps its name, so that it can be given back; its old address is another card's, if that sits
    there now.
    """
    present = {gpu.uuid: gpu.pci for gpu in gpus}
    taken = set(present.values())
    gone = {card.uuid: None if card.pci in taken else card.pci for card in cards if card.uuid not in present}
    return {**present, **gone}


def resolve_gpu(gpus: Iterable[Gpu], cards: Iterable[Card], text: str) -> str:
    """The UUID of the card that a text names.

    Raises:
        LxgpuError: `no_such_gpu`; `usage`: several cards begin like that.
    """
    return resolve_gpus(gpus, cards, (text,))[0]


def resolve_gpus(gpus: Iterable[Gpu], cards: Iterable[Card], texts: Iterable[str]) -> tuple[str, ...]:
    """The UUIDs of the cards that texts name, each once.

    Raises:
        LxgpuError: `no_such_gpu`, with all texts that name none; `usage`: several cards begin like that.
    """
    known = known_cards(gpus, cards)
    found = {text: find_gpu(text, known) for text in texts}
    unknown = [text for text, uuid in found.items() if uuid is None]
    if unknown:
        raise LxgpuError(
            "no_such_gpu", f"there is no card {', '.join(unknown)}", fix="lxgpu gpus lists the cards, -o wide in full"
        )
    return tuple(dict.fromkeys(uuid for uuid in found.values() if uuid is not None))


def find_gpu(text: str, cards: Mapping[str, str | None]) -> str | None:
    """The UUID of the card that a text names; None when there is none.

    Args:
        text: a UUID or its beginning (`GPU-3f2a`), a PCI address in NVML's, LXD's or lspci's form.
        cards: PCI address (None: not known) by UUID.

    Raises:
        LxgpuError: `usage`: several cards begin like that.
    """
    if text in cards:
        return text
    if _PCI.fullmatch(text):
        return next((card_of(uuid) for uuid, pci in cards.items() if pci == normal_pci(text)), None)
    near = [uuid for uuid in cards if uuid.lower().startswith(text.lower())] if len(text) >= _SHORTEST else []
    if len(cards_near := {card_of(uuid) for uuid in near}) == 1 and len(near) > 1:
        return cards_near.pop()
    if len(near) > 1:
        raise LxgpuError(
            "usage", f"{text} is the beginning of {len(near)} cards' UUIDs", why=near, fix="write one of them out"
        )
    return near[0] if near else None
