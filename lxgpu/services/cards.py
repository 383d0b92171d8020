"""Cards as people and scripts see them, from the inventory, LXD and NVML; pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from lxgpu.model.assignment import Assignment, AssignmentState, Card
from lxgpu.model.gpu import Gpu, Reading, Readings
from lxgpu.model.layout import names, whole
from lxgpu.model.plan import Reason
from lxgpu.model.rules import Mode
from lxgpu.model.slices import in_slices
from lxgpu.model.snapshot import Observation, Records
from lxgpu.policy.exclusivity import Holding, holdings
from lxgpu.policy.lent import lent, lent_readings
from lxgpu.policy.placement import obstacles
from lxgpu.services.borrowwords import of_card
from lxgpu.services.cardviews import BUSY, FOREIGN, FREE, IDLE, UNKNOWN, GpuView, ProcessView, SlotView, order

_SICKNESS = ("missing", "closed", "quarantined", "sick")
_TOLD = frozenset({"held", "closed", "quarantined"})
"""Reasons that the slots and other parts of the note tell already."""


@dataclass(frozen=True, slots=True)
class Cards:
    """All cards; `notes` say why one is not free and not simply held, by UUID, or what is to be known of a part."""

    views: tuple[GpuView, ...]
    notes: Mapping[str, str]


def card_views(
    records: Records,
    seen: Observation | None,
    readings: Readings | None,
    *,
    mode: Callable[[str], str | None],
    judged: Mapping[str, str] | None = None,
) -> Cards:
    """All cards that LXD shows or the inventory remembers, in PCI order.

    Args:
        records: the inventory.
        seen: what LXD showed; None when it did not answer, which makes nothing missing and nothing free.
        readings: NVML's sample; None when it was not asked.
        mode: how a card of a UUID is divided, by the policy.
        judged: what is judged of held cards by their samples, by UUID: one at work a while ago is not idle now.
    """
    present = {gpu.uuid: gpu for gpu in whole(seen.gpus)} if seen else {}
    remembered = {card.uuid: card for card in records.cards}
    blocked = dict(obstacles(records, lent(seen, records))) if seen else {}
    if seen:
        gone = [uuid for uuid in {**remembered, **_held_cards(records)} if uuid not in present]
        blocked |= {uuid: Reason("missing", _gone(remembered.get(uuid))) for uuid in gone}
    strange, boot = _strange(records, seen), seen.boot_id if seen else ""
    used = {item.uuid: item for item in lent_readings(readings, records, boot).items} if readings else {}
    views = []
    for uuid in {**remembered, **_held_cards(records), **present}:
        reading = readings.of(uuid) if readings else None
        trouble = blocked.get(uuid)
        health = _health(records, uuid, trouble, reading)
        slots = _slots(records, uuid, blocked, strange.get(uuid, ()), known=seen is not None)
        slots = tuple(_used(slot, used.get(slot.slot)) for slot in slots)
        source = present.get(uuid) or remembered.get(uuid)
        host = seen.host if seen and uuid in present else source.host if source else None
        view = _view(uuid, source, reading, slots, host=host, mode=_mode(records, uuid, mode), health=health)
        at_work = view.verdict == IDLE and (judged or {}).get(uuid) == BUSY
        views.append(replace(view, verdict=BUSY) if at_work else view)
    shown = sorted(views, key=order)
    return Cards(views=tuple(shown), notes={view.uuid: _note(records, view, blocked) for view in shown})


def past_views(
    past: Records, records: Records, present: Iterable[Gpu], at: datetime, *, mode: Callable[[str], str | None]
) -> Cards:
    """Who held what at an instant.

    Args:
        past: the assignments of then.
        records: the inventory of now, for the cards.
        present: the cards that LXD shows now.
        at: the instant.
        mode: how a card of a UUID is divided, by the policy.
    """
    holders: dict[str, list[Assignment]] = {}
    for row in past.assignments:
        if row.since is not None and row.since <= at:
            holders.setdefault(row.slot.card, []).append(row)
    remembered = {card.uuid: card for card in records.cards}
    shown = {gpu.uuid: gpu for gpu in present}
    views = [
        _view(
            uuid,
            shown.get(uuid) or remembered.get(uuid),
            None,
            tuple(_held_slot(row, uuid) for row in _in_order(holders.get(uuid))),
            host=card.host if (card := remembered.get(uuid)) else None,
            mode=mode(uuid),
        )
        for uuid in {**remembered, **holders, **shown}
    ]
    return Cards(views=tuple(sorted(views, key=order)), notes={})


def _in_order(rows: list[Assignment] | None) -> list[Assignment | None]:
    """Those who held a card by slot; nobody, where there are none."""
    return [*sorted(rows, key=lambda row: row.slot)] if rows else [None]


def _held_slot(row: Assignment | None, uuid: str) -> SlotView:
    if row is None:
        return SlotView(slot=uuid, holder=None, state=FREE)
    return SlotView(str(row.slot), row.instance, "active", row.until, row.reservation)


def _view(
    uuid: str,
    source: Gpu | Card | None,
    reading: Reading | None,
    slots: tuple[SlotView, ...],
    *,
    host: str | None,
    mode: str | None,
    health: str | None = None,
) -> GpuView:
    processes = None
    if reading and reading.processes is not None:
        processes = tuple(ProcessView(one.pid, one.instance, one.user, one.memory_bytes) for one in reading.processes)
    told = reading.memory_total_bytes if reading else None
    return GpuView(
        uuid=uuid,
        index=reading.index if reading else None,
        pci=source.pci if source else None,
        model=source.model if source else None,
        host=host,
        memory_bytes=told or (source.memory_bytes if source else None),
        mode=mode,
        health=health,
        slots=slots,
        utilization_percent=reading.utilization_percent if reading else None,
        memory_used_bytes=reading.memory_used_bytes if reading else None,
        processes=processes,
        verdict=verdict(reading) if reading else None,
        sampled_at=reading.sampled_at if reading else None,
    )


def verdict(reading: Reading) -> str:
    """`busy`, `foreign`, `idle` or `unknown` by one sample.

    What is not known is never idle, and a display server is no use. Foreign: what computes are the host's own
    processes, which are nobody's.
    """
    computing = [one for one in reading.processes or () if one.kind == "compute"]
    if computing and all(one.instance is None for one in computing):
        return FOREIGN
    if computing or (reading.utilization_percent or 0) > 0:
        return BUSY
    if reading.fault or reading.processes is None or reading.utilization_percent is None:
        return UNKNOWN
    return IDLE


def _slots(
    records: Records, uuid: str, blocked: Mapping[str, Reason], strange: Iterable[Holding], *, known: bool
) -> tuple[SlotView, ...]:
    rows = {row.slot.gpu: row for row in records.assignments if row.live and row.slot.card == uuid}
    card = records.card(uuid)
    parts = names(uuid, card.layout if card else "")
    held = [SlotView(name, row.instance, row.state.value, row.until, row.reservation) for name, row in rows.items()]
    passed = [SlotView(uuid, _full_name(one), FOREIGN) for one in strange]
    empty = [name for name in parts if name not in rows]
    if len(parts) == 1 and (held or passed):
        empty = []
    codes = {name: (blocked[name].code if name in blocked else FREE) if known else None for name in empty}
    free = [SlotView(name, None, code) for name, code in codes.items()]
    return (*sorted([*held, *free], key=lambda view: view.slot), *passed)


def _used(slot: SlotView, reading: Reading | None) -> SlotView:
    """A slot with its use; whose that of a card is which is attached without lxgpu nobody knows."""
    if reading is None:
        return slot
    return replace(slot, memory_used_bytes=reading.memory_used_bytes, utilization_percent=reading.utilization_percent)


def _mode(records: Records, uuid: str, mode: Callable[[str], str | None]) -> str | None:
    """How a card is divided now; what the policy wants of one that is in use comes later."""
    card = records.card(uuid)
    wanted = mode(uuid)
    if card is not None and card.layout:
        return (Mode.MIG if in_slices(card.layout) else Mode.TIMESHARE).value
    return Mode.EXCLUSIVE.value if wanted in {Mode.TIMESHARE.value, Mode.MIG.value} else wanted


def _strange(records: Records, seen: Observation | None) -> dict[str, list[Holding]]:
    """Cards that instances have without an assignment or a borrowing, ours and others'."""
    ours = records.meant()
    found: dict[str, list[Holding]] = {}
    for one in holdings(seen) if seen else ():
        if not (one.ours and one.project == "default" and (one.instance, one.uuid) in ours):
            found.setdefault(one.uuid, []).append(one)
    return found


def _full_name(one: Holding) -> str:
    return one.instance if one.project == "default" else f"{one.project}/{one.instance}"


def _health(records: Records, uuid: str, trouble: Reason | None, reading: Reading | None) -> str | None:
    """The gravest thing wrong with the card itself; who holds it does not matter here."""
    card = records.card(uuid)
    wrong = {
        "missing": trouble is not None and trouble.code == "missing",
        "closed": card is not None and card.closed != "",
        "quarantined": any(slot.quarantine and slot.slot.card == uuid for slot in records.slots),
        "sick": reading is not None and reading.fault is not None,
    }
    return next((word for word in _SICKNESS if wrong[word]), "ok" if reading else None)


def _note(records: Records, view: GpuView, blocked: Mapping[str, Reason]) -> str:
    """Why a card is not simply free or held, in words; empty when it is."""
    card = records.card(view.uuid)
    parts = [blocked[view.uuid].text] if view.health == "missing" else []
    if card is not None and card.closed:
        parts.append(f"closed by {card.closed_by}: {card.closed}")
    parts += [slot.quarantine for slot in records.slots if slot.slot.card == view.uuid and slot.quarantine]
    trouble = blocked.get(view.uuid)
    if trouble is not None and trouble.text not in parts and trouble.code not in _TOLD:
        parts.append(trouble.text)
    parts += [text] if (text := of_card(records, view.uuid)) else []
    strange = [slot.holder for slot in view.slots if slot.state == FOREIGN]
    if strange and not any("without lxgpu" in part for part in parts):
        parts.append(f"attached to {', '.join(filter(None, strange))} without lxgpu")
    return "; ".join(parts)


def _held_cards(records: Records) -> dict[str, None]:
    return {row.slot.card: None for row in records.assignments if row.live or row.state is AssignmentState.PLANNED}


def _gone(card: Card | None) -> str:
    return "the host does not show it" + (f" since {card.seen_at:%Y-%m-%d %H:%M} UTC" if card else "")
