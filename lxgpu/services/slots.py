"""What the inventory is told as a card goes from hand to hand."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable
from dataclasses import replace
from datetime import datetime

from lxgpu.model.assignment import Assignment, AssignmentState, SlotRecord
from lxgpu.model.gpu import Gpu, Slot, card_of
from lxgpu.model.layout import part_of, whole
from lxgpu.model.request import GpuRequest
from lxgpu.model.reservation import Notice
from lxgpu.model.snapshot import Snapshot
from lxgpu.policy.admission import entitlement
from lxgpu.policy.health import by_fault
from lxgpu.policy.lease import lease_until
from lxgpu.ports import Tx
from lxgpu.services.site import Site


def claim(
    tx: Tx, snapshot: Snapshot, request: GpuRequest, slots: Iterable[Slot], *, lease_s: int | None
) -> tuple[Assignment, ...]:
    """Write the assignments that a decision granted; from here on the slots are taken."""
    slots = tuple(slots)
    until = lease_until(snapshot, request, slots, lease_s=lease_s)
    class_name = request.class_name or entitlement(snapshot, request.owner).class_name
    rows = tuple(
        Assignment(
            id=uuid.uuid4().hex[:12],
            slot=slot,
            instance=request.instance,
            state=AssignmentState.ATTACHING,
            created_at=snapshot.now,
            since=snapshot.now,
            class_name=class_name,
            until=until,
        )
        for slot in slots
    )
    tx.put(*rows)
    return rows


def activate(tx: Tx, instance: str) -> None:
    """The attaching assignments of an instance are confirmed."""
    for row in tx.records.held_by(instance):
        if row.state is AssignmentState.ATTACHING:
            tx.put(replace(row, state=AssignmentState.ACTIVE))
            tx.event("attached", instance, detail={"gpu": row.slot.gpu, "until": _iso(row)})


def detached(tx: Tx, slots: Iterable[Slot], *, host: str, at: datetime) -> None:
    """The slots are off their holder: every earlier proof is void."""
    for slot in slots:
        known = tx.records.slot(slot) or SlotRecord(slot=slot, host=host)
        tx.put(replace(known, detached_at=at))


def close(tx: Tx, instance: str, proofs: Collection[SlotRecord], *, at: datetime, outcome: str, rule: str = "") -> None:
    """End the releasing assignments of an instance whose cards are proven free.

    A quarantine ends with them, but for one by a fault of the card: an admin's hand alone ends that (`inservice`).
    `proofs` are the slots with the time and boot of their proof; what else is known of a slot stays.
    """
    wanted = {proof.slot for proof in proofs}
    for proof in proofs:
        known = tx.records.slot(proof.slot) or proof
        now = replace(known, proven_at=proof.proven_at, boot_id=proof.boot_id)
        if known.quarantine and not by_fault(known.quarantine):
            tx.event("cleared", instance, rule="fence", detail={"gpu": proof.slot.gpu, "was": known.quarantine})
            now = replace(now, quarantine="", quarantined_at=None)
        tx.put(now)
    for row in tx.records.held_by(instance):
        if row.slot in wanted and row.state is AssignmentState.RELEASING:
            tx.put(replace(row, state=AssignmentState.CLOSED, closed_at=at, outcome=outcome))
            tx.event("released", instance, rule=rule, detail={"gpu": row.slot.gpu, "outcome": outcome})


def quarantine(site: Site, instance: str, slot: Slot, why: str) -> None:
    """A card that could not be proven free stays with its last holder's name, and goes to nobody.

    The holder and the admins are told, once.
    """
    now = site.clock.now()
    with site.write() as tx:
        known = tx.records.slot(slot) or SlotRecord(slot=slot, host=site.host)
        reason = f"{known.quarantine} ({why})" if by_fault(known.quarantine) else why
        tx.put(replace(known, quarantine=reason, quarantined_at=now))
        for row in tx.records.held_by(instance):
            if row.slot == slot:
                tx.put(replace(row, state=AssignmentState.QUARANTINED))
        tx.event("quarantined", instance, rule="fence", detail={"gpu": slot.gpu, "why": why})
        if not known.quarantine:
            tx.put(_told(tx, instance, slot, why, now))


def _told(tx: Tx, instance: str, slot: Slot, why: str, now: datetime) -> Notice:
    from lxgpu.services.notices import notice  # noqa: PLC0415 -- only when a fence fails

    row = tx.records.instance(instance)
    fix = f"end what uses it inside. Admin: lxgpu stop {instance} --yes; lxgpu gpu open {slot.gpu}"
    facts = {"gpus": [slot.gpu], "why": why, "fix": fix}
    return notice("quarantined", instance=instance, person=row.owner if row else "", facts=facts, now=now)


def gpus_of(cards: Iterable[Gpu], slots: Iterable[Slot]) -> tuple[Gpu, ...]:
    """What the slots are, as far as the host still has it: cards, or parts of divided ones."""
    there = {card.uuid: card for card in cards}
    known = {**{card.uuid: card for card in whole(there.values())}, **there}
    found = (known.get(name) or _part(known.get(card_of(name)), name) for name in sorted({slot.gpu for slot in slots}))
    return tuple(gpu for gpu in found if gpu is not None)


def _part(card: Gpu | None, name: str) -> Gpu | None:
    """A part of a card that was divided after the cards were looked at."""
    return None if card is None else part_of(card, name)


def _iso(row: Assignment) -> str | None:
    return row.until.isoformat() if row.until else None
