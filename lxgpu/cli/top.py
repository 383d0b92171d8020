"""`lxgpu top`: the cards and who uses them, again and again until q."""

from __future__ import annotations

import os
import select
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import click

from lxgpu.cli import params
from lxgpu.cli.instance_columns import left
from lxgpu.cli.render import Column, Output
from lxgpu.figures import short_size
from lxgpu.model.cardnames import short_model

if TYPE_CHECKING:
    from datetime import datetime

    from rich.console import RenderableType

    from lxgpu.cli.looks import Scene
    from lxgpu.services.cardviews import GpuView

_ENDS = set(b"qQ\x03\x04")


@click.command()
@click.option("--every", type=params.DURATION, default=2, metavar="D", help="How often to look.  [default: 2s]")
@click.option("--once", is_flag=True, help="One look, as without a terminal.")
@params.output
def top(out: Output, *, every: int, once: bool) -> None:
    """Watch the cards: holder, use, memory, verdict, end of the lease. q or Ctrl-C ends it."""
    from lxgpu.cli import looks  # noqa: PLC0415 -- not for --help

    live = not once and out.form in {"table", "wide"} and sys.stdout.isatty() and sys.stdin.isatty()
    if live:
        _watch(out, every)
        return
    scene = looks.scene(out.screen)
    out.items("gpus", scene.cards.views, top_columns(scene, form=out.form), title=headline_of(scene))


def headline_of(scene: Scene) -> str:
    """The first line everywhere."""
    from lxgpu.services.headline import count, headline  # noqa: PLC0415

    return headline(count(scene.cards.views, scene.moment), scene.times.show)


def top_columns(scene: Scene, *, form: str) -> tuple[Column, ...]:
    """One card a line."""
    from lxgpu.model.cardnames import short_uuids  # noqa: PLC0415

    people = form in {"table", "wide"}
    names = short_uuids([view.uuid for view in scene.cards.views]) if people else {}

    def until(view: GpuView) -> datetime | None:
        return min((slot.lease_until for slot in view.slots if slot.lease_until), default=None)

    def holders(view: GpuView) -> str | None:
        found = [slot.holder for slot in view.slots if slot.holder]
        return ", ".join(dict.fromkeys(found)) or (view.slots[0].state if people else None)

    def memory(view: GpuView) -> str | None:
        if view.memory_used_bytes is None:
            return None
        total = f"/{short_size(view.memory_bytes)}" if view.memory_bytes else ""
        return f"{short_size(view.memory_used_bytes)}{total}"

    return (
        Column("GPU", "uuid", text=lambda uuid: names.get(uuid, str(uuid))),
        Column("MODEL", "model", text=short_model),
        Column("HOLDER", holders),
        Column("USE", "utilization_percent", text=lambda percent: f"{bar(percent)} {percent:3d}%"),
        Column("MEMORY", memory),
        Column("PROCESSES", lambda view: None if view.processes is None else len(view.processes)),
        Column("VERDICT", "verdict"),
        Column("LEASE", until, text=lambda at: left(at, now=scene.moment)),
        Column("HEALTH", "health", wide=True),
    )


def bar(percent: int, *, width: int = 10) -> str:
    """A share as a bar of plain letters."""
    full = round(min(max(percent, 0), 100) * width / 100)
    return "#" * full + "." * (width - full)


def _watch(out: Output, every: int) -> None:
    """Draw, wait for a key or the next look, draw again."""
    from rich.console import Console  # noqa: PLC0415 -- for terminals only
    from rich.live import Live  # noqa: PLC0415

    from lxgpu.cli import looks  # noqa: PLC0415

    colored = out.screen.colored(sys.stdout)
    console = Console(no_color=not colored, highlight=False)
    with suppress(KeyboardInterrupt), _keys(), Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            live.update(_frame(looks.scene(out.screen, quiet=True), form=out.form), refresh=True)
            if select.select([sys.stdin], [], [], every)[0] and _ends(os.read(sys.stdin.fileno(), 64)):
                return


def _ends(keys: bytes) -> bool:
    """Whether one of the keys ends it; so does a terminal that has gone."""
    return not keys or bool(_ENDS & set(keys))


def _frame(scene: Scene, *, form: str) -> RenderableType:
    from rich.console import Group  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    from lxgpu.cli.screen import tame  # noqa: PLC0415

    shown = [column for column in top_columns(scene, form=form) if form == "wide" or not column.wide]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in shown:
        table.add_column(column.header, no_wrap=True)
    for view in scene.cards.views:
        table.add_row(*(Text(tame(column.cell(view))) for column in shown))
    said = scene.look.readings.error if scene.look is not None else None
    notes = [Text(tame(f"NVML does not answer: {said}"))] if said else []
    return Group(Text(headline_of(scene), style="bold"), table, *notes, Text("q ends", style="dim"))


@contextmanager
def _keys() -> Iterator[None]:
    """Keys one by one, without an echo, and the terminal as it was afterwards."""
    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setcbreak(sys.stdin)
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
