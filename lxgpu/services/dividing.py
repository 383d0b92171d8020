"""Cards divided, or made whole again, as the policy says: only while nobody has any of them.

A card changes its layout when it is empty, and when what is booked has room without it; until then it stays as it is,
and whoever holds it keeps it. `gpu mode` says who is in the way, `gpu close` lets nobody new come in.
"""

from __future__ import annotations

from dataclasses import replace

from lxgpu.errors import LxgpuError
from lxgpu.model.assignment import SlotRecord
from lxgpu.model.gpu import Slot, card_of
from lxgpu.model.layout import layout_of, names, whole
from lxgpu.model.plan import Plan, PlannedStep, Verdict
from lxgpu.model.slices import PENDING, in_slices
from lxgpu.model.snapshot import Snapshot
from lxgpu.policy.divisions import Division, divisions
from lxgpu.policy.resolve import resolve_gpu
from lxgpu.ports import Tx
from lxgpu.services import observe
from lxgpu.services.begin import decided
from lxgpu.services.identity import ensure_identity, mirror_promises
from lxgpu.services.site import Site
from lxgpu.services.slicing import misfit, settle_slices


def settle_divisions(site: Site, snapshot: Snapshot) -> int:
    """Bring every card that can be in line with the policy; gives how many were."""
    due = [one for one in divisions(snapshot) if one.due and not one.obstacles]
    wrong = {one.card.uuid: misfit(site, one.card.uuid, one.wanted) for one in due}
    did = sum(_change(site, snapshot, one.card.uuid) for one in due if wrong[one.card.uuid] is None)
    for error in filter(None, wrong.values()):
        raise error
    return did


def plan_division(site: Site, text: str) -> tuple[Snapshot, Division, Plan]:
    """What the policy wants of a card, and what stands against it; nothing is written. Error `no_such_gpu`."""
    snapshot = observe.snapshot(site, readings=False)
    uuid = resolve_gpu(whole(snapshot.seen.gpus), snapshot.records.cards, card_of(text))
    found = next((one for one in divisions(snapshot) if one.card.uuid == uuid), None)
    if found is None:
        raise LxgpuError("no_such_gpu", f"this host does not show {uuid} now", fix="lxgpu gpus")
    wrong = misfit(site, uuid, found.wanted) if found.due else None
    if wrong is not None:
        raise wrong
    if found.obstacles:
        return snapshot, found, Plan(Verdict.WAITING, found.obstacles)
    steps = (PlannedStep("divide", "", gpu=uuid, why=f"{found.words}, as the policy says"),) if found.due else ()
    return snapshot, found, Plan(Verdict.GRANTED, steps=steps)


def divide_now(site: Site, text: str) -> Division:
    """Bring one card in line with the policy at once.

    Errors: `conflict`: somebody has some of it; it names them. `bad_file`: it has no such MIG slices, or not so many.
    Those of `ports.Slicer`: then the daemon goes on with it.
    """
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
    if in_slices(found.wanted) or found.card.made:
        settle_slices(site, observe.snapshot(site, readings=True), only=found.card.uuid)
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
        made = one.card.made or (PENDING if in_slices(one.wanted) else "")
        tx.put(replace(one.card, layout=one.wanted, made=made))
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
