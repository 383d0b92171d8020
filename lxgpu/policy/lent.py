"""What a host lends: whole cards, and parts in the place of those that are divided. Pure."""

from __future__ import annotations

from dataclasses import replace

from lxgpu.model.layout import divide, divide_readings, whole
from lxgpu.model.snapshot import Observation, Records


def lent(seen: Observation, records: Records) -> Observation:
    """What was seen as it is lent: parts in the place of the cards that are divided."""
    layouts = {card.uuid: card.layout for card in records.cards if card.layout}
    if not layouts:
        return seen
    gpus, readings = divide(whole(seen.gpus), layouts), seen.readings
    if readings is not None:
        holders = {row.slot.gpu: row.instance for row in records.assignments if row.live}
        readings = divide_readings(readings, layouts, holders)
    return replace(seen, gpus=gpus, readings=readings)
