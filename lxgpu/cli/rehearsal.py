"""The end of `--dry-run`: the plan on stdout, and the exit status that the real thing would have now."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from lxgpu.cli.render import Output
    from lxgpu.model.plan import Plan


def rehearsed(out: Output, *plans: Plan) -> None:
    """Write the plans; of several that would be refused the gravest one's status counts."""
    from lxgpu.services.refusal import status_of  # noqa: PLC0415

    for plan in plans:
        out.plan(plan)
    refused = [status for plan in plans if (status := status_of(plan))]
    if refused:
        click.get_current_context().exit(min(refused))
