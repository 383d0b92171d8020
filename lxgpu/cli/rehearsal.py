"""The end of `--dry-run`: the plan on stdout, and the error that the real thing would end with now."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lxgpu.cli.render import Output
    from lxgpu.model.plan import Plan
    from lxgpu.model.quota import Policy


def rehearsed(out: Output, policy: Policy, *plans: tuple[str, Plan]) -> None:
    """Write the plans, each with what it is for; of several that would be refused the gravest one's error counts.

    Raises:
        LxgpuError: the refusal.
    """
    from lxgpu.cli.failure import with_fix  # noqa: PLC0415
    from lxgpu.services.refusal import refusal  # noqa: PLC0415

    errors = [refusal(plan, what, policy) for what, plan in plans]
    for (_, plan), error in zip(plans, errors, strict=True):
        out.plan(plan, error=with_fix(error, ()) if error is not None else None)
    refused = [error for error in errors if error is not None]
    if refused:
        raise min(refused, key=lambda error: error.status)
