"""`lxgpu snapshot` and `lxgpu restore`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lxgpu.cli import params
from lxgpu.cli.render import Column, Output
from lxgpu.errors import LxgpuError

if TYPE_CHECKING:
    from lxgpu.services.site import Site

COLUMNS = (
    Column("SNAPSHOT", "name"),
    Column("TAKEN", "created_at", text=lambda at: f"{at:%Y-%m-%d %H:%M} UTC"),
    Column("CONTAINER", "instance", wide=True),
)


@click.command()
@click.argument("name", type=params.INSTANCE)
@click.argument("snapshot", metavar="[SNAP]", required=False)
@click.option("--list", "listing", is_flag=True, help="List the snapshots there are.")
@click.option("--delete", "unwanted", metavar="SNAP", help="Delete a snapshot.")
@params.change
@params.output
def snapshot(
    out: Output, name: str, *, snapshot: str | None, listing: bool, unwanted: str | None, dry_run: bool, yes: bool
) -> None:
    """Keep the present state of NAME's system as SNAP (the time, unless said), running or not.

    The home is a volume of its own and is not in it.
    """
    if sum((snapshot is not None, listing, unwanted is not None)) > 1:
        raise LxgpuError("usage", "take, list or delete: one at a time", fix="lxgpu snapshot --help")
    from lxgpu import hosts  # noqa: PLC0415 -- not for --help
    from lxgpu.services import snapshots  # noqa: PLC0415
    from lxgpu.services.recover import recover  # noqa: PLC0415

    with out.screen.steps(total=None if listing else 1) as steps:
        site = hosts.site(steps.of(name), name, read_only=listing)
        if unwanted is not None:
            plan = snapshots.plan_delete(site, name, unwanted)
            if not dry_run:
                params.confirm(f"snapshot {unwanted} of {name} is deleted", yes=yes)
                recover(site)
                snapshots.delete_snapshot(site, name, unwanted)
                steps.done(name, f"{unwanted} deleted")
        elif not listing:
            chosen = snapshot or f"{site.clock.now():%Y%m%d-%H%M%S}"
            plan = snapshots.plan_snapshot(site, name, chosen)
            if not dry_run:
                recover(site)
                snapshots.take_snapshot(site, name, chosen)
                steps.done(name, f"kept as {chosen}")
        if dry_run and not listing:
            out.plan(plan)
            return
    _show(out, site, name)


@click.command()
@click.argument("name", type=params.INSTANCE)
@click.argument("snapshot", metavar="[SNAP]", required=False)
@params.change
@params.output
def restore(out: Output, name: str, snapshot: str | None, *, dry_run: bool, yes: bool) -> None:
    """Bring NAME's system back to SNAP, or to the newest snapshot: what was done outside the home since then is lost.

    Home, keys, cards, port, address and limits stay as they are now. Done when an SSH login worked.
    """
    from lxgpu import hosts  # noqa: PLC0415 -- not for --help
    from lxgpu.cli.wishes import show_created  # noqa: PLC0415
    from lxgpu.services import snapshots  # noqa: PLC0415
    from lxgpu.services.recover import recover  # noqa: PLC0415

    with out.screen.steps(total=1) as steps:
        site = hosts.site(steps.of(name), name)
        snapshot = snapshot or snapshots.newest(site, name)
        plan = snapshots.plan_restore(site, name, snapshot)
        if dry_run:
            out.plan(plan)
            return
        params.confirm(f"{name} is stopped, and all of it but its home goes back to {snapshot}", yes=yes, name=name)
        recover(site)
        snapshots.restore(site, name, snapshot)
        steps.done(name, f"is as in {snapshot}")
    show_created(out, site, [name])


def _show(out: Output, site: Site, name: str) -> None:
    from lxgpu.services.snapshots import views  # noqa: PLC0415

    empty = f"{name} has no snapshots; lxgpu snapshot {name} takes one"
    out.items("snapshots", views(site, name), COLUMNS, empty=empty)
