"""What a report costs as its time grows: from the inventory's file to the page, in CPU seconds of one core."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from math import log
from pathlib import Path
from time import process_time
from zoneinfo import ZoneInfo

from benchmarks.simgrowth import NOISE, power
from benchmarks.table import Figure
from lxgpu.config.shipped import shipped
from lxgpu.drivers.texts import JinjaTexts
from lxgpu.inventory.store import SqliteInventory, open_inventory
from lxgpu.model.assignment import Assignment, AssignmentState
from lxgpu.model.gpu import Slot
from lxgpu.model.rules import IdleRules
from lxgpu.model.usage import Sample
from lxgpu.services.cardhours import LONGEST
from lxgpu.services.usage import Ground
from lxgpu.services.usagebook import book
from lxgpu.services.usagepage import page_of

NOW = datetime(2027, 3, 1, 8, tzinfo=UTC)
ZONE = ZoneInfo("Asia/Shanghai")
CARDS = 8
DAYS = (46, 91, 182, 365)
GOAL_S = 5.0
PEOPLE = 40


def year() -> list[Figure]:
    """The page of a year at eight cards, and the power of n log n by which it grows from six weeks on.

    A sample in ten minutes, as they are kept after a week, of a card that works half of the time by chance.
    """
    with tempfile.TemporaryDirectory() as folder:
        inventory = open_inventory(Path(folder) / "inventory.db")
        samples = _fill(inventory)
        spent = {days: min(_spent(inventory, days) for _ in range(3)) for days in DAYS}
    counts = [samples * days / DAYS[-1] for days in DAYS]
    grown = power([(count * log(count), spent[days]) for count, days in zip(counts, DAYS, strict=True)])
    beside = f"{samples:,} samples, {PEOPLE} people; of a month and a half {spent[DAYS[0]]:.2f} s"
    return [
        Figure(f"report of a year, {CARDS} cards", round(spent[DAYS[-1]], 2), "s", GOAL_S, beside=beside),
        Figure("growth of report: power of n log n", round(grown, 3), "", NOISE, beside="six weeks to a year"),
    ]


def _spent(inventory: SqliteInventory, days: int) -> float:
    start, begun = NOW - timedelta(days=days), process_time()
    ground = Ground(
        records=inventory.read(),
        past=inventory.closed_since(start),
        samples=inventory.samples(since=start - LONGEST),
        reservations=inventory.reservations_since(start),
        events=inventory.events(since=start),
        rules=IdleRules(),
        groups_of=lambda name: (f"group{int(name[1:]) % 5}",),
    )
    page = page_of(book(ground, since=start, now=NOW, zone=ZONE), host="gpu1", zone=ZONE)
    JinjaTexts([shipped("templates")]).render("report/page.html.j2", page=page, version="")
    return process_time() - begun


def _fill(inventory: SqliteInventory) -> int:
    """A year of holding, and of looks at it; how many looks."""
    chance, begin = random.Random(1), NOW - timedelta(days=DAYS[-1])  # noqa: S311 -- the same each time
    holds = [hold for card in range(CARDS) for hold in _holds(chance, f"GPU-{card}", begin)]
    with inventory.write(actor="bench", now=begin) as tx:
        tx.put(*holds)
    samples = [sample for hold in holds for sample in _samples(chance, hold)]
    inventory.add_samples(samples)
    return len(samples)


def _holds(chance: random.Random, gpu: str, begin: datetime) -> Iterator[Assignment]:
    at = begin
    while at < NOW:
        until = at + timedelta(minutes=chance.choice([60, 600, 3000]))
        name = f"p{chance.randrange(PEOPLE)}"
        closed = None if until >= NOW else until
        state = AssignmentState.CLOSED if closed else AssignmentState.ACTIVE
        yield Assignment(f"{gpu}-{at:%Y%m%d%H%M}", Slot(gpu), name, state, at, since=at, closed_at=closed)
        at = until


def _samples(chance: random.Random, hold: Assignment) -> Iterator[Sample]:
    at, end = hold.since or NOW, hold.closed_at or NOW
    while at < end:
        busy = chance.random() < 0.5  # noqa: PLR2004 -- half of the time
        yield Sample(at, hold.slot.gpu, 80 if busy else 0, 2**30, 1, hold.instance)
        at += timedelta(minutes=10)
