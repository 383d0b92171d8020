"""When cards were at work, by the samples kept of them; where nobody looked they count as at work."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime

from lxgpu.model.rules import IdleRules
from lxgpu.model.usage import Sample
from lxgpu.policy.idleness import known, worked
from lxgpu.services.cardhours import LAST, LONGEST

Span = tuple[datetime, datetime]


class Watched:
    """Samples of all cards by card; `unseen_s` are the card-seconds without any in what was asked last."""

    def __init__(self, samples: Iterable[Sample], rules: IdleRules) -> None:
        self._rules, self.unseen_s = rules, 0.0
        self._by_card: dict[str, list[Sample]] = defaultdict(list)
        for sample in samples:  # oldest first
            self._by_card[sample.uuid].append(sample)

    def busy(self, instance: str, cards: Iterable[tuple[str, Span]]) -> list[Span]:
        """When any of the cards worked for their holder, or may have, each in its own time; in order, no overlap."""
        self.unseen_s = 0.0
        found = sorted(span for card, (begin, end) in cards for span in self._card_busy(instance, card, begin, end))
        joined: list[Span] = []
        for start, stop in found:
            if joined and start <= joined[-1][1]:
                joined[-1] = (joined[-1][0], max(joined[-1][1], stop))
            else:
                joined.append((start, stop))
        return joined

    def _card_busy(self, instance: str, card: str, begin: datetime, end: datetime) -> Iterator[Span]:
        """All of the time but what a sample calls idle."""
        at = begin
        for sample, start, stop in self._weighed(card, begin, end):
            mine = sample.instance == instance and known(sample, self._rules)
            if not mine:
                continue
            if start > at:
                self.unseen_s += (start - at).total_seconds()
                yield at, start
            if worked(sample, self._rules):
                yield start, stop
            at = stop
        if at < end:
            self.unseen_s += (end - at).total_seconds()
            yield at, end

    def _weighed(self, card: str, begin: datetime, end: datetime) -> Iterator[tuple[Sample, datetime, datetime]]:
        """The samples of a card with the part of a time that each speaks for."""
        mine = self._by_card.get(card, [])
        place = max(0, bisect_left(mine, begin, key=_at) - 1)
        while place < len(mine) and mine[place].at < end:
            sample = mine[place]
            until = sample.at + LAST if place + 1 == len(mine) else min(mine[place + 1].at, sample.at + LONGEST)
            start, stop = max(sample.at, begin), min(until, end)
            if start < stop:
                yield sample, start, stop
            place += 1


def _at(sample: Sample) -> datetime:
    return sample.at
