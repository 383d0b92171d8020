"""Alerts for the admins: told when they have lasted, again once a day at most, and when they are over; pure.

What comes and goes is told of once and not each time: an alert is over when it has been gone for `CALM_S`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

MINUTE = 60.0
CALM_S = 10 * MINUTE
"""So long an alert must be gone until it is over."""


class AlertKind(StrEnum):
    """What admins must look at."""

    IDLE_HOARD = "idle_hoard"
    FENCE_FAILED = "fence_failed"
    QUARANTINE = "quarantine"
    LOOP_LATE = "loop_late"
    POOL_FILLING = "pool_filling"
    POOL_FULL = "pool_full"
    POLICY_BROKEN = "policy_broken"


LASTS_S = {
    AlertKind.IDLE_HOARD: 30 * MINUTE,
    AlertKind.FENCE_FAILED: 10 * MINUTE,
    AlertKind.QUARANTINE: 10 * MINUTE,
    AlertKind.LOOP_LATE: 0.0,
    AlertKind.POOL_FILLING: 10 * MINUTE,
    AlertKind.POOL_FULL: 10 * MINUTE,
    AlertKind.POLICY_BROKEN: 2 * MINUTE,
}
"""So long each must last until it is told. That a card goes into quarantine is a notice at once: the alert is that it
stays there."""
Key = tuple[AlertKind, str]


@dataclass(frozen=True, slots=True)
class Alert:
    """One thing to look at: `subject` is a container, a card, the pool or the host; `since` None: since it was seen."""

    kind: AlertKind
    subject: str
    why: str = ""
    gpus: tuple[str, ...] = ()
    since: datetime | None = None

    @property
    def key(self) -> Key:
        """What makes it the same one as before."""
        return (self.kind, self.subject)


@dataclass(frozen=True, slots=True)
class Sight:
    """The alerts that are to be seen now. Of those that are `unknown` nobody can tell; subject `""`: all of a kind."""

    alerts: tuple[Alert, ...] = ()
    unknown: frozenset[Key] = frozenset()

    def unsure(self, alert: Alert) -> bool:
        """Whether nobody can tell of one that is not to be seen."""
        return bool(self.unknown & {alert.key, (alert.kind, "")})


@dataclass(frozen=True, slots=True)
class Standing:
    """An alert, since when it is seen, when the admins were told last (None: not yet), and since when it is gone."""

    alert: Alert
    seen_at: datetime
    told_at: datetime | None = None
    gone_at: datetime | None = None

    @property
    def since(self) -> datetime:
        """Since when it is so."""
        return self.alert.since or self.seen_at


class Word(StrEnum):
    """What the admins hear of an alert, and what stands in the history."""

    OPENED = "alert_opened"
    REPEATED = "alert_repeated"
    OVER = "alert_over"


@dataclass(frozen=True, slots=True)
class Telling:
    """One message."""

    word: Word
    alert: Alert
    since: datetime


def follow(
    before: Iterable[Standing], sight: Sight, *, now: datetime, again_s: float
) -> tuple[tuple[Standing, ...], tuple[Telling, ...]]:
    """What stands after a look, and what is to be told of it; a reminder comes `again_s` after the last word."""
    known = {one.alert.key: _by(one, now) for one in before}
    seen = {one.key: one for one in sight.alerts}
    left, said = [], []
    for alert in seen.values():
        old = known.get(alert.key, Standing(alert, now))
        one = replace(old, alert=alert, gone_at=None)
        word = _word(one, now, again_s)
        left.append(replace(one, told_at=now) if word else one)
        said += [Telling(word, alert, one.since)] if word else []
    for key, one in known.items():
        if key in seen:
            continue
        if sight.unsure(one.alert):
            left.append(one)
        elif one.told_at is not None:
            gone_at = one.gone_at or now
            over = now - gone_at >= timedelta(seconds=CALM_S)
            left += [] if over else [replace(one, gone_at=gone_at)]
            said += [Telling(Word.OVER, one.alert, one.since)] if over else []
    return tuple(left), tuple(said)


def _by(one: Standing, now: datetime) -> Standing:
    """What stands, with no time in it that is still to come: the clock may have been set back since."""
    told, gone = one.told_at and min(one.told_at, now), one.gone_at and min(one.gone_at, now)
    return replace(one, seen_at=min(one.seen_at, now), told_at=told, gone_at=gone)


def _word(one: Standing, now: datetime, again_s: float) -> Word | None:
    """What is told of one that is to be seen now, if anything."""
    if one.told_at is None:
        return Word.OPENED if now - one.seen_at >= timedelta(seconds=LASTS_S[one.alert.kind]) else None
    return Word.REPEATED if now - one.told_at >= timedelta(seconds=again_s) else None
