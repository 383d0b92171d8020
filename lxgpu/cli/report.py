"""`lxgpu report`: who held, used and wasted cards, who waited and who was refused."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, cast

import click

from lxgpu.cli import pagefile, params
from lxgpu.cli.render import Column, Output
from lxgpu.errors import LxgpuError
from lxgpu.figures import DAY, short_duration
from lxgpu.model.cardnames import short_uuids
from lxgpu.model.quota import Policy

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime
    from pathlib import Path

    from lxgpu.cli.times import Times
    from lxgpu.model.operation import Event
    from lxgpu.ports import Inventory
    from lxgpu.services.usage import Ground, UsageView
    from lxgpu.services.usagebook import Book

_FAR = 1_000_000
"""So many refusals are looked at, and so many lines that say whose containers were."""
_WASTERS = 3
_BY = ("user", "group", "gpu", "hour", "day", "wait")
ALL = "all"
PAGE = "report/page.html.j2"


@click.command()
@click.option("--since", type=params.DURATION, default=7 * DAY, metavar="D", help="The last 24h, 30d, …  [default: 7d]")
@click.option("--by", type=click.Choice([*_BY, ALL]), default="user", show_default=True, help="A line each.")
@click.option(
    "--html", type=pagefile.PageFile(), metavar="FILE", help="Also write a page with plots of all; - is stdout."
)
@click.option("--forecast", is_flag=True, help="How good the forecast was on the last four weeks.")
@params.output
def report(out: Output, *, since: int, by: str, html: Path | None, forecast: bool) -> None:
    """What became of the cards: hours held, used and idle, bookings, waits, refusals, and who wastes them.

    HELD are GPU-hours: USED with work on the card, IDLE without, UNKNOWN while no daemon watched. BOOKED counts all
    bookings of the time; HONOURED of them had their cards and somebody came, MISSED had them and nobody came. WAITS
    counts requests that waited and began, MEDIAN how long; REFUSED what was asked for in vain. IDLE MOST names the
    containers with the most idle hours. -o wide adds FAILED (bookings that the host could not keep), LONGEST wait,
    WAITING now, the GPU-hours WAITED by all of them, and of the refusals those for WANT OF GPUS with the GPU-hours
    WANTED in them, as far as it was said for how long; BORROWED are hours on cards that others left idle. One who is in
    several groups counts in each.

    --by hour is by hours of the week and --by day by days, both in the lab's time; --by wait counts requests by how
    long they waited. --by all lists the rows of every kind. --html writes all of it as one page that needs nothing
    else, with the very figures of -o json and -o csv; with - the page goes to standard output in place of the table.

    --forecast shows Brier scores instead, 0 is best: of the forecast, of SAME (as now: nothing happens) and of USUAL
    (the overall rate at all hours). A PROVEN one is better than both, and not by luck: `forecast` in the policy file
    lets it have a say.
    """
    from lxgpu.cli.times import lab_times  # noqa: PLC0415 -- not for --help

    if html is not None:
        if forecast:
            fix = "lxgpu report --forecast, or lxgpu report --html FILE"
            raise LxgpuError("usage", "--forecast goes with no --html", why="there is no page of the scores", fix=fix)
        pagefile.check(out, html)
    times, policy = lab_times(out.screen)
    if forecast:
        from lxgpu.cli.forecast import show_forecast  # noqa: PLC0415 -- for this alone

        show_forecast(out, policy or Policy(), times.now)
        return
    from lxgpu.services.usagebook import book  # noqa: PLC0415

    start = times.now - timedelta(seconds=since)
    found = book(ground(policy or Policy(), start), since=start, now=times.now, zone=times.zone)
    rows = found.every if by == ALL else found.rows(by)
    title = f"since {times.show(start)} ({short_duration(since)})"
    if html != pagefile.STDOUT:
        out.items("report", rows, report_columns(by, rows, form=out.form), title=title)
    if html is not None:
        _page(out, html, found, times)


def _page(out: Output, path: Path, found: Book, times: Times) -> None:
    from lxgpu import __version__, wiring  # noqa: PLC0415 -- for pages only
    from lxgpu.services.usagepage import page_of  # noqa: PLC0415

    page = page_of(found, host=wiring.host_name(), zone=times.zone)
    pagefile.write(out, path, wiring.texts().render(PAGE, page=page, version=__version__))


def ground(policy: Policy, start: datetime) -> Ground:
    """What the inventory knows of the time; nothing where it has never been made."""
    from lxgpu import wiring  # noqa: PLC0415
    from lxgpu.cli import looks  # noqa: PLC0415
    from lxgpu.services.cardhours import LONGEST  # noqa: PLC0415
    from lxgpu.services.usage import Ground  # noqa: PLC0415

    rows = looks.records()
    there = wiring.inventory(read_only=True) if rows.version else None
    return Ground(
        records=rows,
        past=there.closed_since(start) if there else (),
        samples=there.samples(since=start - LONGEST) if there else (),  # one from before speaks for its beginning
        reservations=there.reservations_since(start) if there else (),
        events=_events(there, start) if there else (),
        rules=policy.rules.idle,
        groups_of=lambda person: tuple(sorted(policy.groups_of(person, wiring.unix_groups(person)))),
    )


def _events(there: Inventory, start: datetime) -> tuple[Event, ...]:
    """Refusals and borrowings of the time, and of all time what containers were called and whose they were."""
    from lxgpu.services.usage import BORROWED, NAMING, REFUSED  # noqa: PLC0415

    found = [
        *there.events(since=start, kinds=(REFUSED, *BORROWED), limit=_FAR),
        *there.events(kinds=NAMING, limit=_FAR),
    ]
    return tuple(sorted(found, key=lambda event: event.id or 0, reverse=True))


def report_columns(by: str, rows: Iterable[UsageView] = (), *, form: str = "table") -> tuple[Column, ...]:
    """One user, group or card a line; tables for people call cards as short as tells them apart."""
    cards = short_uuids(row.name for row in rows if row.by == "gpu") if form in {"table", "wide"} else {}

    def wasted(item: object) -> str | None:
        view = cast("UsageView", item)
        # A person's own container says no more than the hours before it.
        worst = [one for one in view.wasted if view.by != "user" or one.instance != view.name][:_WASTERS]
        return ", ".join(f"{one.instance} {one.idle_gpu_hours:.1f}h" for one in worst) or None

    kinds = (Column("BY", "by"),) if by == ALL or form == "csv" else ()
    head = "NAME" if by == ALL else by.upper()
    return (
        Column(head, "name", text=lambda name: cards.get(name, name) or "(no group)"),
        *kinds,
        Column("HELD", "held_gpu_hours", text=_hours),
        Column("USED", "used_gpu_hours", text=_hours),
        Column("IDLE", "idle_gpu_hours", text=_hours),
        Column("UNKNOWN", "unknown_gpu_hours", text=_hours),
        Column("BOOKED", "bookings"),
        Column("HONOURED", "bookings_honoured"),
        Column("MISSED", "bookings_missed"),
        Column("FAILED", "bookings_failed", wide=True),
        Column("WAITS", "waits"),
        Column("MEDIAN", "wait_median_s", text=short_duration),
        Column("LONGEST", "wait_longest_s", text=short_duration, wide=True),
        Column("WAITING", "waiting", wide=True),
        Column("WAITED", "waited_gpu_hours", text=_hours, wide=True),
        Column("REFUSED", "refused"),
        Column("WANT OF GPUS", "refused_full", wide=True),
        Column("WANTED", "refused_gpu_hours", text=_hours, wide=True),
        Column("BORROWED", "borrowed_gpu_hours", text=_hours, wide=True),
        Column("OF", "period_hours", text=_hours, wide=True),
        Column("IDLE MOST", wasted),
    )


def _hours(value: float) -> str:
    return f"{value:.1f}h"
