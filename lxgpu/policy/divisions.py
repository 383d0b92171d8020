"""Which cards are not divided as the policy wants it, and who is in the way of that; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from lxgpu.instants import show_instant
from lxgpu.model.assignment import Assignment, Card
from lxgpu.model.cardnames import short_model
from lxgpu.model.layout import in_parts, layout_of, whole
from lxgpu.model.plan import Reason
from lxgpu.model.quota import Policy
from lxgpu.model.slices import in_slices, profiles
from lxgpu.model.snapshot import Observation, Records, Snapshot
from lxgpu.policy.calendar import Skyline, capacity, out_of_service, promises

HELD = "held"


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
        return in_words(self.wanted)


def any_due(records: Records, seen: Observation, policy: Policy) -> bool:
    """Whether any card is not as the policy wants it: nearly always none, and then nothing else needs a look."""
    layouts = {card.uuid: card.layout for card in records.cards}
    return any(layouts.get(gpu.card, "") != layout_of(policy.rules.card(gpu.card)) for gpu in seen.gpus)


def divisions(snapshot: Snapshot) -> Iterator[Division]:
    """Every card of the host that is there; pure."""
    for card in cards_there(snapshot):
        wanted = layout_of(snapshot.policy.rules.card(card.uuid))
        found = Division(card, card.layout, wanted)
        yield replace(found, obstacles=tuple(_obstacles(snapshot, card, wanted))) if found.due else found


def cards_there(snapshot: Snapshot) -> Iterator[Card]:
    """The cards that the host shows, as they are remembered, each where it sits now; new ones too."""
    for gpu in whole(snapshot.seen.gpus):
        known = snapshot.records.card(gpu.uuid) or Card(
            uuid=gpu.uuid,
            host=snapshot.seen.host,
            pci=gpu.pci,
            model=gpu.model,
            memory_bytes=gpu.memory_bytes,
            seen_at=snapshot.now,
        )
        yield replace(known, host=snapshot.seen.host, pci=gpu.pci, model=gpu.model)


def in_words(layout: str) -> str:
    """A layout for people: `4 time shares`, `MIG slices 3g.20gb + 2g.10gb`, `a whole card`."""
    if in_slices(layout):
        return f"MIG slices {' + '.join(profiles(layout))}"
    return f"{layout} time shares" if layout else "a whole card"


def who_has(snapshot: Snapshot, row: Assignment) -> str:
    """Somebody in the way, in words: `alice holds GPU-…/2/4 until 18:00`."""
    end = show_instant(row.until, now=snapshot.now, zone=snapshot.policy.zone) if row.until else ""
    return f"{row.instance} {'holds' if row.live else 'is promised'} {row.slot}{f' until {end}' if end else ''}"


def _obstacles(snapshot: Snapshot, card: Card, wanted: str) -> Iterator[Reason]:
    """Who has any of it, and the bookings that need it as it is."""
    for row in snapshot.records.assignments:
        if row.slot.card == card.uuid:
            yield Reason(HELD, who_has(snapshot, row))
    stuck = [row for row in snapshot.records.slots if row.slot.card == card.uuid and row.quarantine]
    for record in stuck:
        yield Reason("quarantined", f"{record.slot} is in quarantine: {record.quarantine}")
    unfit = out_of_service(snapshot)
    going = Counter(gpu.model for gpu in snapshot.seen.gpus if gpu.card == card.uuid and gpu.uuid not in unfit)
    for pool, goes in sorted(going.items()):
        room = capacity(snapshot, pool) - goes
        if Skyline(room, promises(snapshot, snapshot.seen.host, pool)).free(snapshot.now, None) < 0:
            yield Reason("booked", f"bookings of {short_model(pool)} need it; lxgpu reservations lists them")
    if wanted and in_parts(card.model):
        yield Reason("conflict", f"the name of its model, {card.model!r}, reads as a part of a card")
