"""From what was watched to what a forecast learns from: stretches of idleness, of holding, of being free; pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from lxgpu.model.assignment import Assignment
from lxgpu.model.rules import IdleRules
from lxgpu.model.usage import Sample
from lxgpu.policy.forecast import Stretch
from lxgpu.policy.hits import PREEMPTED
from lxgpu.policy.idleness import known, worked

GAP = timedelta(minutes=15)
"""Between two looks further apart anything may have happened: a stretch ends there, and nobody saw how."""
_TAKEN = frozenset({"expired", "failed", "idle", "no_show", PREEMPTED})
"""How an assignment ended that its holder did not give back."""


@dataclass(slots=True)
class _Quiet:
    """One holder's card without work: from when on, and until when it was seen so."""

    who: str
    since: datetime
    last: datetime


class Idleness:
    """The stretches in which holders' cards counted as idle and could have gone to work again, kept up with samples.

    A stretch begins when a card was without work for a whole window, since before that nobody would take it for idle:
    the pauses of a program are no coming back.
    """

    def __init__(self, rules: IdleRules) -> None:
        self.rules = rules
        self._window = timedelta(seconds=rules.window_s)
        self._quiet: dict[str, _Quiet] = {}
        self._over: list[Stretch] = []

    def add(self, samples: Iterable[Sample]) -> None:
        """Go on with samples, the oldest of a card first; one that says nothing counts as not there."""
        for sample in samples:
            quiet = self._quiet.get(sample.uuid)
            if quiet is not None and (quiet.who != sample.instance or sample.at - quiet.last > GAP):
                self._end(sample.uuid, quiet.last, ended=False)
                quiet = None
            if not sample.instance or not known(sample, self.rules):
                continue
            if worked(sample, self.rules):
                if quiet is not None:
                    self._end(sample.uuid, sample.at, ended=True)
            elif quiet is None:
                self._quiet[sample.uuid] = _Quiet(sample.instance, sample.at, sample.at)
            else:
                quiet.last = max(quiet.last, sample.at)

    def forget(self, before: datetime) -> None:
        """Drop what was over before an instant."""
        self._over = [one for one in self._over if one.until >= before]

    def stretches(self) -> tuple[Stretch, ...]:
        """All so far, those too that go on."""
        going = (self._made(one, one.last, ended=False) for one in self._quiet.values())
        return (*self._over, *(one for one in going if one.since < one.until))

    def _end(self, uuid: str, until: datetime, *, ended: bool) -> None:
        made = self._made(self._quiet.pop(uuid), until, ended=ended)
        if made.since < made.until:
            self._over.append(made)

    def _made(self, quiet: _Quiet, until: datetime, *, ended: bool) -> Stretch:
        return Stretch(quiet.who, quiet.since + self._window, until, ended)


def holdings(rows: Iterable[Assignment], now: datetime) -> tuple[Stretch, ...]:
    """The times for which containers held cards; only what they gave back of themselves ended so.

    What was taken, by whatever rule, says no more than that it was held so long.
    """
    return tuple(
        Stretch(
            row.instance, row.since, row.closed_at or now, ended=row.closed_at is not None and row.outcome not in _TAKEN
        )
        for row in rows
        if row.since is not None and row.since < (row.closed_at or now) and (row.live or row.closed_at)
    )


def card_times(
    rows: Iterable[Assignment], cards: Iterable[str], *, since: datetime, now: datetime
) -> tuple[tuple[Stretch, ...], tuple[Stretch, ...]]:
    """The times in which cards were free, ended by somebody who took them, and held, ended by coming free.

    It does not matter which card it is, so nobody is named.
    """
    spans: defaultdict[str, list[tuple[datetime, datetime]]] = defaultdict(list)
    for row in rows:
        if row.since is not None and (row.live or row.closed_at):
            spans[row.slot.gpu].append((max(row.since, since), row.closed_at or now))
    free: list[Stretch] = []
    held: list[Stretch] = []
    for card in sorted(cards):
        mine = [(since, since), *_joined(span for span in spans[card] if span[0] < span[1])]
        held += [Stretch("", begin, end, ended=end < now) for begin, end in mine[1:]]
        free += [Stretch("", end, begin, ended=True) for (_, end), (begin, _) in pairwise(mine) if end < begin]
        if mine[-1][1] < now:
            free.append(Stretch("", mine[-1][1], now, ended=False))
    return tuple(free), tuple(held)


def _joined(spans: Iterable[tuple[datetime, datetime]]) -> Iterator[tuple[datetime, datetime]]:
    """Spans without overlaps, in order: shares of one card make one."""
    whole: tuple[datetime, datetime] | None = None
    for begin, end in sorted(spans):
        if whole is None or begin > whole[1]:
            if whole is not None:
                yield whole
            whole = (begin, end)
        else:
            whole = (whole[0], max(whole[1], end))
    if whole is not None:
        yield whole
