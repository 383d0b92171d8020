"""`lxgpu web`: the page, and one-time links to it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from lxgpu.cli import params
from lxgpu.cli.render import Column, Output
from lxgpu.errors import LxgpuError

if TYPE_CHECKING:
    from datetime import datetime

    from lxgpu.services.links import Address

_VIEWER = "-"


@click.command()
@click.option(
    "--link",
    is_flag=False,
    flag_value=_VIEWER,
    default=None,
    metavar="[NAME]",
    help="Print a one-time link: for the container NAME, or for somebody who only looks.",
)
@click.option(
    "--close",
    is_flag=False,
    flag_value=_VIEWER,
    default=None,
    metavar="[NAME]",
    help="End all sessions and links of the container NAME, or of those who only look.",
)
@click.option("--listen", metavar="ADDR", help="The address to listen on, in place of web.listen.")
@click.option("--port", type=click.IntRange(0, 65535), metavar="N", help="The port, in place of web.port; 0: any.")
@params.change
@params.output
def web(
    out: Output,
    *,
    link: str | None,
    close: str | None,
    listen: str | None,
    port: int | None,
    dry_run: bool,
    yes: bool,
) -> None:
    """Serve the page until a signal ends it; with --link print a way in, with --close end those there are.

    A link opens once, within ten minutes; whoever has it can use it. Inside a container `gpu web` prints one.
    """
    del yes  # a link takes nothing from anybody, and who is logged out comes in again
    if link is None and close is None:
        if dry_run:
            raise LxgpuError("usage", "--dry-run goes with --link or --close", fix="lxgpu web --link NAME --dry-run")
        _serve(out, listen=listen, port=port)
        return
    if listen is not None or port is not None or (link is not None and close is not None):
        raise LxgpuError("usage", "--link and --close go with no other option", fix="lxgpu web --link NAME")
    if "" in {link, close}:  # a script's empty variable, which names nobody and must not stand for all who look
        raise LxgpuError("bad_name", "the name is empty", fix="give a NAME, or none for those who only look")
    from lxgpu import wiring  # noqa: PLC0415 -- not for --help
    from lxgpu.services import linkplans, links  # noqa: PLC0415

    site, name = wiring.site(out.screen.note), str(close if link is None else link)
    name = "" if name == _VIEWER else name
    if dry_run:
        out.plan(linkplans.plan_close(site, name) if link is None else linkplans.plan_link(site, name))
    elif link is not None:
        show_address(out, links.link(site, name))
    else:
        number = links.close(site, name)
        out.screen.note(f"{number} session{'s' * (number != 1)} and links of the page are over")


def show_address(out: Output, made: Address) -> None:
    """Print a one-time address: alone on its line, since it is to be handed over."""
    from lxgpu import resident  # noqa: PLC0415
    from lxgpu.cli.news import start_daemon  # noqa: PLC0415
    from lxgpu.cli.times import lab_times  # noqa: PLC0415
    from lxgpu.instants import show_zoned  # noqa: PLC0415

    if not resident.status().running:
        out.screen.warn(f"the daemon does not run, and lets nobody in until it does: {start_daemon()}")
    times = lab_times(out.screen)[0]

    def until(at: datetime) -> str:
        return show_zoned(at, now=times.now, zone=times.zone)

    if out.form == "table":
        out.screen.data(made.url)
        out.screen.note(f"it opens once, until {until(made.expires)}; whoever has it can use it")
        return
    columns = (
        Column("NAME", "name", text=lambda name: name or "(looks only)"),
        Column("URL", "url"),
        Column("UNTIL", "expires", text=until),
    )
    out.items("links", (made,), columns, empty="")


def _serve(out: Output, *, listen: str | None, port: int | None) -> None:
    """Serve the page; it has no rights, so nothing of the daemon's is opened but what everybody may read."""
    from lxgpu import wiring  # noqa: PLC0415
    from lxgpu.config.readers import by_key  # noqa: PLC0415
    from lxgpu.web.serve import Place, run  # noqa: PLC0415

    chosen = wiring.settings()
    web = chosen.web if listen is None else replace(chosen.web, listen=by_key()["web.listen"].read(listen))
    web = web if port is None else replace(web, port=port)
    run(Place(web, chosen.state_dir, chosen.run_dir), wiring.texts(), out.screen.note)
