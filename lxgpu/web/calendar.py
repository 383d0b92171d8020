"""The calendar as the page draws it: cards as rows, time from left to right in so many columns; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from itertools import pairwise

from lxgpu.model.cardnames import lent_as, short_model, short_uuids
from lxgpu.model.gpu import card_of
from lxgpu.services.calendarview import Bar, Line
from lxgpu.services.reservationviews import ReservationView
from lxgpu.services.statusfile import Published
from lxgpu.web.cards import people
from lxgpu.web.owners import Mark, marks
from lxgpu.web.words import Words

COLUMNS = 336
"""The grid of page.css: half an hour of a week, four minutes of a day."""
LEAST = 3
"""A bar is never narrower, so that it can be seen and pressed."""
DAYS = 7
DAY, WEEK = "day", "week"
_HOURS = 3
_NARROW = 290
"""On a narrow screen the word for a mark further to the right would not fit."""
_ROOM = {DAY: 28, WEEK: 24}
"""So many columns the word for a mark takes on a screen that is wide."""


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark of the axis at a column. `midnight` begins a day.

    It is written where there is room for its word (`told`), on narrow screens only if it is `strong`.
    """

    column: int
    at: datetime
    midnight: bool
    strong: bool
    told: bool


@dataclass(frozen=True, slots=True)
class BarModel:
    """A bar from a column on over so many. `start` and `until` are its real times, though it is cut at the edges.

    `early` and `late`: it goes on beyond the edge.
    """

    key: str
    column: int
    width: int
    kind: str
    who: str
    mark: Mark | None
    mine: bool
    start: datetime
    until: datetime | None
    gpus: int
    model: str
    note: str
    of: str
    early: bool
    late: bool


@dataclass(frozen=True, slots=True)
class Row:
    """A card, or a part of one, or what is booked of a model without a card yet.

    `uuid` is empty then, and `lane` counts such rows.
    """

    key: str
    uuid: str
    name: str
    model: str
    lane: int
    bars: tuple[BarModel, ...]


@dataclass(frozen=True, slots=True)
class CalendarModel:
    """What is drawn. `days` are the first moments of the days that can be chosen, `chosen` the number of the one shown.

    `now` is a column, None when now is not within.
    """

    view: str
    start: datetime
    end: datetime
    ticks: tuple[Tick, ...]
    rows: tuple[Row, ...]
    days: tuple[datetime, ...]
    chosen: int
    now: int | None

    @property
    def empty(self) -> bool:
        """Nothing at all is held or booked in this time."""
        return not any(row.bars for row in self.rows)


@dataclass(frozen=True, slots=True)
class _Axis:
    start: datetime
    end: datetime

    def column(self, at: datetime) -> int:
        """From 1 to COLUMNS + 1."""
        share = (min(max(at, self.start), self.end) - self.start) / (self.end - self.start)
        return 1 + round(share * COLUMNS)


def calendar_model(found: Published, *, view: str, day: int, zone: tzinfo, me: str) -> CalendarModel:
    """The day with that number (0 is today) or the week from now on; nothing that is over."""
    now = found.written_at
    midnights = tuple(_midnight(now, zone, ahead) for ahead in range(DAYS + 1))
    hour = _whole_hour(now, zone)
    day = min(max(day, 0), DAYS - 1)
    if view == WEEK:
        axis = _Axis(hour, hour + timedelta(days=DAYS))
    else:
        axis = _Axis(hour, hour + timedelta(days=1)) if day == 0 else _Axis(midnights[day], midnights[day + 1])
    colours = people(found)
    bookings, lines = {row.id: row for row in found.reservations}, found.calendar.lines if found.calendar else ()
    shorts = short_uuids([*(gpu.uuid for gpu in found.gpus), *(line.uuid for line in lines if line.uuid)])
    cards = {gpu.uuid: gpu for gpu in found.gpus}
    rows: list[Row] = []
    for number, line in enumerate(lines):
        bars = tuple(_bars(line, number, axis, now, bookings=bookings, colours=colours, me=me))
        card = cards.get(card_of(line.uuid or ""))
        if line.uuid is None and not bars:
            continue
        model = short_model(lent_as((card.model if card else None) or line.name, line.uuid))
        rows.append(
            Row(
                key=f"r{number}",
                uuid=line.uuid or "",
                name=shorts.get(line.uuid or "", line.uuid or ""),
                model=model,
                lane=0 if line.uuid else 1 + sum(not row.uuid and row.model == model for row in rows),
                bars=bars,
            )
        )
    return CalendarModel(
        view=view,
        start=axis.start,
        end=axis.end,
        ticks=_ticks(axis, view, zone),
        rows=tuple(rows),
        days=midnights[:DAYS],
        chosen=day,
        now=axis.column(now) if axis.start <= now < axis.end else None,
    )


def _bars(
    line: Line,
    number: int,
    axis: _Axis,
    now: datetime,
    *,
    bookings: Mapping[str, ReservationView],
    colours: Mapping[str, Mark],
    me: str,
) -> Iterable[BarModel]:
    keys: Counter[str] = Counter()
    for bar in line.bars:
        over = bar.until is not None and bar.until <= now
        if over or bar.start >= axis.end or (bar.until is not None and bar.until <= axis.start):
            continue
        who, booking = bar.instance, bookings.get(bar.of)
        column = min(axis.column(bar.start), COLUMNS + 1 - LEAST)
        width = max(axis.column(bar.until or axis.end) - column, LEAST)
        yield BarModel(
            key=_key(f"b{number}" if line.uuid else "u", bar, keys),
            column=column,
            width=min(width, COLUMNS + 1 - column),
            kind=bar.kind.value,
            who=who,
            mark=(colours.get(who) or marks([who])[who]) if who else None,
            mine=bool(me) and who == me,
            start=bar.start,
            until=bar.until,
            gpus=bar.gpus or 1,
            model=lent_as("*", line.uuid) if line.uuid else line.name,
            note=(booking.note if booking else "") or "",
            of=bar.of,
            early=bar.start < axis.start,
            late=bar.until is None or bar.until > axis.end,
        )


def _key(line: str, bar: Bar, keys: Counter[str]) -> str:
    """The same for as long as it is the same bar, whatever comes and goes beside it: the focus stays on it."""
    key = f"{line}-{bar.of or int(bar.start.timestamp())}"
    keys[key] += 1
    return key if keys[key] == 1 else f"{key}-{keys[key]}"


def _midnight(now: datetime, zone: tzinfo, ahead: int) -> datetime:
    local = now.astimezone(zone).replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None, fold=0)
    return (local + timedelta(days=ahead)).replace(tzinfo=zone).astimezone(now.tzinfo)


def _whole_hour(now: datetime, zone: tzinfo) -> datetime:
    return now.astimezone(zone).replace(minute=0, second=0, microsecond=0).astimezone(now.tzinfo)


def _ticks(axis: _Axis, view: str, zone: tzinfo) -> tuple[Tick, ...]:
    """Midnights of a week, every third hour of a day, by the clock on the wall."""
    step = timedelta(days=1) if view == WEEK else timedelta(hours=_HOURS)
    local = axis.start.astimezone(zone).replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None, fold=0)
    found: list[tuple[datetime, bool, bool]] = []
    if view == WEEK and local.replace(tzinfo=zone) < axis.start:
        found.append((axis.start, True, False))  # what is left of today
    while (at := local.replace(tzinfo=zone).astimezone(axis.start.tzinfo)) < axis.end:
        if at >= axis.start:
            found.append((at, local.hour == 0, view == WEEK or local.hour % (2 * _HOURS) == 0))
        local += step
    places = [*(axis.column(at) for at, _, _ in found), COLUMNS + 1]
    return tuple(
        Tick(place, at, midnight, strong=strong and place <= _NARROW, told=after - place >= _ROOM[view])
        for (at, midnight, strong), (place, after) in zip(found, pairwise(places), strict=True)
    )


def bar_text(bar: BarModel, t: Words) -> str:
    """A bar in words: whose, what, when, what for."""
    match bar.kind:
        case "booked":
            text = t("bar_booked", who=bar.who, gpus=t.cards(bar.gpus, bar.model), time=t.between(bar.start, bar.until))
        case "held":
            text = t("bar_held", who=bar.who, until=t.when(bar.until) if bar.until else t("open_end"))
        case "over":
            text = t("bar_over", who=bar.who)
        case _:
            text = t("bar_closed", start=t.when(bar.start))
    return f"{text} \N{MIDDLE DOT} {bar.note}" if bar.note else text
