"""A month of a lab, made by chance with a seed and written through the real inventory, minute by minute.

People take cards, work, pause, leave them idle, come back, go; the daemon is away now and then. Every instant is a
whole minute, so that a recount by minutes is exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

from inventory_rows import card, instance, person

from lxgpu.inventory.store import SqliteInventory, open_inventory
from lxgpu.model.assignment import Assignment, AssignmentState
from lxgpu.model.gpu import Slot
from lxgpu.model.reservation import Kind, Reservation, ReservationState
from lxgpu.model.rules import IdleRules
from lxgpu.model.usage import Sample
from lxgpu.services.cardhours import LONGEST
from lxgpu.services.usage import Ground

BEGIN = datetime(2027, 3, 8, 0, 0, tzinfo=UTC)
"""So that three weeks later the clocks of Europe change."""
GROUPS = {"alice": ("vision",), "bob": ("vision", "speech"), "carol": ("speech",), "dave": (), "eve": ("theory",)}
CODES = ("over_limit", "no_capacity", "no_room", "class_not_allowed")


@dataclass(frozen=True, slots=True)
class Month:
    """What was written, and where."""

    inventory: SqliteInventory
    since: datetime
    now: datetime
    cards: tuple[str, ...]
    holds: tuple[Assignment, ...]
    samples: tuple[Sample, ...]

    def ground(self) -> Ground:
        """As the command reads it."""
        there = self.inventory
        return Ground(
            records=there.read(),
            past=there.closed_since(self.since),
            samples=there.samples(since=self.since - LONGEST),
            reservations=there.reservations_since(self.since),
            events=there.events(since=self.since, limit=100_000),
            rules=IdleRules(),
            groups_of=lambda name: GROUPS.get(name, ()),
        )


def seeded_month(
    folder: Path, *, seed: int, days: int = 30, cards: int = 4, every_m: int = 10, begin: datetime = BEGIN
) -> Month:
    """The month; its holding began a day before."""
    chance, now = Random(seed), begin + timedelta(days=days)  # noqa: S311 -- chance with a seed
    names = tuple(f"GPU-{number:08x}-0000-0000-0000-000000000000" for number in range(1, cards + 1))
    holds = tuple(hold for name in names for hold in _holds(chance, name, begin, now))
    samples = tuple(sample for name in names for sample in _samples(chance, name, holds, (begin, now), every_m))
    inventory = open_inventory(folder / "inventory.db")
    with inventory.write(actor="root", now=begin) as tx:
        for number, name in enumerate(GROUPS):
            tx.put(person(name, uid=10_000 + number, ssh_port=22_000 + number), instance(name))
        tx.put(*(card(name, pci=f"0000:{number:02x}:00.0") for number, name in enumerate(names)))
        tx.put(*holds, *_wishes(chance, begin, now))
    for _ in range(6 * days):
        at = begin + timedelta(minutes=chance.randrange(days * 1440))
        with inventory.write(actor="root", now=at) as tx:
            asked = {"asked_gpus": chance.choice([1, 2, 4]), "asked_s": chance.choice([None, 3600, 86_400])}
            tx.event("refused", chance.choice([*GROUPS, "nobody"]), rule=chance.choice(CODES), detail=asked)
    inventory.add_samples(samples)
    return Month(inventory, begin, now, names, holds, samples)


def _holds(chance: Random, gpu: str, begin: datetime, now: datetime) -> Iterator[Assignment]:
    """One after the other, with gaps; the last one lasts."""
    at, number = begin - timedelta(days=1), 0
    while True:
        at += timedelta(minutes=chance.choice([0, 0, 7, 60, 600, 2000]))
        until = at + timedelta(minutes=chance.choice([3, 30, 240, 1440, 5000]) + chance.randrange(60))
        if at >= now:
            return
        lasts, number = until >= now, number + 1
        yield Assignment(
            f"{gpu}-{number}",
            Slot(gpu),
            chance.choice(list(GROUPS)),
            AssignmentState.ACTIVE if lasts else AssignmentState.CLOSED,
            at,
            since=at,
            closed_at=None if lasts else until,
            outcome="" if lasts else "released",
        )
        at = until


def _samples(
    chance: Random, gpu: str, holds: tuple[Assignment, ...], span: tuple[datetime, datetime], every_m: int
) -> Iterator[Sample]:
    """A look now and then; each holder works more or less, and at night less; sometimes nobody looks for hours."""
    begin, now = span
    mine = [hold for hold in holds if hold.slot.gpu == gpu]
    at, place = begin - timedelta(days=1), 0
    while at < now:
        while place < len(mine) and mine[place].closed_at is not None and mine[place].closed_at <= at:
            place += 1
        holder = mine[place] if place < len(mine) and mine[place].since <= at else None
        busy = holder is not None and chance.random() < (0.3 if at.hour < 8 else 0.8) - 0.1 * len(holder.instance) / 5
        percent = None if chance.random() < 0.02 else chance.randrange(5, 101) if busy else 0
        yield Sample(at, gpu, percent, 2**30 if holder else 0, int(busy), holder.instance if holder else "")
        at += timedelta(minutes=chance.choice([every_m] * 300 + [1, 3, 25, 400]))


def _wishes(chance: Random, begin: datetime, now: datetime) -> Iterator[Reservation]:
    states = [ReservationState.FINISHED] * 6 + [ReservationState.MISSED, ReservationState.FAILED]
    states += [ReservationState.CANCELLED, ReservationState.SCHEDULED]
    for number in range(120):
        made = begin + timedelta(minutes=chance.randrange(int((now - begin).total_seconds()) // 60))
        name, state, kind = (
            chance.choice(list(GROUPS)),
            chance.choice(states),
            chance.choice([Kind.BOOKING, Kind.REQUEST]),
        )
        if state is ReservationState.SCHEDULED and kind is Kind.REQUEST:
            state = ReservationState.WAITING
        over = state not in {ReservationState.SCHEDULED, ReservationState.WAITING}
        start = made + timedelta(minutes=int(chance.paretovariate(0.5)) % 5000)
        yield Reservation(
            f"r-{number:04}",
            name,
            name,
            kind,
            chance.choice([1, 1, 2, 4]),
            state,
            made,
            3600,
            start=None if state is ReservationState.WAITING else start,
            until=None if state is ReservationState.WAITING else start + timedelta(hours=1),
            closed_at=start + timedelta(hours=1) if over else None,
        )
