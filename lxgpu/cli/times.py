"""Times for people: in the lab's zone, or as what is left."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import TYPE_CHECKING

from lxgpu.cli.instance_columns import left
from lxgpu.cli.screen import Screen
from lxgpu.errors import LxgpuError
from lxgpu.instants import show_instant

if TYPE_CHECKING:
    from lxgpu.model.quota import Policy


@dataclass(frozen=True, slots=True)
class Times:
    """The time at which a command looks, and the lab's zone."""

    now: datetime
    zone: tzinfo
    screen: Screen | None = None
    """Where the zone is to be said once, below what is shown."""

    def show(self, at: datetime) -> str:
        """A point in time: `18:00`, `tomorrow 09:00`, `2027-05-01 09:00`."""
        if self.screen is not None:
            self.screen.zone = str(self.zone)
        return show_instant(at, now=self.now, zone=self.zone)

    def moment(self, at: datetime) -> str:
        """A moment of the past: with its seconds today (`18:00:07`), so that a story of seconds can be read."""
        local = at.astimezone(self.zone)
        text, clock = self.show(at), f"{local:%H:%M}"
        return f"{local:%H:%M:%S}" if text == clock else text

    def until(self, at: datetime) -> str:
        """The end of a lease: `18:00 (3h59m)`, or that it is over."""
        return f"{self.show(at)} ({left(at, now=self.now)})"


def lab_times(screen: Screen) -> tuple[Times, Policy | None]:
    """Now in the lab's zone, and the policy in force; without one times are in UTC, which is said."""
    from lxgpu import wiring  # noqa: PLC0415 -- not for --help

    try:
        policy = wiring.policy(screen.warn)
    except LxgpuError as error:
        if error.code != "bad_file":
            raise
        screen.warn(f"times are in UTC, since there is no policy that holds: {error.brief}")
        return Times(now=datetime.now(UTC), zone=UTC, screen=screen), None
    return Times(now=datetime.now(UTC), zone=policy.zone, screen=screen), policy
