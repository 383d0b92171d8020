"""Where requests of many sizes go on one host: lxgpu's placement, first fit and random fit over the same streams.

The host has 16 cards of 24 GiB on two NUMA nodes: eight whole ones, four in quarters, four in halves. Requests come and
go (Poisson, exponential): a quarter or more, half or more, one, two or four whole cards. Who finds no
place goes away. The rivals take any slots that will do: the first by PCI address, or by a draw.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from heapq import heappop, heappush
from statistics import median

from benchmarks.table import Figure
from lxgpu.model.assignment import Assignment, AssignmentState
from lxgpu.model.gpu import Gpu, Slot, share_of
from lxgpu.model.layout import divide
from lxgpu.model.operation import Identity
from lxgpu.model.quota import Policy
from lxgpu.model.request import GpuRequest
from lxgpu.model.snapshot import Observation, Records, Snapshot
from lxgpu.policy.placement import place

NOW = datetime(2027, 3, 1, tzinfo=UTC)
GIB = 2**30
MEMORY = 24
LAYOUTS = ("", "", "", "", "4", "4", "2", "2") * 2
SEEDS, REQUESTS = 40, 300
_HOLD = 30.0
"""So many requests come while one stays, on average."""


@dataclass(frozen=True, slots=True)
class Ask:
    """What is asked for: so many, of a pattern; each is this share of a card at least."""

    pattern: str
    count: int
    share: float

    def fits(self, gpu: Gpu) -> bool:
        """Whether something that is lent would do: a part that is no smaller, or a whole card."""
        return gpu.divided == (self.share < 1) and share_of(gpu.uuid) >= self.share


ASKS = (
    Ask("* 0.25", 1, 0.25),
    Ask("* 0.5", 1, 0.5),
    Ask("*", 1, 1.0),
    Ask("*", 2, 1.0),
    Ask("*", 4, 1.0),
)
WEIGHTS = (40, 25, 20, 10, 5)
Fit = Callable[[Snapshot, Ask, random.Random], Sequence[str]]


@dataclass(slots=True)
class Found:
    """Means over all requests of a stream, and CPU seconds of one decision."""

    stranded_gib: float = 0.0
    open_cards: float = 0.0
    refused: float = 0.0
    apart: float = 0.0
    cpu_s: float = 0.0


def ours(snapshot: Snapshot, ask: Ask, _chance: random.Random) -> Sequence[str]:
    """As lxgpu decides."""
    found = place(snapshot, GpuRequest("me", "me", more=ask.count, model=ask.pattern))
    return [item.gpu for item in found if isinstance(item, Slot)]


def first_fit(snapshot: Snapshot, ask: Ask, _chance: random.Random) -> Sequence[str]:
    """The first ones that will do."""
    free = _free(snapshot, ask)
    return free[: ask.count] if len(free) >= ask.count else []


def random_fit(snapshot: Snapshot, ask: Ask, chance: random.Random) -> Sequence[str]:
    """Any that will do."""
    free = _free(snapshot, ask)
    return chance.sample(free, ask.count) if len(free) >= ask.count else []


def placement(*, seeds: int = SEEDS, requests: int = REQUESTS) -> list[Figure]:
    """Ours beside both rivals: memory stranded, cards opened, requests refused or apart, and what a decision takes."""
    runs = {fit: [play(fit, seed, requests) for seed in range(seeds)] for fit in (ours, first_fit, random_fit)}
    told = f"medians of {seeds} streams of {requests} requests"

    def ratio(name: str, what: Callable[[Found], float], unit: str) -> Figure:
        mine, first, any_ = (median(map(what, found)) for found in runs.values())
        over = median(
            what(one) / max(what(other), 1e-9) for one, other in zip(runs[ours], runs[random_fit], strict=True)
        )
        beside = f"{mine:.3g}{unit}; first fit: {first:.3g}; random fit: {any_:.3g}; {told}"
        return Figure(f"placement: {name} over random fit's", round(over, 3), "x", 1, beside=beside)

    mine, other = (median(one.cpu_s for one in runs[fit]) for fit in (ours, random_fit))
    speed = f"{mine / other:.1f} times as long as random fit; the first look at a new state of the host"
    return [
        ratio("memory stranded", lambda one: one.stranded_gib, " GiB"),
        ratio("cards with somebody on them", lambda one: one.open_cards, ""),
        ratio("requests refused", lambda one: one.refused, " %"),
        ratio("requests over both nodes", lambda one: one.apart, " %"),
        Figure("placement: a decision", round(1000 * mine, 3), "ms", 1, beside=speed),
    ]


def play(fit: Fit, seed: int, requests: int) -> Found:
    """One stream; a request refused by one way of placing stays refused there only."""
    drawn, chance = random.Random(seed), random.Random(seed)  # noqa: S311 -- repeatable on purpose
    whole = [
        Gpu(f"GPU-{at:04}", f"0000:{at:02x}:00.0", "NVIDIA RTX 3090", "h", memory_bytes=MEMORY * GIB, numa_node=at // 8)
        for at in range(len(LAYOUTS))
    ]
    gpus = divide(whole, {gpu.uuid: layout for gpu, layout in zip(whole, LAYOUTS, strict=True)})
    by_name = {gpu.uuid: gpu for gpu in gpus}
    ends: list[tuple[float, int]] = []
    held: dict[int, tuple[Ask, Sequence[str]]] = {}
    sums, now = Found(), 0.0
    for number in range(requests):
        now += drawn.expovariate(1.0)
        ask, lasts = drawn.choices(ASKS, WEIGHTS)[0], drawn.expovariate(1 / _HOLD)
        while ends and ends[0][0] <= now:
            del held[heappop(ends)[1]]
        snapshot = _snapshot(gpus, [name for _, names in held.values() for name in names])
        began = time.process_time()
        names = fit(snapshot, ask, chance)
        sums.cpu_s += time.process_time() - began
        if names:
            held[number] = (ask, names)
            heappush(ends, (now + lasts, number))
            sums.apart += 100 * (len({by_name[name].numa_node for name in names}) > 1)
        else:
            sums.refused += 100
        taken = {name for _, some in held.values() for name in some}
        opened = {by_name[name].card for name in taken}
        sums.open_cards += len(opened)
        sums.stranded_gib += sum(_gib(gpu) for gpu in gpus if gpu.card in opened and gpu.uuid not in taken)
        sums.stranded_gib += sum(
            _gib(by_name[name]) - one.share * MEMORY for one, some in held.values() for name in some
        )
    return replace(sums, **{name: getattr(sums, name) / requests for name in Found.__slots__})


def _gib(gpu: Gpu) -> float:
    return (gpu.memory_bytes or 0) / GIB


def _free(snapshot: Snapshot, ask: Ask) -> list[str]:
    held = {row.slot.gpu for row in snapshot.records.assignments}
    return [gpu.uuid for gpu in snapshot.seen.gpus if gpu.uuid not in held and ask.fits(gpu)]


def _snapshot(gpus: tuple[Gpu, ...], held: Sequence[str]) -> Snapshot:
    rows = tuple(Assignment(name, Slot(name), f"c{name}", AssignmentState.ACTIVE, NOW) for name in held)
    records = Records(version=1, identity=Identity("i", 1), assignments=rows)
    return Snapshot(now=NOW, records=records, seen=Observation("h", "boot", NOW, gpus=gpus), policy=Policy())
