"""The sections of a report's page: drawings and tables of the same rows, as plain values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date

from lxgpu.figures import n_gpus, short_duration
from lxgpu.model.cardnames import short_uuids
from lxgpu.services import usageplots
from lxgpu.services.usage import UsageView
from lxgpu.services.usagebook import WEEK, Book, at_work
from lxgpu.services.usagebook import held as cards_held
from lxgpu.services.usageplots import Bar, Column

NOBODY = "(no group)"
UNKNOWN = "–"  # noqa: RUF001 -- a dash, for people
_MOST = 25
"""So many bars are drawn; the table has all."""
_FEW_DAYS = 45
_MARKS = 8


@dataclass(frozen=True, slots=True)
class Table:
    """Columns by name (the first holds names, the others figures), the rows, and the last row where there is one."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    total: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Section:
    """Drawings and a table that belong together. `legend` has the classes of the colours used, with their words."""

    title: str
    text: str
    drawings: tuple[tuple[str, str], ...] = ()
    table: Table | None = None
    legend: tuple[tuple[str, str], ...] = ()


def sections(book: Book) -> tuple[Section, ...]:
    """All of them, in their order."""
    return tuple(section for make in _SECTIONS for section in make(book))


def _hours_section(
    title: str, text: str, rows: Sequence[UsageView], total: UsageView, name: Callable[[UsageView], str]
) -> Section:
    table = Table(
        columns=(title.removeprefix("By ").capitalize(), "Held", "Used", "Idle", "Unknown", "Used of known"),
        rows=tuple((name(row), *_cells(row)) for row in rows),
        total=("all", *_cells(total)) if rows else (),
    )
    drawn = [
        Bar(name(row), _parts(row), f"{hours(row.held_gpu_hours)} h") for row in rows[:_MOST] if row.held_gpu_hours
    ]
    alt = f"{title}: GPU-hours held, as used, idle and unknown; the figures are in the table"
    return Section(title, text, (("", usageplots.bars(drawn, alt=alt)),) if drawn else (), table, _LEGEND)


def _people(book: Book) -> Iterator[Section]:
    text = (
        "GPU-hours, whoever held most first. Used had work on the card, idle had none, unknown was watched by nobody."
    )
    yield _hours_section("By person", text, book.users, book.total, lambda row: row.name)


def _groups(book: Book) -> Iterator[Section]:
    text = "Who is in several groups counts in each of them, so that the rows may be more than all together."
    yield _hours_section("By group", text, book.groups, book.total, _group)


def _cards(book: Book) -> Iterator[Section]:
    short = short_uuids(row.name for row in book.gpus)
    lasted = book.total.period_hours or 0.0
    table = Table(
        columns=("GPU", "Held", "Used", "Idle", "Unknown", "Used of known", "Held of its time"),
        rows=tuple((short[row.name], *_cells(row), share(row.held_gpu_hours, lasted)) for row in book.gpus),
        total=("all", *_cells(book.total), share(book.total.held_gpu_hours, book.capacity_hours)) if book.gpus else (),
    )
    drawn = [Bar(short[row.name], _parts(row), share(row.held_gpu_hours, lasted)) for row in book.gpus[:_MOST]]
    text = "The full width is the whole time; what is not filled was free. A card that nobody ever held has no row."
    alt = "By card: the share of the time for which each was held, as used, idle and unknown"
    drawings = (("", usageplots.bars(drawn, alt=alt, top=lasted)),) if drawn else ()
    yield Section("By GPU", text, drawings, table, _LEGEND)


def _days(book: Book) -> Iterator[Section]:
    """Cards held on average, by day; of a long time by week, so that there is room."""
    long = len(book.days) > _FEW_DAYS
    spans = list(_weeks(book.days)) if long else [[row] for row in book.days]
    every = max(1, -(-len(spans) // _MARKS))
    found = []
    for number, rows in enumerate(spans):
        lasted = sum(row.period_hours or 0 for row in rows) or 1.0
        parts = [
            (word, sum(size for row in rows for one, size in _parts(row) if one == word) / lasted) for word in "uik"
        ]
        label = f"{date.fromisoformat(rows[0].name):%-d %b}" if number % every == 0 else ""
        held = sum(size for _, size in parts)
        title = f"{rows[0].name}: {held:.1f} held, {parts[0][1]:.1f} at work"
        found.append(Column(label, title, tuple(parts)))
    text = f"Cards on average, {'a week' if long else 'a day'} a column, of the {n_gpus(book.cards)} there are."
    alt = "Cards held over time, as used, idle and unknown"
    svg = usageplots.columns(found, alt=alt, top=float(book.cards), unit="GPUs")
    yield Section("Over time", text, (("", svg),) if book.cards else (), None, _LEGEND)


def _weeks(days: Sequence[UsageView]) -> Iterator[list[UsageView]]:
    week: list[UsageView] = []
    for row in days:
        if week and date.fromisoformat(row.name).weekday() == 0:
            yield week
            week = []
        week.append(row)
    if week:
        yield week


def _hours_of_week(book: Book) -> Iterator[Section]:
    text = (
        "Cards on average in each hour of the week, in the lab's time. Where much is held and little at work, cards lie"
        " idle; where all are held and all at work, more of them would be used."
    )
    drawings = []
    for title, value in (("At work", at_work), ("Held", cards_held)):
        rows = []
        for day in WEEK:
            mine = [row for row in book.hours if row.name.startswith(day)]
            rows.append((day, [(_said(row, value(row), book.cards), value(row)) for row in mine]))
        heads = [f"{hour:02}" if hour % 3 == 0 else "" for hour in range(24)]
        alt = f"{title} by hour of the week"
        drawings.append((title, usageplots.heat(rows, alt=alt, top=float(book.cards), heads=heads)))
    legend = (("e", "none"), ("h", f"all {n_gpus(book.cards)}"), ("k", "no such hour in this time"))
    yield Section("By hour of the week", text, tuple(drawings) if book.cards else (), None, legend)


def _said(row: UsageView, value: float | None, cards: int) -> str:
    return f"{row.name}: {UNKNOWN if value is None else f'{value:.1f}'} of {cards}"


def _waits(book: Book) -> Iterator[Section]:
    total = book.total
    text = (
        "From asking to having the cards, of requests that began; what waits still is counted apart. GPU-hours waited"
        " are those of both, times the cards that they waited for."
    )
    names = {row.name: f"≤ {row.name}" if row.name != "longer" else row.name for row in book.waits}
    drawn = [Bar(names[row.name], (("o", float(row.waits or 0)),), str(row.waits)) for row in book.waits]
    table = Table(
        columns=("Group", "Waited", "Half are shorter", "Longest", "Waiting now", "GPU-hours waited"),
        rows=tuple((_group(row), *_waited(row)) for row in book.groups),
        total=("all", *_waited(total)),
    )
    drawings = (("", usageplots.bars(drawn, alt="Requests by how long they waited")),) if total.waits else ()
    yield Section("Waits", text, drawings, table)


def _bookings(book: Book) -> Iterator[Section]:
    text = (
        "Honoured had their cards and their person, missed had the cards and nobody came, failed the host could not"
        " keep; the rest was given up, or is still to come."
    )
    rows = [row for row in book.users if row.bookings]
    found = [*rows, book.total]
    cells = {
        row.name: (row.bookings, row.bookings_honoured, row.bookings_missed, row.bookings_failed, _rest(row))
        for row in found
    }
    table = Table(
        columns=("Person", "Booked", "Honoured", "Missed", "Failed", "Given up or to come"),
        rows=tuple((row.name, *map(str, cells[row.name])) for row in rows),
        total=("all", *map(str, cells[book.total.name])),
    )
    yield Section("Bookings", text, (), table)


def _rest(row: UsageView) -> int:
    ended = (row.bookings_honoured or 0) + (row.bookings_missed or 0) + (row.bookings_failed or 0)
    return (row.bookings or 0) - ended


def _refused(book: Book) -> Iterator[Section]:
    text = (
        "What was asked for in vain: by the policy (a limit, a class, a rule), or for want of GPUs, with the GPU-hours"
        " asked for as far as it was said for how long. The latter, and the time waited, are the case for buying."
    )
    rows = sorted((row for row in book.groups if row.refused or row.waited_gpu_hours), key=_want)
    drawn = [
        Bar(_group(row), (("o", float(row.refused_full or 0)), ("k", float(_by_policy(row)))), str(row.refused))
        for row in rows
    ]
    table = Table(
        columns=("Group", "Refused", "By the policy", "For want of GPUs", "GPU-hours in these", "GPU-hours waited"),
        rows=tuple((_group(row), *_refusals(row)) for row in rows),
        total=("all", *_refusals(book.total)),
    )
    drawings = (("", usageplots.bars(drawn[:_MOST], alt="Refusals by group")),) if book.total.refused else ()
    yield Section("Refused", text, drawings, table, (("o", "for want of GPUs"), ("k", "by the policy")))


def _waste(book: Book) -> Iterator[Section]:
    text = "Containers that held cards without work, whoever wasted most first."
    idle = book.total.idle_gpu_hours
    rows = book.total.wasted[:_MOST]
    drawn = [Bar(one.instance, (("i", one.idle_gpu_hours),), f"{hours(one.idle_gpu_hours)} h") for one in rows]
    table = Table(
        columns=("Container", "Idle GPU-hours", "Of all idle"),
        rows=tuple((one.instance, hours(one.idle_gpu_hours), share(one.idle_gpu_hours, idle)) for one in rows),
    )
    drawings = (("", usageplots.bars(drawn, alt="Idle GPU-hours by container")),) if drawn else ()
    yield Section("Waste", text, drawings, table if rows else None)


def _cells(row: UsageView) -> tuple[str, ...]:
    four = (row.held_gpu_hours, row.used_gpu_hours, row.idle_gpu_hours, row.unknown_gpu_hours)
    seen = (row.used_gpu_hours or 0) + (row.idle_gpu_hours or 0)
    return (*(hours(one) for one in four), share(row.used_gpu_hours, seen))


def _waited(row: UsageView) -> tuple[str, ...]:
    spans = (wait(row.wait_median_s), wait(row.wait_longest_s))
    return (str(row.waits), *spans, str(row.waiting), hours(row.waited_gpu_hours))


def _refusals(row: UsageView) -> tuple[str, ...]:
    counts = (str(row.refused), str(_by_policy(row)), str(row.refused_full))
    return (*counts, hours(row.refused_gpu_hours), hours(row.waited_gpu_hours))


def _by_policy(row: UsageView) -> int:
    return (row.refused or 0) - (row.refused_full or 0)


def _want(row: UsageView) -> tuple[float, float, str]:
    return (-(row.refused_full or 0), -(row.waited_gpu_hours or 0), row.name)


def _parts(row: UsageView) -> tuple[tuple[str, float], ...]:
    return (("u", row.used_gpu_hours or 0.0), ("i", row.idle_gpu_hours or 0.0), ("k", row.unknown_gpu_hours or 0.0))


def _group(row: UsageView) -> str:
    return row.name or NOBODY


def hours(value: float | None) -> str:
    """Hours as the page writes them."""
    return UNKNOWN if value is None else f"{value:,.2f}"


def wait(seconds: int | None) -> str:
    """A wait as the page writes it."""
    return UNKNOWN if seconds is None else short_duration(seconds)


def share(value: float | None, whole: float | None) -> str:
    """A share in percent."""
    return UNKNOWN if value is None or not whole else f"{100 * value / whole:.0f} %"


_LEGEND = (("u", "used"), ("i", "idle"), ("k", "unknown"))
_SECTIONS = (_people, _groups, _cards, _days, _hours_of_week, _waits, _bookings, _refused, _waste)
