"""`gpu why`: the facts about one container, each also as a line that names its card as `gpu` does; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lxgpu.model.cardnames import in_short, short_model, short_uuids
from lxgpu.model.gpu import Slot
from lxgpu.model.snapshot import Records
from lxgpu.services.explain import ReasonView, Show
from lxgpu.services.guestfix import told_inside


@dataclass(frozen=True, slots=True)
class GuestReasons:
    """What `gpu why` shows."""

    reasons: tuple[ReasonView, ...]
    lines: tuple[str, ...]


def guest_reasons(reasons: Iterable[ReasonView], records: Records, show: Show) -> GuestReasons:
    """The reasons, and each as a line: when, which card, what, by whom, by which rule."""
    told, names = tuple(reasons), short_uuids(card.uuid for card in records.cards)
    return GuestReasons(reasons=told, lines=tuple(_line(one, records, names, show) for one in told))


def _line(one: ReasonView, records: Records, names: Mapping[str, str], show: Show) -> str:
    by = ", ".join(filter(None, [one.actor and f"by {one.actor}", one.rule and f"rule {one.rule}"]))
    text = in_short(told_inside(one.text), names) + (f" ({by})" if by else "")
    return "".join([f"{show(one.at)}: " if one.at else "", _about(one.subject, records, names), text])


def _about(subject: str, records: Records, names: Mapping[str, str]) -> str:
    """The card that a fact is about; what is about the container itself has no need of a name."""
    slot = Slot(subject)
    card = records.card(slot.card)
    return f"{short_model(card.model)} ({Slot.of(names[slot.card], slot.part)}): " if card else ""
