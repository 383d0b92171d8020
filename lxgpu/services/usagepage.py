"""The page of `lxgpu report --html`: what stands on it, as plain values for its template, all of one `Book`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import tzinfo

from lxgpu.figures import n_gpus, short_duration
from lxgpu.services import usageplots
from lxgpu.services.usagebook import Book
from lxgpu.services.usagesections import UNKNOWN, Section, hours, sections, share, wait


@dataclass(frozen=True, slots=True)
class Tile:
    """A figure that stands first, with what it is and what it is of."""

    name: str
    text: str
    of: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    """Everything that the template shows."""

    title: str
    period: str
    tiles: tuple[Tile, ...]
    sections: tuple[Section, ...]
    hatch: str = usageplots.HATCH
    dash: str = UNKNOWN


def page_of(book: Book, *, host: str, zone: tzinfo) -> Page:
    """The page of a report.

    Args:
        book: the report.
        host: whose cards they are.
        zone: the lab's, for the times on it.
    """
    since, until = (f"{at.astimezone(zone):%Y-%m-%d %H:%M}" for at in (book.since, book.until))
    period = f"{since} to {until} ({zone}), {short_duration((book.until - book.since).total_seconds())}"
    if book.begin > book.since:
        period += f"; nothing is known of the time before {book.begin.astimezone(zone):%Y-%m-%d %H:%M}"
    return Page(
        title=f"GPU use of {host}",
        period=period,
        tiles=tuple(_tiles(book)),
        sections=sections(book),
    )


def _tiles(book: Book) -> Iterator[Tile]:
    total, whole = book.total, book.capacity_hours
    yield Tile(
        "GPU-hours held", hours(total.held_gpu_hours), f"{share(total.held_gpu_hours, whole)} of {n_gpus(book.cards)}"
    )
    for name, value in (
        ("used", total.used_gpu_hours),
        ("idle", total.idle_gpu_hours),
        ("unknown", total.unknown_gpu_hours),
    ):
        yield Tile(name, hours(value), f"{share(value, total.held_gpu_hours)} of these")
    yield Tile(
        "bookings honoured", str(total.bookings_honoured), f"of {total.bookings}; {total.bookings_missed} missed"
    )
    yield Tile("wait, half are shorter", wait(total.wait_median_s), f"{total.waits} waited; {total.waiting} do now")
    yield Tile("refused", str(total.refused), f"{total.refused_full} for want of GPUs")
