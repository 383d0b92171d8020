"""`lxgpu start`, `stop` and `restart`."""

from __future__ import annotations

import click

from lxgpu.cli import params
from lxgpu.cli.render import Output
from lxgpu.model.plan import Plan, PlannedStep, Verdict


@click.command()
@click.argument("name", type=params.INSTANCE)
@params.change
@params.output
def start(out: Output, name: str, *, dry_run: bool, yes: bool) -> None:
    """Start NAME with the cards it holds."""
    del yes  # nobody loses anything by it
    _go(out, name, verb="start", force=False, dry_run=dry_run)


@click.command()
@click.argument("name", type=params.INSTANCE)
@click.option("--force", is_flag=True, help="At once, without asking what runs inside to end.")
@params.change
@params.output
def stop(out: Output, name: str, *, force: bool, dry_run: bool, yes: bool) -> None:
    """Shut NAME down; it keeps its cards."""
    if not dry_run:
        params.confirm(f"everything that runs in {name} is ended", yes=yes)
    _go(out, name, verb="stop", force=force, dry_run=dry_run)


@click.command()
@click.argument("name", type=params.INSTANCE)
@click.option("--force", is_flag=True, help="At once, without asking what runs inside to end.")
@params.change
@params.output
def restart(out: Output, name: str, *, force: bool, dry_run: bool, yes: bool) -> None:
    """Shut NAME down and start it again; clears what an interrupted attach left."""
    if not dry_run:
        params.confirm(f"everything that runs in {name} is ended", yes=yes)
    _go(out, name, verb="restart", force=force, dry_run=dry_run)


def _go(out: Output, name: str, *, verb: str, force: bool, dry_run: bool) -> None:
    from lxgpu import hosts  # noqa: PLC0415
    from lxgpu.services import lending, power  # noqa: PLC0415
    from lxgpu.services.recover import recover  # noqa: PLC0415

    with out.screen.steps(total=1) as steps:
        site = hosts.site(steps.of(name), name)
        if dry_run:
            lending.ready_instance(site, name)
            out.plan(Plan(decision=Verdict.GRANTED, steps=(PlannedStep(verb, name, why="asked for"),)))
            return
        if verb != "stop" or not power.stop_beside(site, name, force=force):
            recover(site)
            if verb == "start":
                power.start(site, name)
            elif verb == "stop":
                power.stop_instance(site, name, force=force)
            else:
                power.restart(site, name, force=force)
        steps.done(name, {"start": "runs", "stop": "stopped", "restart": "runs again"}[verb])
