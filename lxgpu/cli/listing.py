"""`lxgpu ls`, `gpus`, `show`, `status`: everything that is only looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lxgpu.cli import params
from lxgpu.cli.columns import gpu_columns, in_lines
from lxgpu.cli.instance_columns import INSTANCE_COLUMNS, with_host
from lxgpu.cli.published import instead_of
from lxgpu.cli.render import Output
from lxgpu.cli.screen import Screen
from lxgpu.cli.short import NOBODY
from lxgpu.errors import LxgpuError

if TYPE_CHECKING:
    from lxgpu.cli.params import When

__all__ = ["INSTANCE_COLUMNS", "gpus", "ls", "show", "status"]


@click.command()
@click.option("-a", "--all", "everything", is_flag=True, help="Deleted ones that are kept, and those not lxgpu's too.")
@click.option("--usage", is_flag=True, help="Ask for the disk in use too, which takes LXD longer; -o wide and csv do.")
@params.output
def ls(out: Output, *, everything: bool, usage: bool) -> None:
    """List containers: state, cards, limits, login.

    One request to LXD, whatever the number. When LXD does not answer, what the inventory knows is listed.
    """
    from lxgpu import hosts, wiring  # noqa: PLC0415 -- not for --help
    from lxgpu.cli.news import say_news, say_pause  # noqa: PLC0415
    from lxgpu.services import hostlooks, listing, looking  # noqa: PLC0415
    from lxgpu.services.idleviews import published_idle  # noqa: PLC0415
    from lxgpu.services.report import ssh_host  # noqa: PLC0415

    try:
        records = looking.records_of(lambda: wiring.inventory(read_only=True))
    except LxgpuError as error:
        published = instead_of(error, out.screen)
        out.items("instances", published.instances, INSTANCE_COLUMNS, empty=NOBODY)
        say_pause(out.screen)
        return
    found = hostlooks.glance_at_all(hosts.places(), records, with_state=usage or out.form in {"wide", "csv"})
    troubles = [glance.trouble for _, glance in found if glance.trouble is not None]
    for trouble in troubles:
        say_trouble(out.screen, trouble)
    idle = published_idle(str(wiring.settings().state_dir))
    items = [
        item
        for place, glance in found
        for item in listing.instance_items(
            glance.records,
            glance.sightings,
            ssh_host(place.settings.network),
            trashed=everything,
            foreign=everything,
            idle=idle,
        )
    ]
    items.sort(key=lambda item: str(item["name"]))
    columns = with_host(INSTANCE_COLUMNS) if len(found) > 1 else INSTANCE_COLUMNS
    out.items("instances", items, columns, empty=NOBODY)
    wiring.remember_for_ls()
    for _, glance in found:
        _say_lost(out.screen, listing.lost(glance.records, glance.sightings or ()), listing.remedy(records))
    say_news(out.screen)
    _end(next(iter(troubles), None))


@click.command()
@click.option("--free", is_flag=True, help="Only cards that nobody holds.")
@click.option("--at", type=params.INSTANT, metavar="TIME", help="Who held what then, as 'mon 18:00' or '+4h'.")
@params.output
def gpus(out: Output, *, free: bool, at: When | None) -> None:
    """List cards: who holds which until when, whether it is used, and what is free."""
    from lxgpu.cli import looks  # noqa: PLC0415 -- not for --help
    from lxgpu.cli.news import say_pause  # noqa: PLC0415
    from lxgpu.services.cardviews import FREE  # noqa: PLC0415
    from lxgpu.services.headline import count, headline  # noqa: PLC0415

    try:
        scene = looks.scene(out.screen) if at is None else looks.scene_at(out.screen, at)
    except LxgpuError as error:
        if at is not None:
            raise
        scene = looks.published_scene(out.screen, instead_of(error, out.screen))
    views = tuple(view for view in scene.cards.views if not free or all(slot.state == FREE for slot in view.slots))
    columns = gpu_columns(scene.cards.views, scene.cards.notes, scene.times.show, form=out.form)
    title = headline(count(scene.cards.views, scene.moment), scene.times.show)
    if at is not None:
        title = f"{scene.times.show(scene.moment)}: {title}"
    lines = tuple(in_lines(views)) if out.form in {"table", "wide"} else views
    out.items("gpus", lines, columns, title=title, empty="no card is free" if free else "this host has no cards")
    if at is None:
        say_pause(out.screen, scene.times)
    _end(scene.look.trouble if scene.look else None)


@click.command()
@click.argument("name", metavar="NAME|GPU")
@params.output
def show(out: Output, name: str) -> None:
    """Everything about one container, or about one card by UUID or PCI address."""
    from lxgpu.cli import looks, sheets  # noqa: PLC0415 -- not for --help

    instance = looks.instance(out.screen, name)
    if instance is not None:
        out.sheet("instances", instance.view, INSTANCE_COLUMNS, lambda: sheets.instance_sheet(instance))
        _end(instance.trouble)
    else:
        show_gpu(out, name)


def show_gpu(out: Output, text: str) -> None:
    """Everything about one card (`lxgpu show GPU` and `lxgpu gpu show GPU`)."""
    from lxgpu.cli import looks, sheets  # noqa: PLC0415

    scene = looks.scene(out.screen)
    view = looks.the_gpu(scene, text)
    columns = gpu_columns(scene.cards.views, scene.cards.notes, scene.times.show, form=out.form)
    out.sheet("gpus", view, columns, lambda: sheets.gpu_sheet(scene, view, looks.events_of(view.uuid)))
    _end(scene.look.trouble if scene.look else None)


@click.command()
@params.output
def status(out: Output) -> None:
    """The whole host on one screen: what is free, what runs, what is under way, what is wrong."""
    from lxgpu.cli import looks, sheets  # noqa: PLC0415 -- not for --help
    from lxgpu.cli.news import say_pause  # noqa: PLC0415

    try:
        scene = looks.scene(out.screen, quiet=True)
        view = looks.status(scene)
    except LxgpuError as error:
        found = instead_of(error, out.screen)
        scene, view = looks.published_scene(out.screen, found), found.status
    out.sheet("status", view, sheets.STATUS_COLUMNS, lambda: sheets.status_sheet(view, scene.times))
    say_pause(out.screen, scene.times)
    _end(scene.look.trouble if scene.look else None)


def _end(trouble: LxgpuError | None) -> None:
    """The status of an LXD that did not answer, after all has been shown that is known without it."""
    if trouble is not None:
        click.get_current_context().exit(int(trouble.status))


def say_trouble(screen: Screen, trouble: LxgpuError) -> None:
    """That LXD does not answer, and that what follows is from memory."""
    screen.warn(f"{trouble.brief}; what is shown is what the inventory knows")
    for line in trouble.why:
        screen.note(f"why: {line}")


def _say_lost(screen: Screen, names: tuple[str, ...], remedy: str) -> None:
    """That LXD has containers which the inventory should know."""
    if names:
        from lxgpu.services.listing import some  # noqa: PLC0415

        screen.warn(f"not in the inventory, but marked as lxgpu's in LXD: {some(names)}; look with: {remedy}")
