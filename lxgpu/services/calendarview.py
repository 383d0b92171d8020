"""Who has which card when, as lines of bars: past and held, promised, and booked without a card yet; pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from lxgpu.model.assignment import Assignment, AssignmentState
from lxgpu.model.gpu import card_of
from lxgpu.model.layout import names
from lxgpu.model.reservation import Reservation
from lxgpu.model.snapshot import Records

LEAST = timedelta(hours=12)
MOST = timedelta(days=7)
"""How far it looks at most, unless it is told."""
BEFORE = 0.04
"""Which part of the time shown lies before now."""


class BarKind(StrEnum):
    """Held; held past its lease, until someone waits; promised or booked; out of service."""

    HELD = "held"
    OVER = "over"
    BOOKED = "booked"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class Bar:
    """A half-open time of one line; `until` None: no end is known.

    `instance` is whose it is, empty for a card out of service; `of` the id of the reservation, if it is one's; `gpus`
    how many cards a bar stands for that has none yet, 0 on the line of a card.
    """

    start: datetime
    until: datetime | None
    instance: str
    kind: BarKind
    of: str = ""
    gpus: int = 0


@dataclass(frozen=True, slots=True)
class Line:
    """A card, or a part of a divided one, or what is booked of a model and not bound to a card yet (`uuid` None).

    `uuid` is the card's, followed by its part as `Slot.gpu` has it; `name` is the same, or that model: the one asked
    for, `*` for any.
    """

    uuid: str | None
    name: str
    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True)
class Calendar:
    """Lines over the time from `start` until `end`."""

    now: datetime
    start: datetime
    end: datetime
    lines: tuple[Line, ...]
    later: tuple[datetime, ...] = ()
    """The ends of the bookings that begin after what is shown, the last one last."""


def calendar(
    records: Records, *, now: datetime, ahead: timedelta | None = None, begin: datetime | None = None
) -> Calendar:
    """All cards, and below them what is booked of each model without a card yet.

    `ahead` is how far to look, and `begin` from when on (shortly before now). Without `ahead` until the next booking
    ends, and where nothing is booked until all is known to end; within bounds.
    """
    lines = (*_cards(records, now), *_unbound(records))
    bars = [bar for line in lines for bar in line.bars if bar.until is not None]
    booked = sorted((bar for bar in bars if bar.kind is BarKind.BOOKED), key=lambda bar: bar.start)
    far = max((bar.until - now for bar in booked[:1] or bars if bar.until), default=LEAST)
    span = ahead or min(max(far * 1.05, LEAST), MOST)
    start = begin or now - span * BEFORE
    end = start + span if begin else now + span
    later = {bar.of: bar.until for bar in booked if bar.start >= end and bar.until}
    return Calendar(now=now, start=start, end=end, lines=lines, later=tuple(sorted(later.values())))


def within(found: Calendar) -> Calendar:
    """The same without what lies outside of its time; of what has no card yet only lines with something in them."""
    lines = (
        replace(line, bars=tuple(bar for bar in line.bars if bar.start < found.end and not _over(bar, found.start)))
        for line in found.lines
    )
    return replace(found, lines=tuple(line for line in lines if line.bars or line.uuid is not None))


def _over(bar: Bar, start: datetime) -> bool:
    return bar.until is not None and bar.until <= start


def _cards(records: Records, now: datetime) -> list[Line]:
    uuids = dict.fromkeys(card.uuid for card in sorted(records.cards, key=lambda card: (card.host, card.pci)))
    uuids |= dict.fromkeys(row.slot.card for row in records.assignments)
    lent = [name for uuid in uuids for name in _lent(records, uuid)]
    return [Line(name, name, _card_bars(records, name, now)) for name in lent]


def _lent(records: Records, uuid: str) -> list[str]:
    """What a card is lent as, and what of it somebody has all the same."""
    card = records.card(uuid)
    there = dict.fromkeys(names(uuid, card.layout if card else ""))
    return sorted(there | dict.fromkeys(row.slot.gpu for row in records.assignments if row.slot.card == uuid))


def _card_bars(records: Records, name: str, now: datetime) -> tuple[Bar, ...]:
    rows = [row for row in records.assignments if row.slot.gpu == name]
    bars = [_held(row, now) for row in rows if row.live]
    bars += [bar for row in rows if row.state is AssignmentState.PLANNED and (bar := _promised(records, row, bars))]
    card = records.card(card_of(name))
    if card is not None and card.closed:
        bars.append(Bar(card.closed_at or now, None, "", BarKind.CLOSED))
    return tuple(sorted(bars, key=lambda bar: (bar.start, bar.instance)))


def _held(row: Assignment, now: datetime) -> Bar:
    start = row.since or row.created_at
    if row.until is not None and row.until <= now:
        return Bar(start, row.due_at, row.instance, BarKind.OVER, row.reservation or "")
    return Bar(start, row.due_at or row.until, row.instance, BarKind.HELD, row.reservation or "")


def _promised(records: Records, row: Assignment, held: Iterable[Bar]) -> Bar | None:
    """From its start on, or from when the holder gives way."""
    wanted = records.reservation(row.reservation)
    free = max((bar.until for bar in held if bar.until), default=row.created_at)
    start = wanted.start if wanted is not None and wanted.start is not None else free
    until = wanted.until_if_begun(start) if wanted is not None else row.until
    return Bar(start, until, row.instance, BarKind.BOOKED, row.reservation or "")


def _unbound(records: Records) -> list[Line]:
    """What has a time and no card yet, a model at a time, in as few lines as it fits."""
    lines = []
    waiting = [(row, missing) for row in records.reservations if row.pending and (missing := _missing(records, row))]
    for model in sorted({row.pool or row.model for row, _ in waiting}, key=lambda name: (name == "*", name)):
        bars = [
            Bar(row.start, row.until, row.instance, BarKind.BOOKED, row.id, missing)
            for row, missing in waiting
            if (row.pool or row.model) == model and row.start is not None and row.until is not None
        ]
        lines += [Line(None, model, tuple(lane)) for lane in _lanes(bars)]
    return lines


def _missing(records: Records, row: Reservation) -> int:
    return row.gpus - sum(one.reservation == row.id for one in records.assignments)


def _lanes(bars: Iterable[Bar]) -> list[list[Bar]]:
    """Bars in lines so that none in a line overlap: each into the first line that is free by then."""
    lanes: list[list[Bar]] = []
    for bar in sorted(bars, key=lambda bar: (bar.start, bar.instance)):
        lane = next((lane for lane in lanes if lane[-1].until is not None and lane[-1].until <= bar.start), None)
        if lane is None:
            lanes.append([bar])
        else:
            lane.append(bar)
    return lanes
