"""`lxgpu delete`, `suspend` and `resume`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lxgpu.cli import params
from lxgpu.cli.render import Output
from lxgpu.errors import LxgpuError

if TYPE_CHECKING:
    from lxgpu.cli.progress import Steps
    from lxgpu.services.site import Site


@click.command()
@click.argument("name", type=params.INSTANCE, required=False)
@click.option("--from", "batch", type=params.FILE, help="The CSV file of a class: each container that it names.")
@click.option("--homes", metavar="DIR", default="", help="First pack each home into DIR, as NAME.tar.gz.")
@click.option("--purge", is_flag=True, help="At once and for good, the home volume too.")
@params.change
@params.output
def delete(
    out: Output, name: str | None, *, batch: str | None, homes: str, purge: bool, dry_run: bool, yes: bool
) -> None:
    """Take NAME's container away, or those of a class: cards given back, port and keys closed.

    The container goes to the trash and its home stays, for the time the policy says; --purge removes both. With
    --homes nothing is deleted whose home could not be packed.
    """
    from lxgpu import hosts  # noqa: PLC0415
    from lxgpu.services import ending  # noqa: PLC0415
    from lxgpu.services.handin import check_folder  # noqa: PLC0415
    from lxgpu.services.recover import recover  # noqa: PLC0415

    if (name is None) == (batch is None):
        raise LxgpuError("usage", "give a NAME, or --from FILE", fix="lxgpu delete --help")
    with out.screen.steps(total=1 if name else None) as steps:
        say = steps.of(name or "batch")
        sites = {name: hosts.site(say, name)} if name else _there(out, hosts.everyone(say), str(batch))
        names = tuple(sites)
        plans = [ending.plan_delete(site, one, purge=purge) for one, site in sites.items()]
        if homes:
            check_folder(homes, names)
        if dry_run:
            for plan in plans:
                out.plan(plan)
            return
        if not names:
            return
        kept = "it and its home are gone for good" if purge else "it goes to the trash, its home stays"
        what = name or f"each of {len(names)} containers ({', '.join(names[:5])}{', …' if names[5:] else ''})"
        params.confirm(f"{what} is stopped and deleted; {kept}", yes=yes, name=name or str(len(names)))
        for site in {site.host: site for site in sites.values()}.values():
            recover(site)
        errors = _hand_in(out, sites, homes, steps) if homes else {}
        errors |= _delete({one: site for one, site in sites.items() if one not in errors}, steps, purge=purge)
    if name and errors:
        raise errors[name]
    if errors:
        why = ["; ".join([f"{one}: {error.brief}", *error.why]) for one, error in errors.items()]
        text = f"{len(errors)} of {len(names)} containers were not deleted"
        raise LxgpuError("partly_failed", text, why=why, fix="mend that and repeat: who is gone is passed over")


def _there(out: Output, sites: Sequence[Site], path: str) -> dict[str, Site]:
    """The containers of a class file that are there, and where; who has none any more is told."""
    from lxgpu.config.classfile import parse_class  # noqa: PLC0415
    from lxgpu.config.source import read_source  # noqa: PLC0415
    from lxgpu.model.instance import InstanceState  # noqa: PLC0415

    here = sites[0]
    rows = parse_class(read_source(Path(path)), now=here.clock.now(), zone=here.policy().zone)
    had = {
        row.name: site
        for site in sites
        for row in site.inventory.read().instances
        if row.state is not InstanceState.TRASHED
    }
    gone = [row.name for row in rows if row.name not in had]
    if gone:
        out.screen.note(f"not there any more: {', '.join(gone)}")
    return {row.name: had[row.name] for row in rows if row.name in had}


def _hand_in(out: Output, sites: Mapping[str, Site], folder: str, steps: Steps) -> dict[str, LxgpuError]:
    """The homes, one after the other; errors by name."""
    from lxgpu import wiring  # noqa: PLC0415
    from lxgpu.services.handin import hand_in  # noqa: PLC0415

    errors: dict[str, LxgpuError] = {}
    with wiring.relay() as relay:
        for name, site in sites.items():
            try:
                path = hand_in(replace(site, say=steps.of(name)), name, folder, relay)
            except LxgpuError as error:
                errors[name] = error
                steps.failed(name, error.brief)
                if relay.heard:
                    raise
            else:
                out.screen.note(f"home of {name}: {path}")
    return errors


def _delete(sites: Mapping[str, Site], steps: Steps, *, purge: bool) -> dict[str, LxgpuError]:
    from lxgpu.services import ending  # noqa: PLC0415
    from lxgpu.services.many import each  # noqa: PLC0415

    again = "" if purge else "; `lxgpu ls --all` shows it in the trash, `lxgpu adopt` brings it back"

    def one(name: str) -> None:
        try:
            ending.delete(replace(sites[name], say=steps.of(name)), name, purge=purge)
        except LxgpuError as error:
            steps.failed(name, error.brief)
            raise
        steps.done(name, f"deleted{again}")

    return each(one, tuple(sites), workers=max((site.settings.workers for site in sites.values()), default=1))


@click.command()
@click.argument("name", type=params.INSTANCE)
@click.option("--reason", default="closed by the admin", show_default=True, help="Why; ls and show say it.")
@params.change
@params.output
def suspend(out: Output, name: str, *, reason: str, dry_run: bool, yes: bool) -> None:
    """Close NAME's container: stopped, cards given back, no login; everything in it is kept."""
    from lxgpu import hosts  # noqa: PLC0415
    from lxgpu.services import ending  # noqa: PLC0415
    from lxgpu.services.recover import recover  # noqa: PLC0415

    with out.screen.steps(total=1) as steps:
        site = hosts.site(steps.of(name), name)
        if dry_run:
            out.plan(ending.plan_suspend(site, name, reason=reason))
            return
        params.confirm(f"{name} is stopped and its cards are given back", yes=yes)
        recover(site)
        ending.suspend(site, name, reason=reason)
        steps.done(name, "suspended")


@click.command()
@click.argument("name", type=params.INSTANCE)
@params.change
@params.output
def resume(out: Output, name: str, *, dry_run: bool, yes: bool) -> None:
    """Open a suspended container again; its cards have to be asked for anew."""
    del yes  # nobody loses anything by it
    from lxgpu import hosts  # noqa: PLC0415
    from lxgpu.services import ending  # noqa: PLC0415
    from lxgpu.services.recover import recover  # noqa: PLC0415

    with out.screen.steps(total=1) as steps:
        site = hosts.site(steps.of(name), name)
        if dry_run:
            out.plan(ending.plan_resume(site, name))
            return
        recover(site)
        ending.resume(site, name)
        steps.done(name, "open again")
