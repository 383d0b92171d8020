"""Reservations as tables: their columns, a weekly series as one row, and when what ended early did."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from lxgpu.cli.render import Column, Output
from lxgpu.model.cardnames import short_model
from lxgpu.model.reservation import Reservation, ReservationState
from lxgpu.services.reservationviews import ReservationView

if TYPE_CHECKING:
    from lxgpu.cli.times import Times
    from lxgpu.services.reservationviews import DisplacedView, InLine

NOTHING = "no reservations; lxgpu reserve NAME --gpus N --for 4h makes one"
KINDS = {"return": "claim"}
"""What a kind is called for people, where that is not its own name."""


def show_rows(
    out: Output, views: Sequence[ReservationView], rows: Sequence[Reservation], times: Times, *, title: str = ""
) -> None:
    """Reservations as a list: in the narrow table a series is one row, and what ended early says when."""
    series = by_series(views, rows, times) if out.form == "table" else Series(views, {})
    closed = closed_words(rows, times) if out.form in {"table", "wide"} else {}
    shown = columns(times, series=series.words, closed=closed)
    out.items("reservations", series.views, shown, title=title, empty=NOTHING)


@dataclass(frozen=True, slots=True)
class Series:
    """Reservations for a table that shows a weekly series as one row: the first, with words of the others by its id."""

    views: Sequence[ReservationView]
    words: Mapping[str, str]


def by_series(views: Iterable[ReservationView], rows: Iterable[Reservation], times: Times) -> Series:
    """What is still to come of a series becomes one row; one that was changed to another number stays alone."""
    coming = {row.id: row for row in rows if row.series and row.state is ReservationState.SCHEDULED}
    parts: dict[tuple[str, int], list[ReservationView]] = {}
    found = []
    for view in views:
        row = coming.get(view.id)
        part = parts.setdefault((row.series, row.gpus), []) if row else []
        if not part:
            found.append(view)
        part.append(view)
    words = {
        part[0].id: f"weekly, {len(part)} times until {times.show(part[-1].start)}"
        for part in parts.values()
        if len(part) > 1 and part[-1].start
    }
    return Series(found, words)


def closed_words(rows: Iterable[Reservation], times: Times) -> Mapping[str, str]:
    """Of those that ended before they began: when that was, by id; the times of the others say it themselves."""
    return {
        row.id: f"{row.state.value} {times.show(row.closed_at)}"
        for row in rows
        if row.closed_at is not None and (row.start is None or row.closed_at <= row.start)
    }


def columns(
    times: Times, *, series: Mapping[str, str] | None = None, closed: Mapping[str, str] | None = None
) -> tuple[Column, ...]:
    """Reservations, one a line; `series` and `closed` are words for people, by id, for the note and the state."""

    def note(item: object) -> str | None:
        view = cast("ReservationView", item)
        return "; ".join(filter(None, [(series or {}).get(view.id), view.note])) or None

    def state(item: object) -> str:
        view = cast("ReservationView", item)
        return (closed or {}).get(view.id, view.state)

    return (
        Column("ID", "id"),
        Column("CONTAINER", "instance"),
        Column("KIND", "kind", text=lambda kind: KINDS.get(kind, str(kind))),
        Column("GPUS", "gpus"),
        Column("MODEL", "model", text=model_words),
        Column("STATE", state),
        Column("START", "start", text=times.show),
        Column("END", "end", text=times.show),
        Column("LINE", "position"),
        Column("LIKELY", "estimate", text=times.show),
        Column("NOTE", note),
        Column("HOST", "host", wide=True),
        Column("CLASS", "class", wide=True),
        Column("SLOTS", "slots", wide=True),
        Column("FROM", "displaced", text=_displaced, wide=True),
    )


def queue_columns(line: Mapping[str, InLine], times: Times) -> tuple[Column, ...]:
    """Those that wait, with what they wait for."""

    def why(item: object) -> str | None:
        place = line.get(cast("ReservationView", item).id)
        return (place.why or None) if place else None

    return (
        Column("ID", "id"),
        Column("LINE", "position"),
        Column("CONTAINER", "instance"),
        Column("KIND", "kind", text=lambda kind: KINDS.get(kind, str(kind))),
        Column("GPUS", "gpus"),
        Column("MODEL", "model", text=model_words),
        Column("LIKELY", "estimate", text=times.show),
        Column("WHY", why),
        Column("NOTE", "note", wide=True),
        Column("CLASS", "class", wide=True),
    )


def model_words(model: str) -> str:
    """A model, or that any will do."""
    return "any" if model == "*" else short_model(model)


def _displaced(rows: Iterable[DisplacedView]) -> str:
    return ", ".join(f"{row.instance}{f' ({row.reason})' if row.reason else ''}" for row in rows) or "-"
