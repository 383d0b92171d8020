"""`lxgpu explain`: what an error code means."""

from __future__ import annotations

import click

from lxgpu.cli import params
from lxgpu.cli.render import Column, Output
from lxgpu.errors import CATALOGUE, LxgpuError

COLUMNS = (Column("CODE", "code"), Column("EXIT", "exit_status"), Column("MEANING", "text"))


@click.command()
@click.argument("code", required=False)
@params.output
def explain(out: Output, code: str | None) -> None:
    """Explain an error CODE, or list them all.

    The code is the word in brackets: that of `error[no_capacity]` is no_capacity.
    """
    entries = [
        {"code": name, "exit_status": int(entry.status), "text": entry.text} for name, entry in CATALOGUE.items()
    ]
    if code is None:
        out.items("codes", entries, COLUMNS)
        return
    word = code.removeprefix("error[").removesuffix("]")
    known = next((entry for entry in entries if entry["code"] == word), None)
    if known is None:
        raise LxgpuError("not_found", f"there is no error code {word!r}", fix="`lxgpu explain` lists them")
    out.item("codes", known, COLUMNS)
