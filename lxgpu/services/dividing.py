"""Cards divided, or made whole again, as the policy says: only while nobody has any of them.

A card changes its layout when it is empty, and when what is booked has room without it; until then it stays as it is,
and whoever holds it keeps it. `gpu mode` says who is in the way, `gpu close` lets nobody new come in.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from lxgpu.errors import LxgpuError
from lxgpu.instants import show_instant
from lxgpu.model.assignment import Card, SlotRecord
from lxgpu.model.gpu import Slot
from lxgpu.model.layout import in_parts, layout_of, names, whole
from lxgpu.model.plan import Plan, PlannedStep, Reason, Verdict
from lxgpu.model.quota import Policy
from lxgpu.model.snapshot import Records, Snapshot
from lxgpu.policy.calendar import Skyline, capacity, promises
from lxgpu.policy.resolve import resolve_gpu
from lxgpu.ports import Tx
from lxgpu.services import observe
from lxgpu.services.begin import cards_there, decided
from lxgpu.services.identity import ensure_identity, mirror_promises
from lxgpu.services.site import Site


@dataclass(frozen=True, slots=True)
class Division:
    """How a card is divided (`now`), how the policy wants it (`wanted`), and why it cannot be so yet."""

    card: Card
    now: str
    wanted: str
    obstacles: tuple[Reason, ...] = ()

    @property
    def due(self) -> bool:
        """Whether it is not as the policy wants it."""
        return self.now != self.wanted

    @property
    def words(self) -> str:
        """What is to become of it."""
        return f"{self.wanted} time shares" if self.wanted else "a whole card"


def any_due(records: Records, policy: Policy) -> bool:
    """Whether any card is not as the policy wants it: nearly always none, and then nothing else needs a look."""
    return any(card.layout != layout_of(policy.rules.card(card.uuid)) for card in records.cards)


def divisions(snapshot: Snapshot) -> Iterator[Division]:
    """Every card of the host that is there; pure."""
    for card in cards_there(snapshot):
        wanted = layout_of(snapshot.policy.rules.card(card.uuid))
        found = Division(card, card.layout, wanted)
        yield replace(found, obstacles=tuple(_obstacles(snapshot, card, wanted))) if found.due else found


def _obstacles(snapshot: Snapshot, card: Card, wanted: str) -> Iterator[Reason]:
    """Who has any of it, and the bookings that need it as it is."""
    for row in snapshot.records.assignments:
        if row.slot.card == card.uuid:
            until = (
                f" until {show_instant(row.until, now=snapshot.now, zone=snapshot.policy.zone)}" if row.until else ""
            )
            what = "holds" if row.live else "is promised"
            yield Reason("held", f"{row.instance} {what} {row.slot}{until}")
    stuck = [row for row in snapshot.records.slots if row.slot.card == card.uuid and row.quarantine]
    for record in stuck:
        yield Reason("quarantined", f"{record.slot} is in quarantine: {record.quarantine}")
    for pool in sorted({gpu.model for gpu in snapshot.seen.gpus if gpu.card == card.uuid}):
        goes = sum(gpu.card == card.uuid and gpu.model == pool for gpu in snapshot.seen.gpus)
        room = capacity(snapshot, pool) - (0 if card.closed else goes)
        if Skyline(room, promises(snapshot, snapshot.seen.host, pool)).free(snapshot.now, None) < 0:
            yield Reason("booked", f"bookings of {pool} need it; lxgpu reservations lists them")
    if wanted and in_parts(card.model):
        yield Reason("conflict", f"the name of its model, {card.model!r}, reads as a part of a card")


def settle_divisions(site: Site, snapshot: Snapshot) -> int:
    """Bring every card that can be in line with the policy; gives how many were."""
    due = [one for one in divisions(snapshot) if one.due and not one.obstacles]
    return sum(_change(site, snapshot, one.card.uuid) for one in due)


def plan_division(site: Site, text: str) -> tuple[Snapshot, Division, Plan]:
    """What the policy wants of a card, and what stands against it; nothing is written. Error `no_such_gpu`."""
    snapshot = observe.snapshot(site, readings=False)
    uuid = resolve_gpu(whole(snapshot.seen.gpus), snapshot.records.cards, text)
    found = next((one for one in divisions(snapshot) if one.card.uuid == uuid), None)
    if found is None:
        raise LxgpuError("no_such_gpu", f"this host does not show {uuid} now", fix="lxgpu gpus")
    if found.obstacles:
        return snapshot, found, Plan(Verdict.WAITING, found.obstacles)
    steps = (PlannedStep("divide", "", gpu=uuid, why=f"{found.words}, as the policy says"),) if found.due else ()
    return snapshot, found, Plan(Verdict.GRANTED, steps=steps)


def divide_now(site: Site, text: str) -> Division:
    """Bring one card in line with the policy at once. Error `conflict`: somebody has some of it; it names them."""
    ensure_identity(site)
    snapshot, found, plan = plan_division(site, text)
    if plan.reasons:
        raise LxgpuError(
            "conflict",
            f"{found.card.uuid} cannot become {found.words} yet",
            why=[reason.text for reason in plan.reasons],
            fix=f"it changes by itself once it is empty; lxgpu gpu close {text} --reason R lets nobody new in",
        )
    if found.due and not _change(site, snapshot, found.card.uuid):
        raise LxgpuError("conflict", f"{found.card.uuid} was lent just now", fix="repeat the command")
    return found


def _change(site: Site, snapshot: Snapshot, uuid: str) -> bool:
    def write(tx: Tx, now: Snapshot) -> bool:
        one = next((item for item in divisions(now) if item.card.uuid == uuid), None)
        if one is None or not one.due or one.obstacles:
            return False
        for row in tx.records.slots:
            if row.slot.card == uuid:
                tx.drop(row)
        lent = names(uuid, one.wanted)
        tx.put(replace(one.card, layout=one.wanted))
        tx.put(*(SlotRecord(Slot(name), one.card.host, detached_at=now.now) for name in lent))
        tx.event(
            "divided", uuid, rule="policy", detail={"gpu": uuid, "parts": len(lent), "was": len(names(uuid, one.now))}
        )
        return True

    if not decided(site, snapshot, write):
        return False
    mirror_promises(site)
    site.say(f"{uuid} is {'divided' if layout_of(site.policy().rules.card(uuid)) else 'whole again'}")
    return True
