"""`lxgpu rebuild`, `resize` and `rename`."""

from __future__ import annotations

import click

from lxgpu.cli import params
from lxgpu.cli.render import Output
from lxgpu.errors import LxgpuError


@click.command()
@click.argument("name", type=params.INSTANCE)
@click.option("--image", default="", help="Image alias or fingerprint; the one it is made of unless said.")
@params.change
@params.output
def rebuild(out: Output, name: str, *, image: str, dry_run: bool, yes: bool) -> None:
    """Give NAME a fresh system: everything outside its home is replaced.

    Home, keys, cards, port, address and limits stay; host keys are new. Done when an SSH login worked.
    """
    from lxgpu import hosts  # noqa: PLC0415 -- not for --help
    from lxgpu.cli.wishes import show_created  # noqa: PLC0415
    from lxgpu.services import renewal  # noqa: PLC0415
    from lxgpu.services.recover import recover  # noqa: PLC0415

    with out.screen.steps(total=1) as steps:
        site = hosts.site(steps.of(name), name)
        plan = renewal.plan_rebuild(site, name, image=image)
        if dry_run:
            out.plan(plan)
            return
        params.confirm(f"{name} is stopped, and all of it but its home is replaced", yes=yes, name=name)
        recover(site)
        renewal.rebuild(site, name, image=image)
        steps.done(name, "ready")
    show_created(out, site, [name])


@click.command()
@click.argument("name", type=params.INSTANCE)
@click.option("--cpu", type=click.IntRange(min=1), help="Cores.")
@click.option("--memory", "memory_bytes", type=params.MEMORY, help="Memory, as 64GiB; /dev/shm follows.")
@click.option("--disk", "disk_bytes", type=params.DISK, help="Disk, for the system and for the home each.")
@click.option("--processes", type=click.IntRange(min=64), help="Most processes at a time.")
@params.change
@params.output
def resize(out: Output, /, name: str, *, dry_run: bool, yes: bool, **wanted: int | None) -> None:
    """Change the limits of NAME, at once where it runs.

    They are read back from the host's kernel; what does not hold is put back as it was. A disk is never made smaller
    than what is used.
    """
    del yes  # what would hurt is refused
    from lxgpu import hosts  # noqa: PLC0415 -- not for --help
    from lxgpu.cli.wishes import show_created  # noqa: PLC0415
    from lxgpu.model.instance import Limits  # noqa: PLC0415
    from lxgpu.services import reshape  # noqa: PLC0415
    from lxgpu.services.recover import recover  # noqa: PLC0415

    if all(value is None for value in wanted.values()):
        raise LxgpuError("usage", "say which limit", fix="--cpu 8, --memory 64GiB, --disk 200GiB or --processes 4096")
    with out.screen.steps(total=1) as steps:
        site = hosts.site(steps.of(name), name)
        if dry_run:
            out.plan(reshape.plan_resize(site, name, Limits(**wanted)))
            return
        recover(site)
        steps.done(name, "resized" if reshape.resize(site, name, Limits(**wanted)) else "has these limits already")
    show_created(out, site, [name])


@click.command()
@click.argument("name", type=params.INSTANCE)
@click.argument("new", type=params.NAME)
@params.change
@params.output
def rename(out: Output, name: str, new: str, *, dry_run: bool, yes: bool) -> None:
    """Give the container NAME the name NEW; a running one is stopped and started again.

    The account inside, home, cards, port, address and logins to the page stay as they are.
    """
    from lxgpu import hosts  # noqa: PLC0415 -- not for --help
    from lxgpu.cli.wishes import show_created  # noqa: PLC0415
    from lxgpu.services import renaming  # noqa: PLC0415
    from lxgpu.services.recover import recover  # noqa: PLC0415

    with out.screen.steps(total=1) as steps:
        site = hosts.site(steps.of(name), name)
        plan = renaming.plan_rename(site, name, new)
        if dry_run:
            out.plan(plan)
            return
        if any(step.do == "stop" for step in plan.steps):
            params.confirm(f"everything that runs in {name} is ended", yes=yes)
        recover(site)
        renaming.rename(site, name, new)
        steps.done(name, f"its name is {new} now")
    show_created(out, site, [new])
