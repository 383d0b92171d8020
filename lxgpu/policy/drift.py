"""Where LXD and the inventory say different things. Pure: findings, each with its remedy; nothing is judged twice.

Codes: `foreign_card`, `double_card`, `extra_card`, `missing_card`, `missing_instance`, `replaced_instance`, `unmarked`,
`copy`, `orphan`, `open_rule`, `lost_gpu`, `moved_gpu`, `half_done`, `mig_by_hand`, `unmade_slices`, `missing_slice`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from lxgpu.model.assignment import ATTACHED, KEPT
from lxgpu.model.devices import slice_devices
from lxgpu.model.gpu import MISSING, WHOLE, Gpu, Slot, card_of
from lxgpu.model.instance import InstanceState, Sighting
from lxgpu.model.layout import looked_at, whole
from lxgpu.model.snapshot import Observation, Records
from lxgpu.policy.exclusivity import Holding, holdings
from lxgpu.policy.lookup import unmade_cards

TEMPLATE_PREFIX = "lxgpu-template-"
MARK_OPERATION, MARK_UUID = "user.lxgpu.operation", "user.lxgpu.uuid"
_DENIED = re.compile(r"^lxc\.cgroup\.devices\.deny = c (\d+):(\d+) rwm$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Finding:
    """One difference: what it is about, in words, and what to do."""

    code: str
    subject: str
    text: str
    fix: str


def findings(records: Records, seen: Observation) -> tuple[Finding, ...]:
    """Every difference between the inventory and what LXD shows, in a fixed order."""
    held = holdings(seen)
    found = [*_cards(records, seen, held), *_instances(records, seen), *_rules(records, seen)]
    found += [*_gpus(records, seen), *_slices(records, seen), *_journal(records)]
    return tuple(sorted(found, key=lambda item: (item.code, item.subject, item.text)))


def extra_cards(records: Records, seen: Observation) -> dict[str, tuple[Slot, ...]]:
    """Cards that our instances show and do not hold, by instance: the ones to take off again."""
    meant = records.meant()
    ours = {row.name for row in records.instances}
    extra: dict[str, set[Slot]] = defaultdict(set)
    for holding in holdings(seen):
        if holding.ours and holding.instance in ours and (holding.instance, holding.uuid) not in meant:
            extra[holding.instance].add(Slot(holding.uuid))
    return {name: tuple(sorted(slots)) for name, slots in sorted(extra.items())}


def _cards(records: Records, seen: Observation, held: tuple[Holding, ...]) -> Iterator[Finding]:
    sharing = _sharing(records)
    by_card: dict[str, list[Holding]] = defaultdict(list)
    for holding in held:
        by_card[holding.uuid].append(holding)
        if not holding.ours:
            where = f"{holding.instance} (project {holding.project}, device {holding.device})"
            yield Finding(
                "foreign_card",
                holding.uuid,
                f"attached to {where} without lxgpu",
                f"take the device off there, or lxgpu adopt {holding.instance}",
            )
    for uuid, several in sorted(by_card.items()):
        names = sorted({holding.instance for holding in several})
        if len(names) > 1 and not sharing.get(uuid, frozenset()).issuperset(names):
            text = f"attached to {', '.join(names)} at once"
            yield Finding("double_card", uuid, text, "lxgpu doctor --fix takes off what the inventory does not know")
    for name, slots in extra_cards(records, seen).items():
        for slot in slots:
            text = f"{name} has it attached, the inventory does not say so"
            yield Finding("extra_card", slot.gpu, text, "lxgpu doctor --fix takes it off")
    there = {(holding.instance, holding.uuid) for holding in held}
    for row in records.assignments:
        if row.state in ATTACHED and (row.instance, row.slot.card) not in there and seen.sighting(row.instance):
            text = f"{row.instance} holds it, LXD does not show it there"
            yield Finding("missing_card", row.slot.gpu, text, f"lxgpu restart {row.instance} attaches it again")


def _sharing(records: Records) -> Mapping[str, set[str]]:
    """Who holds parts of a divided card, or an idle one that is lent on, by its UUID."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for row in records.assignments:
        if row.live and row.slot.part != WHOLE:
            found[row.slot.card].add(row.instance)
    holders = {row.id: row.instance for row in records.assignments if row.live}
    for lent in records.borrowings:
        if lent.assignment in holders:
            found[lent.slot.card] |= {lent.instance, holders[lent.assignment]}
    return found


def _instances(records: Records, seen: Observation) -> Iterator[Finding]:
    # In the midst of a rename LXD has one of two names; both are accounted for, and `half_done` tells of it.
    known = {name for row in records.instances for name in (row.name, row.engine_name)}
    for row in records.instances:
        sighting = seen.sighting(row.name) or (seen.sighting(row.engine_name) if row.engine_name else None)
        if row.state is InstanceState.CREATING:
            continue
        if sighting is None:
            text = "LXD does not have it any more"
            yield Finding("missing_instance", row.name, text, f"lxgpu delete {row.name}; its home volume may be there")
        elif not sighting.ours and row.uuid and sighting.uuid == row.uuid:
            text = "its mark in LXD is gone; it is the same container"
            yield Finding("unmarked", row.name, text, f"lxgpu restart {row.name} writes the mark again")
        elif not sighting.ours or (row.uuid and sighting.uuid != row.uuid):
            text = "LXD has another instance under this name"
            yield Finding("replaced_instance", row.name, text, "rename that one, then lxgpu delete this one")
    for sighting in seen.sightings:
        if sighting.name in known or sighting.name.startswith(TEMPLATE_PREFIX):
            continue
        if is_copy(sighting):
            text = "a copy of one of lxgpu's containers; it may open the cards that the other one held"
            yield Finding("copy", sighting.name, text, f"lxgpu adopt {sighting.name}, or delete it")
        elif sighting.ours or is_orphan(sighting):
            text = "made by lxgpu, and the inventory does not know it"
            yield Finding("orphan", sighting.name, text, "lxgpu inventory rebuild, or delete it")


def _rules(records: Records, seen: Observation) -> Iterator[Finding]:
    """Instances of ours whose rule of the next start does not deny a card that they do not hold."""
    for name in _ours(records, seen):
        sighting = seen.sighting(name)
        if sighting is None:
            continue
        denied = set(_DENIED.findall(sighting.config.get("raw.lxc", "")))
        mine = {held.slot for held in records.held_by(name)}
        open_to = [gpu.uuid for gpu in looked_at(seen.gpus) if not _is_among(gpu, mine) and not _denied(gpu, denied)]
        if open_to:
            text = f"its rule of the next start leaves {', '.join(open_to)} open to it: changed by hand, or a new card"
            yield Finding("open_rule", name, text, f"lxgpu restart {name} --yes")


def stale_slices(records: Records, seen: Observation) -> tuple[str, ...]:
    """Our instances that do not have their MIG slices as these were made, or may open others' at their next start."""
    slices = [gpu for gpu in seen.gpus if gpu.slice]
    return tuple(name for name in _ours(records, seen) if _stale(records, seen, name, slices)) if slices else ()


def _ours(records: Records, seen: Observation) -> Iterator[str]:
    for row in records.instances:
        sighting = seen.sighting(row.name)
        if sighting is not None and sighting.ours and row.state is not InstanceState.CREATING:
            yield row.name


def _stale(records: Records, seen: Observation, name: str, slices: Iterable[Gpu]) -> bool:
    sighting = seen.sighting(name)
    if sighting is None:
        return False
    mine = {row.slot for row in records.held_by(name) if row.state in KEPT}
    denied = set(_DENIED.findall(sighting.config.get("raw.lxc", "")))
    return any(
        any(sighting.devices.get(key) != device for key, device in slice_devices(gpu).items())
        if Slot(gpu.uuid) in mine
        else not _denied(gpu, denied)
        for gpu in slices
    )


def _is_among(gpu: Gpu, held: Collection[Slot]) -> bool:
    """Whether one of the slots is the card, a time share of it, or the MIG slice."""
    return any(slot.gpu == gpu.uuid if gpu.of is not None else slot.card == gpu.uuid for slot in held)


def _denied(gpu: Gpu, denied: Collection[tuple[str, str]]) -> bool:
    """Whether the rule keeps it closed: of a MIG slice its own nodes, since who holds another one opens the card's."""
    nodes = gpu.nodes if gpu.of is None else set(gpu.nodes).difference(gpu.of.nodes)
    return all((str(node.major), str(node.minor)) in denied for node in nodes)


def is_copy(sighting: Sighting) -> bool:
    """Whether it carries another instance's identity."""
    mark = sighting.config.get(MARK_UUID, "")
    return bool(mark) and not sighting.ours


def is_orphan(sighting: Sighting) -> bool:
    """Whether it was made by an operation that ended before it got its identity."""
    return MARK_OPERATION in sighting.config and not sighting.config.get(MARK_UUID)


def _gpus(records: Records, seen: Observation) -> Iterator[Finding]:
    shown = {gpu.uuid: gpu for gpu in whole(seen.gpus)}
    for card in records.cards:
        gpu = shown.get(card.uuid)
        if gpu is None and card.host == seen.host:
            holders = sorted({row.instance for row in records.assignments if row.live and row.slot.card == card.uuid})
            whose = f"; {', '.join(holders)} holds it" if holders else ""
            text = f"the host shows it no more (last at {card.pci}){whose}"
            yield Finding("lost_gpu", card.uuid, text, "look at the kernel log and the card; it keeps its holder")
        elif gpu is not None and gpu.pci != card.pci:
            text = f"it sits at {gpu.pci} now, it sat at {card.pci}"
            yield Finding("moved_gpu", card.uuid, text, "lxgpu restart of its holder attaches it by the new address")


def _slices(records: Records, seen: Observation) -> Iterator[Finding]:
    """MIG slices that are not there, and cards that somebody else put into MIG mode; as far as NVML was asked."""
    due = unmade_cards(records.cards, seen.boot_id)
    for uuid in sorted(due):
        text = "its MIG slices are not made, or not taken away, as its layout wants it; nothing of it is lent"
        yield Finding("unmade_slices", uuid, text, f"lxgpu gpu mode {uuid}; the daemon tries it at every look")
    for one in seen.readings.items if seen.readings else ():
        if card_of(one.uuid) in due:
            continue
        if one.fault == MISSING:
            fix = "the daemon makes it again, or: lxgpu daemon run --once"
            yield Finding("missing_slice", one.uuid, "NVML does not show this MIG slice", fix)
        elif one.slices is not None:
            fix = f"nvidia-smi -i {one.uuid} -mig 0, or have gpus: in the policy divide it"
            yield Finding("mig_by_hand", card_of(one.uuid), "it is in MIG mode, and not by lxgpu", fix)


def _journal(records: Records) -> Iterator[Finding]:
    for row in records.operations:
        if row.live:
            text = f"{row.kind} begun by {row.actor} is at step {row.step or 'none'}"
            yield Finding("half_done", row.instance, text, "the next change goes on with it: lxgpu doctor --fix")
