"""`lxgpu probe`: this host's cards and containers for an lxgpu elsewhere; started by that, not by people."""

from __future__ import annotations

import os

import click


@click.command()
def probe() -> None:
    """Answer questions about this host's cards and containers, for an lxgpu on another host.

    It is started by that one, through SSH, and speaks lines of JSON on stdin and stdout until its input ends.
    """
    from lxgpu import hosts  # noqa: PLC0415 -- not for --help

    answers = os.dup(1)
    os.dup2(2, 1)  # whatever else is printed is no answer
    hosts.serve(0, answers)
