"""What everybody who looks is told besides: that nothing is taken now, or that the policy file is not in force."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from lxgpu.errors import LxgpuError

if TYPE_CHECKING:
    from lxgpu.cli.screen import Screen
    from lxgpu.cli.times import Times
    from lxgpu.services.statusfile import PauseView


def say_pause(screen: Screen, times: Times | None = None) -> None:
    """One line while the daemon is paused, with who did it, since when, why, and what ends it."""
    from lxgpu import wiring  # noqa: PLC0415 -- not for --help
    from lxgpu.cli.times import lab_times  # noqa: PLC0415
    from lxgpu.services.pausing import paused  # noqa: PLC0415

    found = paused(wiring.settings().run_dir)
    if found is not None:
        screen.warn(pause_line(found, times or lab_times(screen)[0]))


def pause_line(pause: PauseView, times: Times) -> str:
    """`paused by root since 18:04 (maintenance): nothing is taken until lxgpu daemon resume`."""
    return (
        f"paused by {pause.who} since {times.show(pause.when)} ({pause.why}):"
        " nothing is taken until lxgpu daemon resume"
    )


def say_news(screen: Screen) -> None:
    """A pause and a broken policy file; a host that never had a policy has nothing to say."""
    from datetime import UTC, datetime  # noqa: PLC0415 -- not for --help

    from lxgpu import wiring  # noqa: PLC0415
    from lxgpu.cli.times import Times  # noqa: PLC0415

    zone = None
    try:
        zone = wiring.policy(screen.warn).zone
    except LxgpuError as error:
        if error.code != "bad_file":
            raise
        if wiring.settings().policy.exists():
            screen.warn(f"there is no policy that holds (lxgpu policy check): {error.brief}")
    say_pause(screen, Times(now=datetime.now(UTC), zone=zone or UTC))


def start_daemon() -> str:
    """What starts the daemon here: a lab has no unit of systemd."""
    return "lxgpu daemon run" if os.environ.get("LXGPU_LAB") else "systemctl start lxgpu, or lxgpu daemon run"
