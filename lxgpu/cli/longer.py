"""`lxgpu extend` and `lxgpu keep`: cards for longer, and idle cards left alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lxgpu.cli import params
from lxgpu.cli.render import Output

if TYPE_CHECKING:
    from lxgpu.cli.params import When


@click.command()
@click.argument("name", type=params.INSTANCE)
@click.option("--for", "for_s", type=params.DURATION, metavar="D", help="How much longer, as 4h.")
@click.option("--until", type=params.INSTANT, metavar="T", help="Until when, as 18:00 or 'fri 12:00'.")
@params.change
@params.output
def extend(out: Output, name: str, *, for_s: int | None, until: When | None, dry_run: bool, yes: bool) -> None:
    """Let NAME hold its cards for longer: leases, and the booking that runs.

    It ends before the next booking of those cards, and where the policy ends. What is over counts from now. Cards with
    different ends all get as much more as the first one needs.
    """
    del yes  # nobody loses anything by it
    from lxgpu import hosts  # noqa: PLC0415 -- not for --help
    from lxgpu.cli import bookings  # noqa: PLC0415
    from lxgpu.cli.spans import check_once, longer_s  # noqa: PLC0415
    from lxgpu.cli.times import Times  # noqa: PLC0415
    from lxgpu.cli.wishes import show_created  # noqa: PLC0415
    from lxgpu.services import extending  # noqa: PLC0415
    from lxgpu.services.refusal import recording  # noqa: PLC0415

    check_once(for_s=for_s, until=until)
    with out.screen.steps(total=1) as steps:
        site = hosts.site(steps.of(name), name)
        now, zone = site.clock.now(), site.policy().zone
        times = Times(now=now, zone=zone, screen=out.screen)
        ends = extending.ends(site, name) if until is not None else None
        seconds = longer_s(for_s=for_s, until=until, ends=ends, now=now, zone=zone)
        if dry_run:
            found = extending.plan_extend(site, name, seconds=seconds)
            bookings.rehearsed(out, found.plan, times, error=extending.refused(found, name, policy=site.policy()))
            return
        with recording(site, name):
            end = extending.extend(site, name, seconds=seconds)
        steps.done(name, f"until {times.until(end)}")
    show_created(out, site, [name])
    if not out.structured:
        for row in site.inventory.read().reservations:
            if row.instance == name and (come := bookings.no_show_line(row, site.policy(), begun=True)):
                out.screen.note(come)


@click.command()
@click.argument("name", type=params.INSTANCE)
@click.option("--for", "seconds", type=params.DURATION, required=True, metavar="D", help="From now on, as 2h.")
@click.option("--reason", required=True, help="What for; those who wait can read it.")
@params.change
@params.output
def keep(out: Output, name: str, *, seconds: int, reason: str, dry_run: bool, yes: bool) -> None:
    """For a time no card of NAME is taken for lying idle; it counts from now, and is a bounded amount each week.

    It holds off nothing else: bookings, guarantees of others, higher classes and the end of a lease count all the same.
    """
    del yes  # nobody loses anything by it
    from lxgpu import hosts, wiring  # noqa: PLC0415
    from lxgpu.cli import bookings  # noqa: PLC0415
    from lxgpu.cli.times import Times  # noqa: PLC0415
    from lxgpu.services import keeping  # noqa: PLC0415
    from lxgpu.services.pausing import paused  # noqa: PLC0415
    from lxgpu.services.refusal import recording  # noqa: PLC0415
    from lxgpu.services.tick import tick  # noqa: PLC0415

    with out.screen.steps(total=1) as steps:
        site = hosts.site(steps.of(name), name)
        times = Times(now=site.clock.now(), zone=site.policy().zone, screen=out.screen)
        if dry_run:
            found = keeping.plan_keep(site, name, seconds=seconds, reason=reason)
            held = len(site.inventory.read().held_by(name))
            error = keeping.refused(found, name, policy=site.policy(), held=held)
            bookings.rehearsed(out, found.plan, times, error=error)
            return
        with recording(site, name):
            row = keeping.keep(site, name, seconds=seconds, reason=reason)
        tick(
            site, paused=paused(wiring.settings().run_dir) is not None
        )  # a warning for being idle is taken back at once
        steps.done(name, f"no card is taken for lying idle until {times.until(row.until)}")
    out.items("keeps", [row], bookings.KEEP_COLUMNS)
