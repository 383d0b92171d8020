"""Cards in and out of service: closed by hand with a reason, opened again, and proven free after a quarantine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from lxgpu.errors import LxgpuError
from lxgpu.model.assignment import Assignment, AssignmentState, Card, SlotRecord
from lxgpu.model.gpu import Gpu, card_of, is_part
from lxgpu.model.layout import whole
from lxgpu.model.plan import Plan, PlannedStep, Verdict
from lxgpu.model.snapshot import Snapshot
from lxgpu.policy.exclusivity import holdings
from lxgpu.policy.health import by_fault
from lxgpu.policy.resolve import resolve_gpu
from lxgpu.ports import Tx
from lxgpu.services import fence, observe
from lxgpu.services.begin import decided
from lxgpu.services.fence import FenceState
from lxgpu.services.identity import ensure_identity, mirror_promises
from lxgpu.services.site import Site


@dataclass(frozen=True, slots=True)
class Condition:
    """One card: what the inventory remembers, what the host shows (None: nothing), who holds it, what is in doubt."""

    uuid: str
    snapshot: Snapshot
    card: Card | None
    gpu: Gpu | None
    held: tuple[Assignment, ...]
    quarantined: tuple[SlotRecord, ...]

    @property
    def kept(self) -> bool:
        """Whether somebody holds it by right: then it goes to nobody else when it is opened."""
        return any(row.state is not AssignmentState.QUARANTINED for row in self.held)

    @property
    def in_doubt(self) -> bool:
        """Whether it must be proven free before it can be opened."""
        by_faults = all(by_fault(row.quarantine) for row in self.quarantined)
        return bool(self.quarantined) and not (self.kept and by_faults)

    @property
    def holders(self) -> str:
        """The names of those who hold it, for a sentence."""
        return ", ".join(sorted({row.instance for row in self.held}))


def condition(snapshot: Snapshot, uuid: str) -> Condition:
    """How a card stands in a snapshot."""
    records = snapshot.records
    return Condition(
        uuid=uuid,
        snapshot=snapshot,
        card=records.card(uuid),
        gpu=next((gpu for gpu in whole(snapshot.seen.gpus) if gpu.uuid == uuid), None),
        held=tuple(row for row in records.assignments if row.live and row.slot.card == uuid),
        quarantined=tuple(row for row in records.slots if row.quarantine and row.slot.card == uuid),
    )


def look(site: Site, text: str) -> Condition:
    """The card that a text names, as it stands; error `no_such_gpu`."""
    snapshot = observe.snapshot(site)
    return condition(snapshot, resolve_gpu(whole(snapshot.seen.gpus), snapshot.records.cards, card_of(text)))


def plan_close(site: Site, text: str, *, reason: str) -> Plan:
    """What closing would do; nothing is written."""
    found = look(site, text)
    kept = f"; {found.holders} keeps it until it is released" if found.held else ""
    return _plan(PlannedStep("close", found.holders, gpu=found.uuid, why=f"{reason}{kept}"))


def close(site: Site, text: str, *, reason: str) -> Condition:
    """Take a card out of service: nobody is given it any more, and who holds it keeps it until it is released."""
    ensure_identity(site)
    found = look(site, text)

    def write(tx: Tx, now: Snapshot) -> None:
        tx.put(replace(_card(condition(now, found.uuid)), closed=reason, closed_by=site.actor, closed_at=now.now))
        tx.event("closed", found.uuid, rule="by hand", detail={"gpu": found.uuid, "reason": reason})

    decided(site, found.snapshot, write)
    mirror_promises(site)
    if found.held:
        site.say(f"{found.holders} keeps it until it is released: lxgpu release {found.held[0].instance} --gpu {text}")
    return found


def plan_open(site: Site, text: str) -> Plan:
    """What opening would do; nothing is written."""
    found = look(site, text)
    why = "; ".join(row.quarantine for row in found.quarantined)
    steps = [PlannedStep("prove", found.holders, gpu=found.uuid, why=why)] if found.in_doubt else []
    if found.card is not None and found.card.closed:
        steps.append(PlannedStep("open", "", gpu=found.uuid, why=f"closed by {found.card.closed_by}"))
    return _plan(*steps)


def open_again(site: Site, text: str) -> bool:
    """Bring a card back into service; one in quarantine is proven free first. False: it was in service.

    One with a fault must be answering again. If somebody holds it by right they keep it, and nothing is proven.

    Error `quarantined`: it could not be proven free; then it stays as it was, and `why` says who holds it.
    """
    ensure_identity(site)
    found = look(site, text)
    if not found.quarantined and not (found.card is not None and found.card.closed):
        return False
    if any(by_fault(row.quarantine) for row in found.quarantined):
        _answers(site, found)
    if found.in_doubt:
        _prove(site, found)

    def write(tx: Tx, now: Snapshot) -> None:
        there = condition(now, found.uuid)
        if there.card is not None and there.card.closed:
            tx.put(replace(_card(there), closed="", closed_by="", closed_at=None))
        if found.quarantined:
            _clear(tx, there)
        tx.event("opened", found.uuid, rule="by hand", detail={"gpu": found.uuid, "proven": found.in_doubt})

    decided(site, found.snapshot, write)
    mirror_promises(site)
    return True


def _answers(site: Site, found: Condition) -> None:
    """Error `quarantined` while a card that had a fault does not answer NVML."""
    readings = site.probe.readings()
    reading = readings.of(found.uuid)
    if reading is None or reading.fault:
        why = readings.error or f"NVML says {reading.fault if reading else 'nothing of it'}"
        raise _not_proven(found, why=[why], fix="reset the card or reboot the host, then repeat")


def _prove(site: Site, found: Condition) -> None:
    parts = (row for row in found.held if is_part(row.slot.gpu))
    by_right = {row.instance for row in parts if row.state is not AssignmentState.QUARANTINED}
    passed = (one for one in holdings(found.snapshot.seen) if one.uuid == found.uuid)
    attached = [one for one in passed if one.instance not in by_right]
    if attached:
        raise _not_proven(
            found,
            why=[f"attached to {one.instance} (project {one.project}, device {one.device})" for one in attached],
            fix="take the device off there, then repeat",
        )
    if found.gpu is None:
        raise _not_proven(found, why=["the host no longer shows the card"], fix="lxgpu doctor looks at the driver")
    doubted = {row.slot.gpu for row in found.quarantined}
    lent = [
        gpu
        for gpu in found.snapshot.seen.gpus
        if gpu.card == found.uuid and not doubted.isdisjoint((gpu.uuid, gpu.card))
    ]
    had_it = {row.instance for row in found.held} or {one.name for one in found.snapshot.seen.sightings if one.ours}
    verdicts = fence.prove(site, lent, suspects=had_it).values()
    why = [verdict.why for verdict in verdicts if verdict.state is not FenceState.PROVEN]
    if why:
        stuck = _stuck(found.held)
        stop = f"lxgpu stop {stuck[0].instance} --yes" if stuck else "end what holds it"
        raise _not_proven(found, why=why, fix=f"{stop}, then repeat")


def _clear(tx: Tx, there: Condition) -> None:
    """The quarantine ends, and with it the assignment that was kept for it."""
    for row in there.quarantined:
        fresh = tx.records.slot(row.slot) or row
        tx.put(replace(fresh, quarantine="", quarantined_at=None))
    for held in _stuck(there.held):
        tx.put(replace(held, state=AssignmentState.CLOSED, closed_at=there.snapshot.now, outcome="cleared"))
        tx.event("released", held.instance, rule="fence", detail={"gpu": there.uuid, "outcome": "cleared"})


def _stuck(rows: Iterable[Assignment]) -> list[Assignment]:
    return [row for row in rows if row.state is AssignmentState.QUARANTINED]


def _not_proven(found: Condition, *, why: list[str], fix: str) -> LxgpuError:
    return LxgpuError("quarantined", f"{found.uuid} is not proven free and stays in quarantine", why=why, fix=fix)


def _card(there: Condition) -> Card:
    """The card's row, with where it sits now."""
    gpu, known = there.gpu, there.card
    if known is not None:
        return known if gpu is None else replace(known, pci=gpu.pci, model=gpu.model, host=there.snapshot.seen.host)
    if gpu is None:
        raise LxgpuError("no_such_gpu", f"there is no card {there.uuid}", fix="lxgpu gpus lists the cards")
    return Card(
        uuid=gpu.uuid,
        host=there.snapshot.seen.host,
        pci=gpu.pci,
        model=gpu.model,
        memory_bytes=gpu.memory_bytes,
        seen_at=there.snapshot.now,
    )


def _plan(*steps: PlannedStep) -> Plan:
    return Plan(decision=Verdict.GRANTED, steps=steps)
