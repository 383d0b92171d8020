"""What a process remembers of its looks at the cards, so that the next one costs little. Losing it costs time only."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from lxgpu.model.snapshot import EndTold, Snapshot
from lxgpu.model.usage import Sample
from lxgpu.ports import Inventory
from lxgpu.services.longwatch import LongWatch

OVERLAP = timedelta(minutes=1)
"""Another process may write a sample that is a little older than one of ours."""


@dataclass(slots=True)
class Watch:
    """The samples of one window by card, where idleness began, and each container's init.

    `quiet` keeps by card the id of the assignment and the instant at which an idleness began that is older than the
    samples in memory. `faults` is what NVML said of cards in the last look, `sick` are those that people were told of
    (None: not looked up in the history yet). `boot_id` is the boot of which it is known that people were told.
    `thinned_at` is when old samples were merged last. `not_before`: the clock was set then, so no sample from before
    counts. `ends` is what was told of ends, with the inventory's version. Forecasts are made of `long`. `last` is
    what a turn decided on, seen at that second of the steady clock while no card changed hands; other threads read it.
    `over` keeps by assignment the warning about too much memory in force, and up to when no less was seen since it.
    """

    samples: dict[str, list[Sample]] = field(default_factory=dict)
    quiet: dict[str, tuple[str, datetime]] = field(default_factory=dict)
    inits: dict[str, int] = field(default_factory=dict)
    faults: dict[str, str] = field(default_factory=dict)
    sick: set[str] | None = None
    boot_id: str = ""
    thinned_at: datetime | None = None
    not_before: datetime | None = None
    ends: tuple[int, Mapping[str, tuple[EndTold, ...]]] | None = None
    over: dict[str, tuple[str, datetime]] = field(default_factory=dict)
    long: LongWatch = field(default_factory=LongWatch)
    last: tuple[float, Snapshot] | None = None
    _looked_at: datetime | None = None
    _since: datetime | None = None
    _inventory: Inventory | None = None

    def refresh(self, inventory: Inventory, *, since: datetime, now: datetime) -> None:
        """Read what is new, forget what is older than `since`; one query, a small one but for the first."""
        looked, reached = self._looked_at, self._since
        if inventory is not self._inventory or looked is None or reached is None or now < looked or since < reached:
            self.samples.clear()
            self.quiet.clear()
            found = inventory.samples(since=since)
        else:
            found = inventory.samples(since=max(since, looked - OVERLAP))
        for sample in found:
            _keep(self.samples.setdefault(sample.uuid, []), sample)
        for kept in self.samples.values():
            del kept[: bisect_left(kept, since, key=_at)]
        self._inventory, self._looked_at, self._since = inventory, now, since


def _at(sample: Sample) -> datetime:
    return sample.at


def _keep(kept: list[Sample], sample: Sample) -> None:
    if not kept or kept[-1].at < sample.at:
        kept.append(sample)
        return
    place = bisect_left(kept, sample.at, key=_at)
    if kept[place].at != sample.at:
        insort(kept, sample, key=_at)
