"""How cards and parts of cards are called for people: one way in tables, notices, banners and containers; pure.

Light to load: tables that must come at once need it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping

from lxgpu.figures import n_gpus

_WHOLE = re.compile(r"\bGPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
SHORTEST = 12
"""Characters of a card's UUID for people, `GPU-` included; more where two cards begin alike."""


def short_uuids(uuids: Iterable[str]) -> dict[str, str]:
    """Each UUID and its shortest beginning that no other one has; all are of one length. Parts keep their part."""
    known = set(uuids)
    cards, length = {name.partition("/")[0] for name in known}, SHORTEST
    while len({uuid[:length] for uuid in cards}) < len(cards):
        length += 1
    short = {uuid: uuid[:length].rstrip("-") if length < len(uuid) else uuid for uuid in cards}
    return {name: f"{short[uuid]}{cut}{part}" for name in known for uuid, cut, part in [name.partition("/")]}


def in_short(text: str, names: Mapping[str, str]) -> str:
    """A sentence in which the cards of `short_uuids` are called by their names."""
    return re.sub("|".join(map(re.escape, names)), lambda found: names[found[0]], text) if names else text


def whole_uuids(texts: Iterable[str]) -> set[str]:
    """The UUIDs of cards that stand in some sentences."""
    return {uuid for text in texts for uuid in _WHOLE.findall(text)}


def short_model(model: str) -> str:
    """A model, or a pattern of models, without its maker; of a part of a card `1/4 of RTX 3090`."""
    name, part = _cut(model)
    return _part(part, name) if part else _plain(name)


def n_cards(count: int, model: str) -> str:
    """So many of a model: `2 GPUs of NVIDIA RTX 3090`, `1/4 of RTX 3090`, `3 parts, each 1/4 of RTX 3090`."""
    name, part = _cut(model)
    if part:
        return _part(part, name) if count == 1 else f"{count} parts, each {_part(part, name)}"
    return n_gpus(count) + (f" of {model}" if model not in {"", "*"} else "")


def n_asked(count: int, model: str) -> str:
    """So many cards, whatever the model, or the part of one that is meant: `2 GPUs`, `1/4 of RTX 3090`."""
    return n_cards(count, model if _cut(model)[1] else "")


def n_held(slots: Iterable[str]) -> str:
    """What somebody holds, by the names of the slots: `2 GPUs`, `1/4 of a GPU`, `1 GPU and 1/4 of a GPU`, `no GPU`."""
    counts = Counter(lent_as("", slot).strip() for slot in slots)
    whole = counts.pop("", 0)
    parts = [f"{f'{count} x ' if count > 1 else ''}{part} of a GPU" for part, count in sorted(counts.items())]
    return " and ".join([*([n_gpus(whole)] if whole else []), *parts]) or "no GPU"


def lent_as(model: str, slot: str | None) -> str:
    """The model under which a slot of a card is lent: the card's own, or a part's (`NVIDIA RTX 3090 1/4`)."""
    _, cut, part = (slot or "").partition("/")
    _, shares, count = part.rpartition("/")
    return f"{model} {f'1/{count}' if shares else part.partition('-')[2]}" if cut else model


def _cut(model: str) -> tuple[str, str]:
    """The model, and the part at its end: `1/4`, `3g.20gb`, or `0.25` in a pattern; empty for whole cards."""
    name, _, part = model.rpartition(" ")
    if not name or not (part.startswith(("1/", "0.")) or "g." in part):
        return model, ""
    from lxgpu.model.layout import in_parts  # noqa: PLC0415 -- seldom needed, and not light

    return (name, part) if in_parts(model) else (model, "")


def _plain(model: str) -> str:
    return model.removeprefix("NVIDIA ").removeprefix("GeForce ")


def _part(part: str, name: str) -> str:
    card = "a card" if name == "*" else _plain(name)
    return f"a part of {card} ({part} or more)" if part.startswith("0.") else f"{part} of {card}"
