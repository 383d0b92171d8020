"""`lxgpu host`: the hosts of the settings, and whether they can be asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lxgpu.cli import params
from lxgpu.cli.render import Column, Output
from lxgpu.errors import Exit, LxgpuError
from lxgpu.figures import short_size

if TYPE_CHECKING:
    from lxgpu.cli.params import When
    from lxgpu.services.hostviews import HostCard, HostView

COLUMNS = (
    Column("HOST", "name"),
    Column("STATE", "state"),
    Column("GPUS", "gpus"),
    Column("FAULTY", "faulty"),
    Column("DRIVER", "driver"),
    Column("REACHED", "way", wide=True),
    Column("DRAINED", "drained_from"),
    Column("WHY", "error"),
    Column("NOTE", "drain_note", wide=True),
)


HOST = click.argument("name", metavar="HOST")


def check_home(host: str, home: str, name: str) -> str:
    """The host that was asked for, if it is the one that a container lives on, `any`, or none in particular.

    Raises:
        LxgpuError: `not_found`.
    """
    if host not in ("", "any", home):
        why = f"{name} lives on {home}, and its cards have to be there"
        raise LxgpuError(
            "not_found", f"there is no host {host} with cards for {name}", why=why, fix=f"--host {home}, or --host any"
        )
    return host


@click.group()
def host() -> None:
    """The hosts that the settings name, asked side by side."""


@host.command("ls")
@params.output
def list_(out: Output) -> None:
    """List the hosts: whether they answer, and how many cards they have.

    What a host that does not answer has is not known, and shown as unknown.
    """
    _show_all(out)


@host.command()
@HOST
@params.output
def show(out: Output, name: str) -> None:
    """Everything about one host: how it is reached, its driver, its cards; exit 8 when it does not answer."""
    from lxgpu import hosts  # noqa: PLC0415 -- not for --help
    from lxgpu.services.hostviews import UNREACHABLE, look_at_all  # noqa: PLC0415

    known = hosts.hosts()
    chosen = [one for one in known if one.name == name]
    if not chosen:
        why = f"the settings name {', '.join(one.name for one in known)}"
        raise LxgpuError("not_found", f"there is no host {name}", why=why, fix="lxgpu host ls")
    view = look_at_all(chosen, within_s=hosts.LOOK_S)[0]
    out.sheet("hosts", view, COLUMNS, lambda: _sheet(view))
    if view.state == UNREACHABLE:
        click.get_current_context().exit(int(Exit.UNAVAILABLE))


@host.command()
@HOST
@click.option("--at", type=params.INSTANT, metavar="T", help="From when on; at once unless said.")
@click.option("--note", default="", help="Why; who looks at its cards reads it.")
@params.change
@params.output
def drain(out: Output, name: str, *, at: When | None, note: str, dry_run: bool, yes: bool) -> None:
    """Empty HOST for work on it: from then on nobody is given its cards.

    Who holds some keeps them until they are given back; --dry-run says who and until when, and which bookings are at
    risk. `lxgpu host open` brings the host back.
    """
    del yes  # nothing is taken from anybody by it
    from lxgpu import hosts  # noqa: PLC0415 -- not for --help
    from lxgpu.services import draining  # noqa: PLC0415

    with out.screen.steps(total=1) as steps:
        site = hosts.site_on(steps.of(name), _one(name))
        now = site.clock.now()
        begins = now if at is None else at.at(now=now, zone=site.policy().zone)
        meant = draining.Drain(site.host, begins, site.actor, note)
        if dry_run:
            out.plan(draining.plan_drain(site, meant))
            return
        draining.drain(site, meant)
        steps.done(name, "drained" if begins <= now else f"drained from {begins:%Y-%m-%d %H:%M} UTC on")
    _show_all(out)


@host.command(name="open")
@HOST
@params.change
@params.output
def open_(out: Output, name: str, *, dry_run: bool, yes: bool) -> None:
    """Bring HOST back: its cards are lent again, but for those that were closed for other reasons."""
    del yes  # nobody loses anything by it
    from lxgpu import hosts  # noqa: PLC0415 -- not for --help
    from lxgpu.services import draining  # noqa: PLC0415

    with out.screen.steps(total=1) as steps:
        site = hosts.site_on(steps.of(name), _one(name))
        if dry_run:
            out.plan(draining.plan_undrain(site))
            return
        count = draining.undrain(site)
        steps.done(name, f"cards opened: {count}" if count else "in service")
    _show_all(out)


def _one(name: str) -> str:
    """A host by its name: `any` is none."""
    if name == "any":
        raise LxgpuError("not_found", "any is no host", why="one host at a time is emptied", fix="lxgpu host ls")
    return name


def _show_all(out: Output) -> None:
    from lxgpu import hosts  # noqa: PLC0415
    from lxgpu.services.hostviews import look_at_all  # noqa: PLC0415

    out.items("hosts", look_at_all(hosts.hosts(), within_s=hosts.LOOK_S), COLUMNS)


def _sheet(view: HostView) -> tuple[tuple[str, list[str]], ...]:
    cards = ["not known"] if view.cards is None else [_card(one) for one in view.cards] or ["none"]
    return (
        ("", [f"{view.name}: {view.state}"]),
        ("reached", [view.way]),
        ("why", [view.error] if view.error else []),
        ("fix", [view.fix] if view.fix else []),
        ("drained", [_drained(view)] if view.drained_from else []),
        ("driver", [view.driver] if view.driver else []),
        ("cards", cards),
    )


def _drained(view: HostView) -> str:
    return f"from {view.drained_from:%Y-%m-%d %H:%M} UTC on: {view.drain_note or 'no note'}"


def _card(card: HostCard) -> str:
    if card.fault:
        return f"{card.uuid or 'unknown'} at {card.pci or '-'}: {card.fault}"
    used, total = (
        None if size is None else short_size(size) for size in (card.memory_used_bytes, card.memory_total_bytes)
    )
    busy = "-" if card.utilization_percent is None else f"{card.utilization_percent}%"
    return f"{card.uuid} at {card.pci}: utilisation {busy}, {used or '-'} of {total or '-'} in use"
