"""Faults of cards: what is broken goes out of service and stays so, and whoever is concerned is told.

A fault is acted upon once: the kernel's log remembers how far it was read, and should that be lost, the history knows
the line. A program that makes the same fault again and again is told of once an hour.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from lxgpu.model.assignment import Assignment, SlotRecord
from lxgpu.model.gpu import Slot
from lxgpu.model.operation import Event
from lxgpu.model.reservation import Notice
from lxgpu.model.snapshot import Observation, Records
from lxgpu.policy.health import Fault, Remedy, judge_xid, worse
from lxgpu.ports import Xid
from lxgpu.services.identity import mirror_promises
from lxgpu.services.notices import notice
from lxgpu.services.site import Site

QUIET = timedelta(minutes=10)
"""The same fault of the same card within this time is no news for the history."""
SAID = timedelta(hours=1)
"""The same fault of the same card is told to people once in this time."""
LAST_LOOK = timedelta(hours=1)
"""A look before this is too old to be called the last one."""
SICK, WELL = "sick", "well"
_HISTORY = 200


def check_health(site: Site, seen: Observation) -> int:
    """Act on the faults that the kernel's log and NVML told of since the last look; gives how many cards it concerned.

    Error `unavailable`: the log cannot be read; what NVML says is acted upon all the same.
    """
    sick = _check_nvml(site, seen)
    found = site.kernel_log.fresh()
    if not found:
        site.kernel_log.seen()  # how far it was read, or processes that live for one look never get through a long log
        return sick
    records = site.inventory.read()
    where = {card.pci: card.uuid for card in records.cards} | {gpu.pci: gpu.uuid for gpu in seen.gpus}
    told: dict[tuple[str, int], list[Xid]] = {}
    for xid in found:
        told.setdefault((where.get(xid.pci, xid.pci), xid.number), []).append(xid)
    broken = [_act(site, card, lines) for (card, _), lines in told.items()]
    if any(broken):
        mirror_promises(site)
    site.kernel_log.seen()
    return sick + len({card for card, _ in told})


def _act(site: Site, card: str, lines: list[Xid]) -> bool:
    """Act on the lines of one number about one card; whether it went into quarantine.

    What the history knows is asked for within the transaction: of two processes with the same line one acts.
    """
    now, fault = site.clock.now(), judge_xid(lines[-1].number, lines[-1].text)
    with site.write() as tx:
        before = [event for event in site.inventory.events(subject=card, limit=_HISTORY) if event.kind == "xid"]
        before = [event for event in before if event.detail.get("xid") == fault.number]
        lines = [line for line in lines if not any(_knows(event, line) for event in before)]
        if not lines:
            return False
        slot = Slot(card)
        known = tx.records.slot(slot) or SlotRecord(slot=slot, host=site.host)
        reason = worse(known.quarantine, fault) if fault.quarantines and card.startswith("GPU-") else known.quarantine
        broken = reason != known.quarantine
        if not broken and _since(before, now) < QUIET:
            return False
        if broken:
            tx.put(replace(known, quarantine=reason, quarantined_at=known.quarantined_at or now))
        holders = [row for row in tx.records.assignments if row.live and row.slot.card == card]
        concerned = _concerned(fault, lines[-1], holders)
        tx.event("xid", card, rule=fault.remedy.value, detail=_detail(card, fault, lines, holders))
        news = broken or _since(before, now) >= SAID
        if news and fault.remedy is not Remedy.NOTHING and (concerned or fault.remedy is not Remedy.PROGRAM):
            tx.put(*_notices(tx.records, _facts(card, fault), concerned, now))
    return broken


def _detail(card: str, fault: Fault, lines: list[Xid], holders: Iterable[Assignment]) -> Mapping[str, object]:
    last = lines[-1]
    return {
        "gpu": card,
        "xid": fault.number,
        "what": fault.meaning,
        "text": last.text,
        "times": len(lines),
        "told_at": last.at.isoformat(),
        "holders": sorted({row.instance for row in holders}),
        "quarantine": fault.quarantines,
        "line": last.line,
    }


def _knows(event: Event, line: Xid) -> bool:
    """Whether an event was written for this line or a later one of the same log."""
    source, _, place = str(event.detail.get("line", "")).rpartition(":")
    mine, _, here = line.line.rpartition(":")
    return source == mine and place.isdigit() and here.isdigit() and int(here) <= int(place)


def _since(before: list[Event], now: datetime) -> timedelta:
    """How long ago the same was written; a long time if never."""
    return now - before[0].at if before else timedelta.max


def _facts(card: str, fault: Fault) -> Mapping[str, object]:
    return {
        "gpus": [card],
        "xid": fault.number,
        "what": fault.reason.partition(": ")[2],
        "yours": fault.remedy is Remedy.PROGRAM,
        "kept": not fault.quarantines,
    }


def _concerned(fault: Fault, line: Xid, holders: Iterable[Assignment]) -> list[Assignment]:
    """Whose card or program it is: what is for the admins to look at concerns no holder, nor what was before them."""
    if fault.remedy in {Remedy.LOOK, Remedy.NOTHING}:
        return []
    return [row for row in holders if row.since is not None and (fault.quarantines or row.since <= line.at)]


def _notices(
    records: Records, facts: Mapping[str, object], concerned: Iterable[Assignment], now: datetime
) -> list[Notice]:
    """To the holders concerned, of which the admins hear too; to the admins alone when there are none."""
    rows = list(concerned)
    if not rows:
        return [notice("health", instance="", person="", facts=facts, now=now)]
    return [_to(records, row, facts, now) for row in rows]


def _to(records: Records, row: Assignment, facts: Mapping[str, object], now: datetime) -> Notice:
    instance = records.instance(row.instance)
    owner = instance.owner if instance else row.instance
    return notice("health", instance=row.instance, person=owner, about=row.id, facts=facts, now=now)


def _check_nvml(site: Site, seen: Observation) -> int:
    """A card that NVML does not get an answer from in two looks is sick, which is said once, and when it is over."""
    if seen.readings is None or seen.readings.error:
        return 0
    faults = {item.uuid: item.fault for item in seen.readings.items if item.uuid and item.fault}
    well = {item.uuid for item in seen.readings.items if item.uuid and not item.fault}
    watch, count = site.watch, 0
    if watch.sick is None:  # another process may have told of them, and they may be well again since
        watch.sick = {uuid for uuid in (*faults, *well) if _last_word(site, uuid) == SICK}
    for uuid, fault in faults.items():
        if uuid not in watch.sick and (watch.faults.get(uuid) == fault or _was_silent(site, uuid, seen.at)):
            watch.sick.add(uuid)
            count += _tell_sick(site, uuid, fault)
    for uuid in sorted(watch.sick & well):
        watch.sick.discard(uuid)
        count += _tell_well(site, uuid)
    watch.faults = faults
    return count


def _last_word(site: Site, uuid: str) -> str | None:
    """What the history says of a card last: that it is sick, or well again."""
    events = site.inventory.events(subject=uuid, limit=_HISTORY)
    return next((event.kind for event in events if event.kind in {SICK, WELL}), None)


def _was_silent(site: Site, uuid: str, now: datetime) -> bool:
    """Whether the look before, by whatever process, got no answer from the card either."""
    before = [sample for sample in site.inventory.samples(since=now - LAST_LOOK, uuid=uuid) if sample.at < now]
    return bool(before) and before[-1].memory_used_bytes is None and before[-1].utilization_percent is None


def _tell_sick(site: Site, uuid: str, fault: str) -> int:
    """Write it down and tell the holder, unless the history says it already (another process saw it first)."""
    facts = {"gpus": [uuid], "xid": None, "what": f"NVML says: {fault}", "yours": False, "kept": False}
    now = site.clock.now()
    with site.write() as tx:
        if _last_word(site, uuid) == SICK:
            return 0
        holders = [row for row in tx.records.assignments if row.live and row.slot.card == uuid]
        tx.event(SICK, uuid, rule="nvml", detail={"gpu": uuid, "fault": fault})
        tx.put(*_notices(tx.records, facts, holders, now))
    return 1


def _tell_well(site: Site, uuid: str) -> int:
    """Write down that a sick card answers again, once."""
    with site.write() as tx:
        if _last_word(site, uuid) != SICK:
            return 0
        tx.event(WELL, uuid, rule="nvml", detail={"gpu": uuid})
    return 1
