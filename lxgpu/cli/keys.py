"""`lxgpu keys`: the public SSH keys that let a person in."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING

import click

from lxgpu.cli import params
from lxgpu.cli.render import Column, Output
from lxgpu.errors import LxgpuError

if TYPE_CHECKING:
    from lxgpu.services.keys import KeyView
    from lxgpu.services.site import Site

COLUMNS = (
    Column("FINGERPRINT", "fingerprint"),
    Column("TYPE", "type"),
    Column("COMMENT", "comment", text=lambda comment: comment or "-"),
    Column("ADDED", "added_at", text=lambda at: f"{at:%Y-%m-%d}"),
    Column("PERSON", "person", wide=True),
    Column("OPTIONS", "options", wide=True, text=lambda options: options or "-"),
)
ALL = (Column("PERSON", "person"), *(column for column in COLUMNS if column.header != "PERSON"))
INVITATIONS = (
    Column("PERSON", "person"),
    Column("STATE", "state"),
    Column("UNTIL", "expires", text=lambda at: f"{at:%Y-%m-%d %H:%M} UTC"),
)
PERSON = click.argument("person", metavar="NAME", type=params.PERSON)


@click.group()
def keys() -> None:
    """A person's public SSH keys; they need not have a container yet."""


@keys.command()
@click.argument("person", metavar="[NAME]", type=params.PERSON, required=False)
@click.option("--invited", is_flag=True, help="The invitations instead: who may bring a key, and until when.")
@params.output
def ls(out: Output, person: str | None, *, invited: bool) -> None:
    """List the keys of NAME, or of everybody; -o wide has the options that stand before a key.

    An invitation that is open takes a key, a used one has taken it and shows how to log in.
    """
    from lxgpu import wiring  # noqa: PLC0415 -- not for --help
    from lxgpu.services import looking  # noqa: PLC0415
    from lxgpu.services.keys import everybodys, views  # noqa: PLC0415

    if invited:
        _invitations(out, person)
        return
    records = looking.records_of(lambda: wiring.inventory(read_only=True))
    if person is None:
        out.items("keys", everybodys(records), ALL, empty="nobody has keys; lxgpu keys add NAME FILE gives one")
    else:
        _tell_invited(out, person)
        _show(out, views(records, person), person)


def _tell_invited(out: Output, person: str) -> None:
    """Who has been invited may have no key yet; only root can tell."""
    from datetime import UTC, datetime  # noqa: PLC0415

    from lxgpu import wiring  # noqa: PLC0415
    from lxgpu.services.invitations import views  # noqa: PLC0415

    with suppress(LxgpuError):
        for one in views(wiring.settings().state_dir, datetime.now(UTC)):
            if (one.person, one.state) == (person, "open"):
                out.screen.note(f"{person} is invited to bring a key until {one.expires:%Y-%m-%d %H:%M} UTC")


def _invitations(out: Output, person: str | None) -> None:
    from datetime import UTC, datetime  # noqa: PLC0415

    from lxgpu import wiring  # noqa: PLC0415
    from lxgpu.services.invitations import views  # noqa: PLC0415

    found = views(wiring.settings().state_dir, datetime.now(UTC))
    mine = [one for one in found if person in {None, one.person}]
    empty = f"{person or 'nobody'} has {'no' if person else 'an'} invitation; lxgpu keys invite NAME makes one"
    out.items("invitations", mine, INVITATIONS, empty=empty)


@keys.command()
@PERSON
@click.argument("source", metavar="FILE|-", type=click.Path())
@params.change
@params.output
def add(out: Output, person: str, source: str, *, dry_run: bool, yes: bool) -> None:
    """Add public keys from a file, or from standard input with `-`, to those of NAME.

    They count at once in a running container. Without a container they are kept until there is one.
    """
    del yes  # nobody loses anything by it
    from lxgpu import hosts  # noqa: PLC0415
    from lxgpu.cli.wishes import read_keys  # noqa: PLC0415
    from lxgpu.services import keys as service  # noqa: PLC0415
    from lxgpu.services.recover import recover  # noqa: PLC0415

    given = read_keys(source)
    with out.screen.steps(total=1) as steps:
        sites = hosts.sites(steps.of(person), person)
        site = sites[0]
        if dry_run:
            out.plan(service.plan_add(site, person, given))
            return
        recover(site)
        count = service.add(site, person, given)
        for sibling in sites[1:]:
            service.again(sibling, person)
        steps.done(person, f"{count} of {len(given)} keys are new" if count < len(given) else f"keys added: {count}")
    _show_all(out, site, person)


@keys.command()
@PERSON
@click.argument("fingerprint")
@params.change
@params.output
def rm(out: Output, person: str, fingerprint: str, *, dry_run: bool, yes: bool) -> None:
    """Take a key of NAME away, by its fingerprint or the beginning of it.

    Who is logged in by it stays so: `lxgpu restart` ends that.
    """
    from lxgpu import hosts  # noqa: PLC0415
    from lxgpu.services import keys as service  # noqa: PLC0415
    from lxgpu.services.recover import recover  # noqa: PLC0415

    with out.screen.steps(total=1) as steps:
        sites = hosts.sites(steps.of(person), person)
        site = sites[0]
        plan = service.plan_remove(site, person, fingerprint)
        if dry_run:
            out.plan(plan)
            return
        last = service.is_last(site.inventory.read(), person)
        if last:
            params.confirm(f"this is the last key of {person}, who cannot log in without it", yes=yes)
        recover(site)
        service.remove(site, person, fingerprint)
        for sibling in sites[1:]:
            service.again(sibling, person)
        steps.done(person, "key removed")
    if last:
        out.screen.warn(f"{person} has no key any more and cannot log in; lxgpu keys add {person} FILE gives one")
    _show_all(out, site, person)


@keys.command()
@PERSON
@click.option("--for", "for_s", type=params.DURATION, metavar="D", help="How long it opens: 7d unless said.")
@click.option("--withdraw", is_flag=True, help="Make the invitation there is void.")
@params.change
@params.output
def invite(out: Output, person: str, *, for_s: int | None, withdraw: bool, dry_run: bool, yes: bool) -> None:
    """Print a one-time address at which NAME brings a public key, in a browser.

    It takes one key, which counts as if you had added it, and shows how to log in from then on, also when the container
    is made later. Whoever has the address can use it: hand it to NAME alone. A new one makes an earlier one void.
    `keys ls --invited` lists them.
    """
    from lxgpu import wiring  # noqa: PLC0415
    from lxgpu.cli.web import show_address  # noqa: PLC0415
    from lxgpu.services import linkplans, links  # noqa: PLC0415

    if for_s is not None and withdraw:
        raise LxgpuError("usage", "--for goes with no --withdraw", fix=f"lxgpu keys invite {person} --for 7d")
    del yes  # nobody loses anything by it
    life = links.INVITE_LIFE if for_s is None else timedelta(seconds=for_s)
    links.check_life(person, life)
    site = wiring.site(out.screen.note)
    if dry_run:
        out.plan(linkplans.plan_withdraw(site, person) if withdraw else linkplans.plan_invite(site, person, life=life))
        return
    if withdraw:
        there = links.withdraw(site, person)
        out.screen.note(f"the invitation of {person} is void" if there else f"{person} has no invitation")
        return
    show_address(out, links.invite(site, person, life=life))


def _show_all(out: Output, site: Site, person: str) -> None:
    from lxgpu.services.keys import views  # noqa: PLC0415

    _show(out, views(site.inventory.read(), person), person)


def _show(out: Output, views: tuple[KeyView, ...], person: str) -> None:
    out.items("keys", views, COLUMNS, empty=f"{person} has no keys; lxgpu keys add {person} FILE gives one")
