"""From what people type to a card: a UUID, its beginning, or a PCI address."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from lxgpu.errors import LxgpuError
from lxgpu.model.gpu import normal_pci

_PCI = re.compile(r"(?:[0-9a-f]{4,8}:)?[0-9a-f]{1,2}:[0-9a-f]{1,2}(?:\.[0-7])?", re.IGNORECASE)
_SHORTEST = 5
"""`GPU-` alone would be the beginning of them all."""


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
        return next((uuid for uuid, pci in cards.items() if pci == normal_pci(text)), None)
    near = [uuid for uuid in cards if uuid.lower().startswith(text.lower())] if len(text) >= _SHORTEST else []
    if len(near) > 1:
        raise LxgpuError(
            "usage", f"{text} is the beginning of {len(near)} cards' UUIDs", why=near, fix="write one of them out"
        )
    return near[0] if near else None


def find_gpus(texts: Iterable[str], cards: Mapping[str, str | None]) -> tuple[str, ...]:
    """The UUIDs of the cards that texts name.

    Raises:
        LxgpuError: `not_found`, with all texts that name no card; `usage`, as `find_gpu`.
    """
    found = {text: find_gpu(text, cards) for text in texts}
    unknown = [text for text, uuid in found.items() if uuid is None]
    if unknown:
        raise LxgpuError(
            "not_found", f"there is no card {', '.join(unknown)}", fix="lxgpu gpus lists the cards, -o wide in full"
        )
    return tuple(dict.fromkeys(uuid for uuid in found.values() if uuid is not None))
