"""`lxgpu reservations` and `lxgpu reservation`: what is booked, who waits, and changing or giving up one of them."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

import click

from lxgpu.cli import params
from lxgpu.cli.published import instead_of
from lxgpu.cli.render import Output
from lxgpu.errors import LxgpuError
from lxgpu.figures import DAY
from lxgpu.services.reservationviews import reservation_views, view_of

if TYPE_CHECKING:
    from lxgpu.cli.params import When
    from lxgpu.cli.times import Times
    from lxgpu.services.calendarview import Line
    from lxgpu.services.reservationviews import Ledger

_COLUMNS = 100
"""How wide a calendar is where there is no terminal, and COLUMNS does not say."""


@click.command()
@click.argument("name", type=params.INSTANCE, required=False)
@click.option("--calendar", "shape", flag_value="calendar", help="A line a card, time from left to right.")
@click.option("--queue", "shape", flag_value="queue", help="Those that wait: place, when it is likely, for what.")
@click.option("--ics", "shape", flag_value="ics", help="As a calendar file (RFC 5545), to subscribe to or import.")
@click.option("-a", "--all", "everything", is_flag=True, help="Those that ended in the last seven days too.")
@click.option("--for", "ahead_s", type=params.DURATION, metavar="D", help="How far the calendar looks, as 2d.")
@click.option("--days", type=click.IntRange(1, 92), metavar="N", help="The same in days.")
@click.option(
    "--from", "begin", type=params.INSTANT, metavar="T", help="Where the calendar begins, as 'mon' or 2027-05-01."
)
@params.output
def reservations(
    out: Output,
    *,
    name: str | None,
    shape: str | None,
    everything: bool,
    ahead_s: int | None,
    days: int | None,
    begin: When | None,
) -> None:
    """List bookings, requests that wait, and claims of the displaced; all of them, or those of NAME."""
    from lxgpu.cli import bookingrows, bookings, looks  # noqa: PLC0415 -- not for --help
    from lxgpu.cli.news import say_pause  # noqa: PLC0415
    from lxgpu.cli.times import lab_times  # noqa: PLC0415
    from lxgpu.services.reservationviews import waiting_views  # noqa: PLC0415

    if shape == "ics" and out.form != "table":
        raise LxgpuError("usage", "--ics is a form of its own", fix="leave -o out")
    window = _window(shape, for_s=ahead_s, days=days, begin=begin)
    times, policy = lab_times(out.screen)
    try:
        found = bookings.ledger(policy, now=times.now, over=everything)
    except LxgpuError as error:
        if shape in {"ics", "calendar"} or everything:
            raise
        published = instead_of(error, out.screen)
        views = bookings.views_for(published.reservations, name)
        views = [view for view in views if shape != "queue" or view.state == "waiting"]
        if name is not None and not views and name not in {one.name for one in published.instances}:
            fix = "lxgpu ls lists those there are"
            raise LxgpuError("not_found", f"there is no container {name}", fix=fix) from error
        out.items("reservations", views, bookingrows.columns(times), empty=bookingrows.NOTHING)
        say_pause(out.screen, times)
        return
    if name is not None and not any(row.instance == name for row in found.rows):
        looks.check_known(name, found.records)
    if shape == "ics":
        _ics(out, found, times, name)
    elif shape == "calendar" and not out.structured:
        _calendar(out, found, times, window)
    elif shape == "queue":
        views = bookings.views_for(waiting_views(found), name)
        columns = bookingrows.queue_columns(found.line, times)
        out.items("reservations", views, columns, empty="nobody waits")
        say_pause(out.screen, times)
    else:
        views = bookings.views_for(reservation_views(found), name)
        bookingrows.show_rows(out, views, found.rows, times, title=bookings.headline(views))


def _ics(out: Output, found: Ledger, times: Times, name: str | None) -> None:
    from lxgpu import wiring  # noqa: PLC0415
    from lxgpu.services.icsfeed import ics_text  # noqa: PLC0415

    rows = [row for row in found.rows if name is None or row.instance == name]
    out.screen.data(ics_text(rows, host=wiring.host_name(), now=times.now).removesuffix("\r\n") + "\r")


class _Window(NamedTuple):
    """Which part of the calendar is asked for."""

    ahead: timedelta | None
    begin: When | None


def _window(shape: str | None, *, for_s: int | None, days: int | None, begin: When | None) -> _Window:
    """The part of the calendar that is asked for; error `usage` where none is, or its length is said twice."""
    if shape != "calendar" and (for_s or days or begin):
        fix = "add --calendar, or leave them out"
        raise LxgpuError("usage", "--for, --days and --from go with --calendar", fix=fix)
    if for_s and days:
        raise LxgpuError("usage", "both --for and --days were given, and they say the same thing", fix="give one")
    seconds = days * DAY if days else for_s
    return _Window(timedelta(seconds=seconds) if seconds else None, begin)


def _calendar(out: Output, found: Ledger, times: Times, window: _Window) -> None:
    from lxgpu.cli.timeline import legend, timeline  # noqa: PLC0415
    from lxgpu.model.cardnames import lent_as, short_model, short_uuids  # noqa: PLC0415
    from lxgpu.model.gpu import card_of  # noqa: PLC0415
    from lxgpu.services.calendarview import calendar  # noqa: PLC0415

    begin = window.begin.at(now=times.now, zone=times.zone) if window.begin else None
    made = calendar(found.records, now=times.now, ahead=window.ahead, begin=begin)
    if not made.lines:
        out.screen.note("no card is known yet, and nothing is booked")
        return
    names = short_uuids([line.uuid for line in made.lines if line.uuid])
    models = {card.uuid: card.model for card in found.records.cards}

    def name(line: Line) -> str:
        if line.uuid is None:
            return f"{'any model' if line.name == '*' else short_model(line.name)}, any card"
        return f"{names[line.uuid]} {short_model(lent_as(models.get(card_of(line.uuid), ''), line.uuid))}".rstrip()

    columns = shutil.get_terminal_size(fallback=(_COLUMNS, 24)).columns
    for text in timeline(made, columns=columns, zone=times.zone, name=name):
        out.screen.data(text)
    for text in legend(made, show=times.show):
        out.screen.data(text)
    out.screen.data(f"times in {times.zone}")


ID = click.argument("identifier", metavar="ID")


@click.group()
def reservation() -> None:
    """One reservation, by its id or the beginning of it."""


@reservation.command()
@ID
@params.output
def show(out: Output, identifier: str) -> None:
    """Everything about one: its cards, who gave way, what it waits for, what happened to it."""
    from lxgpu import hosts  # noqa: PLC0415 -- not for --help
    from lxgpu.cli import bookingrows, bookings  # noqa: PLC0415
    from lxgpu.cli.times import lab_times  # noqa: PLC0415
    from lxgpu.services.reserve import find  # noqa: PLC0415

    times, policy = lab_times(out.screen)
    row = find(hosts.site(out.screen.note, identifier, read_only=True), identifier)
    found = bookings.ledger_of(policy, row, now=times.now)
    view = view_of(found, row)
    columns = bookingrows.columns(times)
    out.sheet("reservations", view, columns, lambda: bookings.sheet(found, view, times))


@reservation.command()
@ID
@click.option("--gpus", "count", type=click.IntRange(min=1), help="How many cards in all; fewer only, once it runs.")
@click.option("--at", type=params.INSTANT, metavar="T", help="Another start.")
@click.option("--for", "for_s", type=params.DURATION, metavar="D", help="Another length, from its start.")
@click.option("--until", type=params.INSTANT, metavar="T", help="Another end.")
@click.option("--note", help="What it is for.")
@params.change
@params.output
def edit(
    out: Output,
    identifier: str,
    *,
    count: int | None,
    at: When | None,
    for_s: int | None,
    until: When | None,
    note: str | None,
    dry_run: bool,
    yes: bool,
) -> None:
    """Change what is still to come of a reservation, as one thing: refused whole when it does not fit."""
    del yes  # nobody loses anything by it
    from lxgpu import hosts  # noqa: PLC0415
    from lxgpu.cli import bookings  # noqa: PLC0415
    from lxgpu.cli.spans import edited_time  # noqa: PLC0415
    from lxgpu.cli.times import Times  # noqa: PLC0415
    from lxgpu.services import reserve  # noqa: PLC0415
    from lxgpu.services.refusal import recording, refusal  # noqa: PLC0415

    if count is None and at is None and for_s is None and until is None and note is None:
        raise LxgpuError("usage", "say what is to change", fix="--gpus, --at, --for, --until or --note")
    with out.screen.steps(total=1) as steps:
        site = hosts.site(steps.of(identifier), identifier)
        now, policy = site.clock.now(), site.policy()
        row = reserve.find(site, identifier)
        begin, end = edited_time(at=at, until=until, for_s=for_s, start=row.start, now=now, zone=policy.zone)
        if dry_run:
            plan = reserve.plan_edit(site, row.id, gpus=count, at=begin, until=end, note=note)
            error = refusal(plan, f"change {row.id}", policy)
            bookings.rehearsed(out, plan, Times(now=now, zone=policy.zone, screen=out.screen), error=error)
            return
        with recording(site, row.instance):
            changed = reserve.edit(site, row.id, gpus=count, at=begin, until=end, note=note)
        steps.done(row.id, "changed")
    bookings.show_made(out, [changed], policy, Times(now=site.clock.now(), zone=policy.zone, screen=out.screen))


@reservation.command()
@ID
@click.option("--series", is_flag=True, help="All that is still to come of a weekly series.")
@params.change
@params.output
def cancel(out: Output, identifier: str, *, series: bool, dry_run: bool, yes: bool) -> None:
    """Give a reservation up. Before it has its cards nothing is left of it.

    The cards of one that runs stay where they are until somebody waits for them; `lxgpu release` gives them back.
    """
    del yes  # nothing is taken from anybody by it
    from lxgpu import hosts  # noqa: PLC0415
    from lxgpu.cli import bookingrows, bookings  # noqa: PLC0415
    from lxgpu.cli.times import Times  # noqa: PLC0415
    from lxgpu.services import reserve  # noqa: PLC0415

    with out.screen.steps(total=1) as steps:
        site = hosts.site(steps.of(identifier), identifier)
        times = Times(now=site.clock.now(), zone=site.policy().zone, screen=out.screen)
        if dry_run:
            plan = reserve.plan_cancel(site, identifier, series=series)
            bookings.rehearsed(out, plan, times, error=None)
            return
        ended = reserve.cancel(site, identifier, series=series)
        steps.done(ended[0].id, "given up" if len(ended) == 1 else f"{len(ended)} given up")
    found = replace(bookings.ledger(site.policy(), now=times.now), rows=ended)
    views = reservation_views(found)
    bookingrows.show_rows(out, views, ended, times)
