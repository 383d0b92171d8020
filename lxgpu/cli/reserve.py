"""`lxgpu reserve`: cards for a time, at once or later, whether they are free or not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lxgpu.cli import mig, params
from lxgpu.cli.host import check_home
from lxgpu.cli.render import Output
from lxgpu.errors import LxgpuError
from lxgpu.figures import n_gpus

if TYPE_CHECKING:
    from lxgpu.cli.params import GpuCount, When
    from lxgpu.model.request import ReserveRequest
    from lxgpu.services.site import Site


@click.command()
@click.argument("name", type=params.INSTANCE)
@click.option(
    "--gpus",
    "count",
    type=params.GPUS,
    help="How many cards in all, in this reservation (others of NAME then add up), or 0.25: one part of a card.",
)
@mig.option
@click.option("--for", "for_s", type=params.DURATION, metavar="D", help="How long, as 4h or 2d.")
@click.option("--until", type=params.INSTANT, metavar="T", help="Until when, as 18:00 or 'fri 12:00'.")
@click.option(
    "--at", type=params.INSTANT, metavar="T", help="From when on, as 'tomorrow 09:00'; else as soon as can be."
)
@click.option("--weekly", is_flag=True, help="The same time every week, as far ahead as may be booked.")
@click.option("--model", default="*", metavar="GLOB", help="Only cards whose model matches, as 'A100*'.")
@click.option("--class", "class_name", default="", help="Priority class; the person's own unless said.")
@click.option("--host", default="", metavar="H|any", help="On which host; the container's own unless said.")
@click.option("--note", default="", help="What it is for; everybody can read it.")
@click.option("--wait", is_flag=True, help="End when the cards are there.")
@click.option(
    "--no-warning", "--now", "no_warning", is_flag=True, help="Take without a warning; for admins, with --reason."
)
@click.option("--reason", default="", help="Why without a warning; those who lose their cards read it.")
@params.change
@params.output
def reserve(
    out: Output,
    name: str,
    *,
    count: GpuCount | None,
    sliced: GpuCount | None,
    for_s: int | None,
    until: When | None,
    at: When | None,
    weekly: bool,
    model: str,
    class_name: str,
    host: str,
    note: str,
    wait: bool,
    no_warning: bool,
    reason: str,
    dry_run: bool,
    yes: bool,
) -> None:
    """Reserve cards for NAME: for a time, from now or from --at on.

    What is free is given; for the rest those who must yield by the policy are warned first, and have their grace.
    Where nobody must yield in time, it waits in the queue and takes nothing. A time ahead is booked or refused.
    """
    from lxgpu import hosts  # noqa: PLC0415 -- not for --help
    from lxgpu.cli import bookings  # noqa: PLC0415
    from lxgpu.cli.spans import asked_time  # noqa: PLC0415
    from lxgpu.cli.times import Times  # noqa: PLC0415
    from lxgpu.model.request import ReserveRequest  # noqa: PLC0415
    from lxgpu.services import reserve as service  # noqa: PLC0415
    from lxgpu.services.refusal import Asked, recording  # noqa: PLC0415

    count = mig.counted(count, sliced)
    if count is None:
        raise click.UsageError("Missing option '--gpus', or '--mig'.")
    _check(count, at=at, weekly=weekly, no_warning=no_warning, reason=reason)
    with out.screen.steps(total=1) as steps:
        site = hosts.site(steps.of(name), name)
        policy, now = site.policy(), site.clock.now()
        times = Times(now=now, zone=policy.zone, screen=out.screen)
        asked = asked_time(at=at, until=until, for_s=for_s, now=now, zone=policy.zone)
        if asked.began is not None:
            out.screen.note(f"it began at {times.show(asked.began)}, so it counts from now on")
        request = ReserveRequest(
            instance=name,
            owner="",
            gpus=count.number,
            duration_s=asked.duration_s,
            at=asked.at,
            weekly=weekly,
            model=count.of(model),
            class_name=class_name,
            host=check_home(host, site.host, name),
            note=note,
            no_warning=reason if no_warning else "",
        )
        if dry_run:
            booked = service.plan_reserve(site, request)
            fix = service.other_time(request, booked.plan, now=now, zone=policy.zone)
            bookings.rehearsed_reserve(out, booked, times, policy, what=f"reserve {name}", fix=fix)
            return
        if no_warning:
            _without_warning(site, request, yes=yes)
        with recording(site, name, Asked(request.gpus, request.duration_s)):
            booked = service.reserve(site, request)
        rows = booked.reservations
        if wait:
            rows = (service.wait(site, rows[0].id), *rows[1:])
        steps.done(name, rows[0].state.value)
    bookings.show_made(out, rows, policy, Times(now=site.clock.now(), zone=policy.zone, screen=out.screen))


def _check(count: GpuCount, *, at: When | None, weekly: bool, no_warning: bool, reason: str) -> None:
    """What the words alone tell to be wrong."""
    if count.more or count.number < 1:
        why = "a reservation is for cards; a container without one needs none"
        raise LxgpuError("usage", "--gpus says how many cards in all, and at least one", why=why, fix="--gpus 2")
    if weekly and at is None:
        why = "each week begins at the same time"
        raise LxgpuError("usage", "--weekly needs to know when", why=why, fix="add --at 'mon 09:00'")
    if no_warning and not reason.strip():
        why = "those who lose their cards read it"
        raise LxgpuError("usage", "--no-warning needs --reason", why=why)
    if reason and not no_warning:
        why = "it is read by those who lose their cards without a warning"
        raise LxgpuError(
            "usage", "--reason goes with --no-warning", why=why, fix="--note says what a reservation is for"
        )


def _without_warning(site: Site, request: ReserveRequest, *, yes: bool) -> None:
    """An admin's, and only said twice."""
    person = site.actor.partition(" ")[0]
    if not site.policy().is_admin(person, site.unix_groups(person)):
        raise LxgpuError(
            "not_allowed",
            f"{person} may not take cards without a warning",
            why="the policy file does not name them among its admins",
            fix="leave --no-warning out, or ask an admin",
        )
    params.confirm(
        f"what {n_gpus(request.gpus)} for {request.instance} are taken from ends at once, without a warning",
        yes=yes,
    )
