"""What a host lends: whole cards, and parts in the place of those that are divided. Pure."""

from __future__ import annotations

from dataclasses import replace

from lxgpu.model.gpu import Readings
from lxgpu.model.layout import divide, divide_readings, whole
from lxgpu.model.slices import made_here
from lxgpu.model.snapshot import Observation, Records


def lent(seen: Observation, records: Records) -> Observation:
    """What was seen as it is lent: parts in the place of the cards that are divided."""
    layouts = _layouts(records)
    made = made_here(records.cards, seen.boot_id)
    if not layouts and not any(gpu.divided for gpu in seen.gpus):
        return seen
    readings = None if seen.readings is None else lent_readings(seen.readings, records, seen.boot_id)
    return replace(seen, gpus=divide(whole(seen.gpus), layouts, made), readings=readings)


def lent_readings(readings: Readings, records: Records, boot_id: str) -> Readings:
    """NVML's sample with an entry for each part of a divided card."""
    holders = {row.slot.gpu: row.instance for row in records.assignments if row.live}
    return divide_readings(readings, _layouts(records), holders, made_here(records.cards, boot_id))


def _layouts(records: Records) -> dict[str, str]:
    return {card.uuid: card.layout for card in records.cards if card.layout}
