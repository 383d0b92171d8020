"""How likely something happens within a time that did at such hours before: a plain model, learnt from the past; pure.

What may happen is one kind of event: an idle holder works again, a holder gives a card back, a free card is taken. The
past is stretches of time in which it could have happened, each with whether it did at the end. An event and an hour
that are `age` old count 2^(-age / half-life). With O events in E hours seen, b an hour of the week in the lab's zone,

    overall:    r    = O / E
    of an hour: r[b] = (O[b] + 4·r) / (E[b] + 4)
    of a holder: f   = (O of the holder + 4) / (events expected of it by r[b] + 4)

and it happens within a time with the chance 1 - exp(-f · Σ r[b] · hours of b in that time). Where less than a day was
seen (weighed) there is no forecast: None, which is not 0.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from math import exp, log

WEEK_H = 168
"""Hours of the week, from Monday 00:00 on the lab's clock."""
EVEN_H = 4.0
"""Each hour of the week counts as if so many hours more had been seen, with the overall rate."""
EVEN_EVENTS = 4.0
"""Each holder counts as if so many events more had been seen, just as many as were to be expected."""
LEAST_H = 24.0
"""With fewer hours seen, weighed by their age, nothing is told."""
FAR_S = 14 * 86400
"""Nobody is told of what is further away."""
_HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Stretch:
    """A time in which something could happen to `who`, half-open; `ended`: it happened at `until`, else nobody saw."""

    who: str
    since: datetime
    until: datetime
    ended: bool


@dataclass(frozen=True, slots=True)
class Piece:
    """The part of a stretch within one hour of the week (0 to 167): so many `hours` of it, and whether it ended so."""

    who: str
    until: datetime
    hour: int
    hours: float
    ended: bool


def pieces(stretch: Stretch, zone: tzinfo) -> Iterator[Piece]:
    """A stretch cut at the full hours of the zone's clock, and where that is changed; what is empty gives nothing."""
    at = stretch.since
    while at < stretch.until:
        local = at.astimezone(zone)
        into = timedelta(minutes=local.minute, seconds=local.second, microseconds=local.microsecond)
        until = min(stretch.until, at + _HOUR - into)
        hour = local.weekday() * 24 + local.hour
        yield Piece(stretch.who, until, hour, (until - at) / _HOUR, stretch.ended and until == stretch.until)
        at = until


@dataclass(frozen=True, slots=True)
class Rates:
    """What was learnt, in events an hour: `overall`, by hour of the `week`, and how each holder differs (`factors`)."""

    zone: tzinfo
    overall: float
    week: tuple[float, ...]
    factors: Mapping[str, float]

    def chance(self, who: str, at: datetime, within_s: float) -> float:
        """The chance that it happens to `who` (one that was never seen is like the lab) within a time from `at` on."""
        ahead = pieces(Stretch(who, at, at + timedelta(seconds=within_s), ended=False), self.zone)
        return 1 - exp(-self.factors.get(who, 1.0) * sum(self.week[one.hour] * one.hours for one in ahead))

    def usual(self, within_s: float) -> float:
        """The same by the overall rate alone, whatever the hour and whoever it is."""
        return 1 - exp(-self.overall * within_s / _HOUR.total_seconds())

    def likely_at(self, who: str, at: datetime) -> datetime | None:
        """When it has happened as likely as not; None: not within two weeks."""
        factor, left = self.factors.get(who, 1.0), log(2)
        for one in pieces(Stretch(who, at, at + timedelta(seconds=FAR_S), ended=False), self.zone):
            rate = factor * self.week[one.hour]
            if rate * one.hours >= left:
                return one.until - _HOUR * (one.hours - left / rate)
            left -= rate * one.hours
        return None


class Learner:
    """The sums behind the rates. Pieces may come in any order; what is after `now` must not have come yet."""

    def __init__(self, zone: tzinfo, *, half_life_s: float, origin: datetime) -> None:
        """`origin`: the instant whose events weigh 1 inside, near the newest; which it is changes nothing else."""
        self._zone, self._half_life_s, self._origin = zone, half_life_s, origin
        self._hours = [0.0] * WEEK_H
        self._events = [0.0] * WEEK_H
        self._hours_of: defaultdict[str, list[float]] = defaultdict(lambda: [0.0] * WEEK_H)
        self._events_of: defaultdict[str, float] = defaultdict(float)

    def add(self, piece: Piece) -> None:
        """Learn from one piece of the past."""
        weight = self._weight(piece.until)
        self._hours[piece.hour] += weight * piece.hours
        self._hours_of[piece.who][piece.hour] += weight * piece.hours
        if piece.ended:
            self._events[piece.hour] += weight
            self._events_of[piece.who] += weight

    def rates(self, now: datetime) -> Rates | None:
        """What the past says at an instant; None: too little was seen."""
        unit = self._weight(now)
        hours = sum(self._hours)
        if hours <= 0 or hours < LEAST_H * unit:
            return None
        overall = sum(self._events) / hours
        even, events = EVEN_H * unit, EVEN_EVENTS * unit
        week = tuple(
            (came + even * overall) / (seen + even) for came, seen in zip(self._events, self._hours, strict=True)
        )
        factors = {}
        for who, seen in self._hours_of.items():
            expected = sum(rate * some for rate, some in zip(week, seen, strict=True) if some)
            factors[who] = (self._events_of[who] + events) / (expected + events)
        return Rates(self._zone, overall, week, factors)

    def _weight(self, at: datetime) -> float:
        return float(2.0 ** ((at - self._origin).total_seconds() / self._half_life_s))


def learn(stretches: Iterable[Stretch], zone: tzinfo, *, half_life_s: float, now: datetime) -> Rates | None:
    """What stretches teach, as far as they are past; their order does not matter. None: too little was seen."""
    learner = Learner(zone, half_life_s=half_life_s, origin=now)
    for stretch in sorted(past(stretches, now), key=lambda one: (one.since, one.until, one.who, one.ended)):
        for piece in pieces(stretch, zone):
            learner.add(piece)
    return learner.rates(now)


def past(stretches: Iterable[Stretch], now: datetime) -> Iterator[Stretch]:
    """What was known of stretches at an instant: those begun, and of one that went on that it did."""
    for one in stretches:
        if one.until <= now:
            yield one
        elif one.since < now:
            yield Stretch(one.who, one.since, now, ended=False)


def free_cards(taken: Rates, given: Rates, *, free: int, held: int, at: datetime, hours: int) -> Sequence[float]:
    """How many cards are free after one hour, two, …: the number to be expected, each card for itself.

    Args:
        taken: how free cards are taken.
        given: how held ones come free.
        free: cards that are free at `at`.
        held: cards that are held then.
        at: from when on.
        hours: how far.
    """
    expected, found = float(free), []
    for hour in range(hours):
        begin = at + hour * _HOUR
        come = (free + held - expected) * given.chance("", begin, _HOUR.total_seconds())
        expected += come - expected * taken.chance("", begin, _HOUR.total_seconds())
        found.append(expected)
    return found
