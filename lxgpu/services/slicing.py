"""MIG slices made on the cards as the inventory wants them, and taken away: after a change of layout, and after a boot.

The layout is written first, what was made of it last: whatever falls in between is made again by the next tick, from
what the card then has. Until then nothing of the card is lent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from lxgpu.errors import LxgpuError
from lxgpu.model.assignment import Card
from lxgpu.model.gpu import MISSING
from lxgpu.model.layout import names
from lxgpu.model.slices import SliceKind, in_slices, made_text, placed, profiles, unmade
from lxgpu.model.snapshot import Snapshot
from lxgpu.policy.divisions import cards_there
from lxgpu.policy.drift import stale_slices
from lxgpu.services import observe
from lxgpu.services.configure import renew_cards
from lxgpu.services.site import Site

LOCK_WAIT_S = 60.0
"""A card that enters MIG mode is reset, which takes some seconds; another process may be at it."""


def misfit(site: Site, uuid: str, layout: str) -> LxgpuError | None:
    """Why a card cannot have a layout at all, with what it offers; None: it can. Error `unavailable`: NVML."""
    if not in_slices(layout):
        return None
    offered = site.slicer.offered(uuid)
    wanted = profiles(layout)
    unknown = sorted(set(wanted) - {kind.profile for kind in offered})
    if not offered:
        why = ["it has no MIG, or its driver does not offer it"]
    elif unknown:
        why = [f"it does not offer {', '.join(unknown)}", _offer(offered)]
    elif placed(wanted, offered) is None:
        why = ["they find no room on it together", _offer(offered)]
    else:
        return None
    text = f"{uuid} cannot be divided into {' + '.join(wanted)}"
    return LxgpuError("bad_file", text, why=why, fix="change gpus: in the policy file; then lxgpu gpu mode " + uuid)


def settle_slices(site: Site, snapshot: Snapshot, *, only: str = "") -> int:
    """Make what is to be made on the cards, or on the one named; gives how many cards it was.

    One that fails keeps no other from being made; then the first error is raised: those of `ports.Slicer`.
    """
    errors, did = list[LxgpuError](), 0
    for card in _due(snapshot):
        if only in {"", card.uuid}:
            try:
                did += _settle(site, card, snapshot.seen.boot_id)
            except LxgpuError as error:
                errors.append(error)
    _renew(site, observe.of(site, snapshot.seen, site.inventory.read()) if did else snapshot)
    if errors:
        raise errors[0]
    return did


def any_sliced(snapshot: Snapshot) -> bool:
    """Whether any card has, had or is to have slices: nearly always none, and then nothing else needs a look."""
    return any(card.made or in_slices(card.layout) for card in snapshot.records.cards)


def _due(snapshot: Snapshot) -> Iterator[Card]:
    """Cards whose slices are to be made or taken away, and those of which NVML shows one no more."""
    readings = snapshot.seen.readings
    gone = {row.uuid for row in readings.items if row.fault == MISSING} if readings else set[str]()
    for card in cards_there(snapshot):
        if unmade(card, snapshot.seen.boot_id) or not gone.isdisjoint(names(card.uuid, card.layout)):
            yield card


def _settle(site: Site, card: Card, boot_id: str) -> bool:
    with site.locks.hold(f"card-{card.uuid}", wait_s=LOCK_WAIT_S) as held:
        if not held:
            raise LxgpuError("conflict", f"another lxgpu is at work on {card.uuid}", fix="repeat in a moment")
        before = site.inventory.read().card(card.uuid)
        if before is None or before.layout != card.layout:
            return False  # whoever was at work on it has changed it
        if in_slices(card.layout):
            wrong = misfit(site, card.uuid, card.layout)
            if wrong is not None:
                raise wrong
            wanted = profiles(card.layout)
            starts = placed(wanted, site.slicer.offered(card.uuid)) or ()
            text = made_text(boot_id, site.slicer.make(card.uuid, tuple(zip(wanted, starts, strict=True))))
        else:
            site.slicer.unmake(card.uuid)
            text = ""
        with site.write() as tx:
            now = tx.records.card(card.uuid)
            if now is None or now.layout != card.layout:
                return False  # it was changed meanwhile, and is due again
            tx.put(replace(now, made=text))
            tx.event("sliced", card.uuid, rule="policy", detail={"gpu": card.uuid, "slices": card.layout})
    site.say(f"{card.uuid} has its MIG slices" if text else f"{card.uuid} is out of MIG mode")
    return True


def _renew(site: Site, snapshot: Snapshot) -> None:
    """Devices and rules of containers brought in line with the slices there are.

    Whoever is being worked on is left to that, and one that cannot be written is said: the next tick looks again.
    """
    for name in stale_slices(snapshot.records, snapshot.seen):
        with site.locks.hold(name, wait_s=0) as free:
            busy = any(row.live and row.instance == name for row in site.inventory.read().operations)
            if not free or busy:
                continue
            try:
                renew_cards(site, name, gpus=snapshot.seen.gpus)
            except LxgpuError as error:
                site.say(f"the slices of {name} are not as they should be inside: {error.brief}")


def _offer(offered: Sequence[SliceKind]) -> str:
    return f"it offers {', '.join(kind.profile for kind in offered)}"
