"""The idleness of the last months, which a process reads once and then keeps up. Losing it costs time only."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from lxgpu.model.rules import IdleRules
from lxgpu.policy.forecast import Stretch
from lxgpu.policy.stretches import Idleness
from lxgpu.ports import Inventory

_LATE = timedelta(minutes=1)
"""Another process may write a sample that is a little older than one of ours."""


@dataclass(slots=True)
class LongWatch:
    """`idleness` of one inventory, kept up to `read_to`."""

    idleness: Idleness | None = None
    read_to: datetime | None = None
    _inventory: Inventory | None = None

    def refresh(
        self,
        inventory: Inventory,
        rules: IdleRules,
        *,
        cards: Iterable[str],
        since: datetime,
        now: datetime,
        alive: Callable[[], None] = lambda: None,
    ) -> tuple[Stretch, ...]:
        """The stretches up to now.

        The first time all samples are read, one card after the other, since they are many; `alive` is called between.

        Args:
            inventory: where the samples are.
            rules: what idle means; when that changed all is read again.
            cards: whose samples are read the first time.
            since: how far back.
            now: up to when.
            alive: tells who watches that it goes on.
        """
        until, known, read = now - _LATE, self.idleness, self.read_to
        if known is None or read is None or known.rules != rules or inventory is not self._inventory or until < read:
            known = Idleness(rules)
            for card in sorted(cards):
                alive()
                found = inventory.samples(since=since, uuid=card)
                known.add(sample for sample in found if sample.at < until)
        else:
            known.add(sample for sample in inventory.samples(since=read) if sample.at < until)
            known.forget(since)
        self.idleness, self.read_to, self._inventory = known, until, inventory
        return known.stretches()
