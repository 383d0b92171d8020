"""`lxgpu image`: the images that containers are made of."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from lxgpu.cli import params
from lxgpu.cli.render import Column, Output
from lxgpu.errors import LxgpuError
from lxgpu.figures import short_size
from lxgpu.model.plan import Plan, PlannedStep, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lxgpu.services.site import Site


def _yes(value: object) -> str:
    return "yes" if value else "no"


COLUMNS = (
    Column("IMAGE", lambda item: item.name or item.fingerprint[:12]),
    Column("SIZE", "size_bytes", text=short_size),
    Column("CREATED", "created_at", text=lambda at: f"{at:%Y-%m-%d}"),
    Column("PREPARED", "prepared", text=_yes),
    Column("CONTAINERS", "containers"),
    Column("DESCRIPTION", lambda item: item.description or None),
    Column("FINGERPRINT", "fingerprint", wide=True),
    Column("USED", "used", text=_yes, wide=True),
)


@click.group()
def image() -> None:
    """Images: build the base image, bring in others, see what is used, take away what is not."""


@image.command("ls")
@params.output
def list_(out: Output) -> None:
    """List the images, how many containers are made of each, and whether the next one is a quick copy."""
    from lxgpu import wiring  # noqa: PLC0415
    from lxgpu.services import imagestore  # noqa: PLC0415

    site = wiring.site(out.screen.note)
    out.items("images", imagestore.views(site), COLUMNS, empty="no images: lxgpu image build makes one")


@image.command()
@click.option("--alias", default="", help="Its name; that of the settings unless said.")
@click.option("--profile", default="", help="Prepare the image of that name for this profile, with its software.")
@params.change
@params.output
def build(out: Output, *, alias: str, profile: str, dry_run: bool, yes: bool) -> None:
    """Make the base image, a small Debian with systemd and sshd, and prepare it.

    The system that debootstrap made is kept and used again; a name that is taken moves to the new image. With
    --profile an image that is there stays: what the profile brings is installed beside it, once, for all containers of
    the profile.
    """
    del yes  # the old image stays until it is pruned
    from lxgpu import wiring  # noqa: PLC0415
    from lxgpu.lab.image_cache import cached_image, ensure_image  # noqa: PLC0415
    from lxgpu.services import imagestore  # noqa: PLC0415

    name = alias or wiring.settings().image
    with out.screen.steps(total=1) as steps:
        if dry_run:
            there = cached_image().exists()
            first = PlannedStep("use" if there else "build", str(cached_image()), why="Debian by debootstrap")
            out.plan(_prepared(name, profile) if profile else _plan(first, name))
            return
        say = steps.of(name)
        site = wiring.site(say)
        chosen = site.profile(profile) if profile else None
        if chosen is None or all(name not in image.aliases for image in site.engine.images()):
            file = ensure_image(lambda text: say(text.removeprefix("image: ")))
            _bring(site, file, name)
        if chosen is not None:
            imagestore.prepare(site, name, chosen)
        steps.done(name, f"ready for profile {profile}" if profile else "ready")
    _show(out, site, name)


@image.command("import")
@click.argument("file", type=params.FilePath(path_type=Path))
@click.option("--alias", required=True, help="Its name.")
@params.change
@params.output
def import_(out: Output, file: Path, *, alias: str, dry_run: bool, yes: bool) -> None:
    """Bring in FILE, a tarball of metadata.yaml and rootfs/ (as `lxc image export` writes), and prepare it.

    It needs systemd; sshd and sudo are installed by its own package manager where they are missing. It gets its name
    only when a container of it could be prepared.
    """
    del yes  # the old image stays until it is pruned
    from lxgpu import wiring  # noqa: PLC0415

    with out.screen.steps(total=1) as steps:
        if dry_run:
            out.plan(_plan(PlannedStep("import", str(file), why="asked for"), alias))
            return
        site = wiring.site(steps.of(alias))
        _bring(site, file, alias)
        steps.done(alias, "ready")
    _show(out, site, alias)


@image.command()
@click.option("--all", "named", is_flag=True, help="Unused images that have a name, too.")
@params.change
@params.output
def prune(out: Output, *, named: bool, dry_run: bool, yes: bool) -> None:
    """Take away unused images without a name, and templates of former images and profiles.

    What a container was made of, what the settings name, and the templates of both stay always.
    """
    from lxgpu import wiring  # noqa: PLC0415
    from lxgpu.config.profiles import list_profiles  # noqa: PLC0415
    from lxgpu.services import imagestore  # noqa: PLC0415

    site = wiring.site(out.screen.note)
    profiles = [site.profile(name) for name in list_profiles(site.settings.profiles)]
    found = imagestore.waste(site, profiles, named=named)
    plan = found.plan()
    if dry_run or not plan.steps:
        out.plan(plan)
        if not plan.steps:
            out.screen.note("nothing to take away")
        return
    for step in plan.steps:
        out.screen.note(f"{step.do}: {step.instance} ({step.why})")
    params.confirm("these images and templates are deleted", yes=yes)
    imagestore.prune(site, found)
    out.plan(plan)


def _bring(site: Site, file: Path, name: str) -> None:
    from lxgpu.services import imagestore  # noqa: PLC0415

    _check_alias(name)
    imagestore.bring(site, file, alias=name)


def _check_alias(name: str) -> None:
    if not name.isprintable() or not name or any(char.isspace() or char in "/:?#%&" for char in name):
        raise LxgpuError("usage", f"{name!r} is no name for an image", fix="letters, digits, hyphens and dots")


def _show(out: Output, site: Site, name: str) -> None:
    from lxgpu.services import imagestore  # noqa: PLC0415

    out.items("images", _named(imagestore.views(site), name), COLUMNS)


def _named(views: Iterable[object], name: str) -> list[object]:
    return [view for view in views if name in getattr(view, "aliases", ())]


def _prepared(name: str, profile: str) -> Plan:
    step = PlannedStep("prepare", name, why=f"with what profile {profile} brings; made first where it is missing")
    return Plan(decision=Verdict.GRANTED, steps=(step,))


def _plan(first: PlannedStep, name: str) -> Plan:
    prepare = PlannedStep("prepare", name, why="so that the first container is a quick copy")
    return Plan(decision=Verdict.GRANTED, steps=(first, prepare, PlannedStep("name", name, why="when it is usable")))
