"""Parking: a program keeps its life while its card is away, by a checkpoint of what it has on the card.

Only where the policy says so (`preemption.on_preempt: [park, term]`; off by default, and not seen on hardware). Every
refusal falls through to TERM, and so does a parking that does not let go of the card in time.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta

from lxgpu.model.gpu import card_of
from lxgpu.model.rules import TakeBy
from lxgpu.ports import Process
from lxgpu.services.recipes import Wait, Work
from lxgpu.services.site import Site

PARK_S = 30.0
"""How long a parking may take; then TERM comes."""
DRIVER = 550
"""The first driver that can do it."""
_LOOKS_BACK = 500


def park(work: Work, processes: Collection[Process]) -> Wait | None:
    """Begin to park what holds the cards, once, and wait while it does; None when TERM is next."""
    site = work.site
    if not work.text("rule") or not wanted(site):
        return None
    until = work.text("park_until")
    if not until:
        until = (site.clock.now() + timedelta(seconds=PARK_S)).isoformat()
        work.note(park_until=until)  # first, so that no crash begins it twice: the tool toggles
        gpus = [text.partition("/")[0] for text in work.texts("slots")]
        why = _begin(site, processes, gpus)
        detail = {"gpus": gpus, "processes": [[one.pid, one.start_time] for one in processes]}
        with site.write() as tx:
            tx.event("not_parked" if why else "parked", work.name, rule="park", detail={**detail, "why": why})
        if why:
            work.note(park_until=site.clock.now().isoformat())
            return None
    end = datetime.fromisoformat(until)
    return None if site.clock.now() >= end else Wait(end)


def unpark(site: Site, name: str) -> None:
    """What was parked in a container goes on once it has all of those cards again; what fails is a line of history."""
    if not wanted(site):
        return
    held = {row.slot.gpu for row in site.inventory.read().held_by(name)}
    done: set[str] = set()
    for event in site.inventory.events(subject=name, limit=_LOOKS_BACK):  # newest first
        who = str(event.detail.get("processes"))
        if event.kind not in {"parked", "unparked"} or who in done:
            continue
        gpus, pairs = event.detail.get("gpus"), event.detail.get("processes")
        done.add(who)
        if event.kind == "unparked" or not isinstance(gpus, list) or not isinstance(pairs, list):
            continue
        if held.issuperset(gpus):
            why = "; ".join(filter(None, (site.parker.unpark(Process(pid, began)) for pid, began in pairs)))
            with site.write() as tx:
                tx.event("unparked", name, rule="park", detail={"gpus": gpus, "processes": pairs, "why": why})


def wanted(site: Site) -> bool:
    """Whether the policy wants parking tried before TERM."""
    return site.policy().rules.preemption.on_preempt[:1] == (TakeBy.PARK,)


def _begin(site: Site, processes: Collection[Process], gpus: Collection[str]) -> str:
    """Why it cannot be parked; empty when it has been begun."""
    readings = site.probe.readings()
    major = (readings.driver or "").partition(".")[0]
    if not major.isdigit() or int(major) < DRIVER:
        return f"the driver is {readings.driver or 'unknown'}; {DRIVER} can do it"
    if len(processes) != 1:
        return f"{len(processes)} processes hold the cards; one can be parked"
    (process,) = processes
    cards = [readings.of(uuid) for uuid in sorted({card_of(gpu) for gpu in gpus})]
    listed = [one for card in cards if card for one in card.processes or ()]
    used = [one.memory_bytes for one in listed if one.pid == process.pid]
    if not used or None in used:
        return "how much it has on the cards is not known"
    return site.parker.park(process, need_bytes=sum(filter(None, used)))
