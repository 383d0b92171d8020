"""Looking without being root: what the daemon published stands in for the inventory and LXD, which are closed."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from lxgpu.cli.screen import Screen
from lxgpu.errors import LxgpuError
from lxgpu.figures import short_duration

if TYPE_CHECKING:
    from lxgpu.services.statusfile import Published


def instead_of(error: LxgpuError, screen: Screen) -> Published:
    """What the daemon saw last, and how old it is, said.

    Raises:
        LxgpuError: the error itself, when it is another one than `not_allowed`, or no daemon published anything.
    """
    from lxgpu import resident  # noqa: PLC0415 -- only where the way is closed

    if error.code != "not_allowed":
        raise error
    found = resident.published()
    if found is None:
        why = (*error.why, "the daemon, which would tell everybody, has published nothing yet")
        fix = "run the command with sudo, or ask an admin to start the daemon"
        raise LxgpuError(error.code, error.brief, why=why, fix=fix) from error
    now = datetime.now(UTC)
    text = f"as the daemon saw it {short_duration(found.age_s(now))} ago"
    if found.stale(now):
        screen.warn(f"{text}; it does not run now, or hangs")
    else:
        screen.note(text)
    if found.daemon.policy.error:
        screen.warn(f"the policy file has mistakes, so the last good one holds: {found.daemon.policy.error}")
    return found
