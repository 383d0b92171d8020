"""How busy each card was in the last day, a figure for each half hour; kept up by what is new, read once a minute.

The first reading is one query a card, since a day of looks is many rows; from then on it is one small query for all.
Losing what is kept costs time only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from lxgpu.model.usage import Sample
from lxgpu.ports import Inventory
from lxgpu.services.cardviews import UseView

STEP_S = 1800
STEPS = 48
EVERY_S = 60.0
"""Worked out at most so often."""
SPEAKS_S = 60.0
"""A reading speaks for the time until the next one, and for no longer than this."""
SEEN = 0.5
"""So much of a half hour must have been seen, or its figure would speak for a time in which nobody looked."""
BEGUN_S = 30.0
"""Of the one that lasts still so much is enough: its figure is of what was seen of it, and changes still."""
LATE = timedelta(minutes=1)
"""Another process may write a sample that is a little older than one of ours."""


@dataclass(slots=True)
class _Half:
    """What is known of a half hour: seconds for which readings speak, and their percent times these seconds."""

    seconds: float = 0.0
    percent_s: float = 0.0


@dataclass(slots=True)
class UseLines:
    """The line of each card of one inventory, kept up to `read_to`."""

    read_to: datetime | None = None
    _halves: dict[str, dict[int, _Half]] = field(default_factory=dict)
    _last: dict[str, Sample] = field(default_factory=dict)
    _made: Mapping[str, UseView] = field(default_factory=dict)
    _inventory: Inventory | None = None

    def lines(
        self, inventory: Inventory, *, cards: Iterable[str], now: datetime, alive: Callable[[], None] = lambda: None
    ) -> Mapping[str, UseView]:
        """The lines up to now, those of a minute ago where they are no older; a card without any reading has none.

        Args:
            inventory: where the samples are.
            cards: whose samples are read the first time.
            now: up to when.
            alive: tells who watches that it goes on.
        """
        until, read = now - LATE, self.read_to
        same = inventory is self._inventory and read is not None and until >= read
        if same and read is not None and (until - read).total_seconds() < EVERY_S:
            return self._made
        first = _step(now) - (STEPS - 1)
        if same and read is not None:
            self._add(inventory.samples(since=read), until)
            self._forget(first)
        else:
            self._halves, self._last = {}, {}
            for card in sorted(cards):
                alive()
                self._add(inventory.samples(since=_begin(first), uuid=card), until)
        self.read_to, self._inventory = until, inventory
        self._made = {card: _line(halves, first, until) for card, halves in sorted(self._halves.items())}
        return self._made

    def _add(self, samples: Iterable[Sample], until: datetime) -> None:
        """Samples in the order of their times; those at or after `until` are read the next time."""
        for sample in samples:
            if sample.at >= until:
                continue
            before = self._last.get(sample.uuid)
            self._last[sample.uuid] = sample
            halves = self._halves.setdefault(sample.uuid, {})
            if before is not None and before.utilization_percent is not None:
                speaks_s = min((sample.at - before.at).total_seconds(), SPEAKS_S)
                half = halves.setdefault(_step(before.at), _Half())
                half.seconds += speaks_s
                half.percent_s += speaks_s * before.utilization_percent

    def _forget(self, first: int) -> None:
        for card, halves in list(self._halves.items()):
            for step in [step for step in halves if step < first]:
                del halves[step]
            if not halves and _step(self._last[card].at) < first:
                del self._halves[card], self._last[card]


def _line(halves: Mapping[int, _Half], first: int, until: datetime) -> UseView:
    percents = tuple(_percent(halves.get(step), step, until) for step in range(first, first + STEPS))
    return UseView(start=_begin(first), step_s=STEP_S, percents=percents)


def _percent(half: _Half | None, step: int, until: datetime) -> float | None:
    """The mean of a half hour as far as it was seen; None: that is too little."""
    over = (until - _begin(step)).total_seconds() >= STEP_S
    if half is None or half.seconds < (SEEN * STEP_S if over else BEGUN_S):
        return None
    return round(half.percent_s / half.seconds, 1)


def _step(at: datetime) -> int:
    return int(at.timestamp()) // STEP_S


def _begin(step: int) -> datetime:
    return datetime.fromtimestamp(step * STEP_S, UTC)
