"""The option `--mig`: one MIG slice, for commands that take `--gpus` too."""

from __future__ import annotations

import re

import click

from lxgpu.cli.params import Checked, GpuCount
from lxgpu.errors import LxgpuError
from lxgpu.figures import quoted


def _slice_count(text: str) -> GpuCount:
    from lxgpu.model.gpu import PROFILE  # noqa: PLC0415 -- when there is one to read

    if not re.fullmatch(PROFILE, text):
        why = "a MIG profile is written like 3g.20gb; lxgpu gpus tells those there are"
        raise LxgpuError("usage", f"{quoted(text)} is no MIG profile", why=why, fix="--mig 1g.10gb")
    return GpuCount(number=1, more=False, part=text)


option = click.option(
    "--mig",
    "sliced",
    type=Checked("profile", _slice_count),
    metavar="PROFILE",
    help="One MIG slice of a card, as 1g.10gb.",
)
"""Asks for a MIG slice, as a `GpuCount` of one part."""


def counted(count: GpuCount | None, sliced: GpuCount | None) -> GpuCount | None:
    """What `--gpus` or `--mig` asks for; None: neither was given. Error `usage`: both were."""
    if count is not None and sliced is not None:
        raise LxgpuError("usage", "--mig means one MIG slice, so --gpus says too much", fix="leave one of the two out")
    return count or sliced
