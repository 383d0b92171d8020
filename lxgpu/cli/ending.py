"""`lxgpu delete`, `suspend` and `resume`."""

from __future__ import annotations

import click

from lxgpu.cli import params
from lxgpu.cli.render import Output


@click.command()
@click.argument("name", type=params.INSTANCE)
@click.option("--purge", is_flag=True, help="At once and for good, the home volume too.")
@params.change
@params.output
def delete(out: Output, name: str, *, purge: bool, dry_run: bool, yes: bool) -> None:
    """Take NAME's container away: cards given back, port and keys closed.

    The container goes to the trash and its home stays, for the time the policy says; --purge removes both.
    """
    from lxgpu import hosts  # noqa: PLC0415
    from lxgpu.services import ending  # noqa: PLC0415
    from lxgpu.services.recover import recover  # noqa: PLC0415

    with out.screen.steps(total=1) as steps:
        site = hosts.site(steps.of(name), name)
        plan = ending.plan_delete(site, name, purge=purge)
        if dry_run:
            out.plan(plan)
            return
        kept = "it and its home are gone for good" if purge else "it goes to the trash, its home stays"
        params.confirm(f"{name} is stopped and deleted; {kept}", yes=yes, name=name)
        recover(site)
        ending.delete(site, name, purge=purge)
        again = "" if purge else "; `lxgpu ls --all` shows it in the trash, `lxgpu adopt` brings it back"
        steps.done(name, f"deleted{again}")


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
