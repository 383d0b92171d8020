"""`lxgpu config`: the settings, and where each one comes from."""

from __future__ import annotations

import click

from lxgpu.cli import params
from lxgpu.cli.render import Column, Output


@click.group()
def config() -> None:
    """Show the settings and where each comes from."""


@config.command()
@click.option("--origin", is_flag=True, help="Also where each value came from: default, FILE:LINE, variable or flag.")
@params.output
def show(out: Output, *, origin: bool) -> None:
    """Show all settings, with what each is for (-o wide).

    A setting comes from a flag, else from its LXGPU_* variable, else from config.yaml, else it has its default.
    """
    from lxgpu.config.settingsview import settings_rows  # noqa: PLC0415 -- not for --help
    from lxgpu.wiring import settings  # noqa: PLC0415

    columns = (
        Column("SETTING", "key"),
        Column("VALUE", "value"),
        Column("ORIGIN", "origin", wide=not origin),
        Column("VARIABLE", "variable", wide=True),
        Column("WHAT FOR", "help", wide=True),
    )
    out.items("settings", settings_rows(settings()), columns)
