"""`lxgpu inventory`: what lxgpu remembers, checked, moved, backed up, and made again from LXD."""

from __future__ import annotations

from pathlib import Path

import click

from lxgpu.cli import params
from lxgpu.cli.render import Column, Output
from lxgpu.cli.screen import Screen
from lxgpu.errors import LxgpuError
from lxgpu.model.plan import Plan, PlannedStep, Verdict

FINDINGS = (Column("WHAT", "code"), Column("SUBJECT", "subject"), Column("FINDING", "text"), Column("FIX", "fix"))


@click.group()
def inventory() -> None:
    """What lxgpu remembers: people, containers, who holds which card, and history."""


@inventory.command()
@params.output
@click.pass_context
def verify(ctx: click.Context, /, out: Output) -> None:
    """Compare the inventory with LXD; status 10 when they differ."""
    from lxgpu import archive, hosts  # noqa: PLC0415
    from lxgpu.services.verify import verify as compare  # noqa: PLC0415

    sites = hosts.everyone(out.screen.note)
    archive.check_database()
    found = [finding for site in sites for finding in compare(site)]
    out.items("findings", found, FINDINGS, empty="the inventory and LXD agree")
    if found:
        ctx.exit(10)


@inventory.command()
@params.change
@params.output
def rebuild(out: Output, *, dry_run: bool, yes: bool) -> None:
    """Make the inventory again from what LXD's containers carry.

    People, keys, containers, cards and promises come back; history begins anew. What is in the database now is
    replaced, so a database that has rows is kept aside first.
    """
    from lxgpu import archive, hosts, wiring  # noqa: PLC0415
    from lxgpu.services import rebuild as service  # noqa: PLC0415
    from lxgpu.services.identity import ensure_identity  # noqa: PLC0415
    from lxgpu.services.recover import recover  # noqa: PLC0415

    if dry_run:
        found = service.preview(wiring.empty_site(out.screen.note))
        steps = (PlannedStep("restore", row.name, why=f"{row.owner}, {row.state.value}") for row in found.instances)
        out.plan(Plan(decision=Verdict.GRANTED, steps=tuple(steps)))
        return
    if archive.is_damaged():
        params.confirm("the damaged inventory is put aside, and made again of what LXD carries", yes=yes)
        out.screen.note(f"the damaged inventory is kept as {archive.put_damaged_aside()}")
    site = wiring.site(out.screen.note)
    if site.inventory.read().identity is not None:
        params.confirm("the present inventory is replaced by what LXD carries", yes=yes)
        out.screen.note(f"the present inventory is kept as {archive.keep_aside()}")
    sites = hosts.everyone(out.screen.note)
    for one in sites:
        found = service.rebuild(one)
        recover(one)
        for trouble in found.troubles:
            out.screen.warn(trouble)
        held = sum(row.live for row in one.inventory.read().assignments)
        where = f" on {one.host}" if hosts.several() else ""
        out.screen.note(f"rebuilt: {len(found.instances)} containers, {held} cards held{where}")
    for one in sites[:-1]:
        ensure_identity(one)  # of several hosts each raised the epoch


@inventory.command()
@click.option("--events", type=click.IntRange(min=0), default=0, help="So many of the newest lines of history, too.")
@click.option("--to", "target", type=click.Path(dir_okay=False), help="A file; standard output unless said.")
@params.pass_screen
def export(screen: Screen, *, events: int, target: str | None) -> None:
    """Write the inventory as readable YAML."""
    from lxgpu import archive  # noqa: PLC0415

    text = archive.export_text(events=events)
    if target is None:
        screen.data(text.rstrip("\n"))
        return
    archive.write_private(Path(target), text)
    screen.note(f"written: {target}")


@inventory.command("import")
@click.argument("source", metavar="FILE|-", type=click.Path())
@params.change
@params.output
def import_(out: Output, source: str, *, dry_run: bool, yes: bool) -> None:
    """Replace the inventory's rows by those of an exported FILE; the epoch rises."""
    from lxgpu import archive, wiring  # noqa: PLC0415
    from lxgpu.services.rebuild import check_own, take_over  # noqa: PLC0415

    text = _read(source)
    contents = archive.parse_inventory(text, name=source)
    check_own(wiring.engine().server(), contents.records.identity)  # refused before a row is replaced
    if dry_run:
        steps = (PlannedStep("import", row.name, why=row.state.value) for row in contents.records.instances)
        out.plan(Plan(decision=Verdict.GRANTED, steps=tuple(steps)))
        return
    params.confirm("the present inventory is replaced by the file's rows", yes=yes)
    out.screen.note(f"the present inventory is kept as {archive.keep_aside()}")
    site = wiring.site(out.screen.note)
    archive.replace_inventory(site, contents)
    take_over(site)
    out.screen.note(
        f"imported: {len(contents.records.instances)} containers; `lxgpu inventory verify` compares with LXD"
    )


@inventory.command()
@click.argument("target", type=click.Path(dir_okay=False))
@params.pass_screen
def backup(screen: Screen, target: str) -> None:
    """Copy the whole inventory, history included, to the file TARGET, while others go on working."""
    from lxgpu import archive  # noqa: PLC0415

    archive.backup(Path(target))
    screen.note(f"written: {target}")


@inventory.command()
@click.argument("source", type=params.FILE)
@params.change
@params.output
def restore(out: Output, source: str, *, dry_run: bool, yes: bool) -> None:
    """Put a backup in the inventory's place; the epoch rises."""
    from lxgpu import archive, wiring  # noqa: PLC0415
    from lxgpu.services.rebuild import check_own, take_over  # noqa: PLC0415

    check_own(wiring.engine().server(), archive.backup_identity(Path(source)))  # refused before anything is touched
    if dry_run:
        step = PlannedStep("restore", source, why="in the place of the present inventory, which is kept beside it")
        out.plan(Plan(decision=Verdict.GRANTED, steps=(step,)))
        return
    params.confirm("the present inventory is replaced by the backup", yes=yes)
    kept = archive.restore(Path(source))
    if kept is not None:
        out.screen.note(f"the inventory there was is kept as {kept}")
    site = wiring.site(out.screen.note)
    take_over(site)
    out.screen.note("restored; `lxgpu inventory verify` compares it with LXD")


def _read(source: str) -> str:
    try:
        return params.read_bytes(source).decode()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise LxgpuError(
            "usage", f"{source} cannot be read", why=why, fix="name a file of lxgpu inventory export"
        ) from error
