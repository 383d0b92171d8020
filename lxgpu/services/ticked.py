"""What one tick answers, and how it is called: the seam between the tick and the loop around it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from lxgpu.services.site import Site


@dataclass(frozen=True, slots=True)
class Ticked:
    """One pass over everything.

    `next_at` is the first instant at which something is due (a grace that ends, a booking that starts); None: nothing
    is. `did` counts what was changed. `troubles` are the parts that failed, in the same words as long as they fail:
    the loop says each once. `failed` are the names of these parts, a few words of lxgpu's own, to be counted.
    """

    at: datetime
    next_at: datetime | None = None
    did: int = 0
    troubles: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


class Tick(Protocol):
    """One pass: observe, decide, write, apply, confirm.

    Errors: any `LxgpuError`, after which the next tick goes on from what is there; `superseded`, `other_inventory` and
    `inventory_newer` mean that this process must not change anything any more.
    """

    def __call__(self, site: Site, *, paused: bool = False) -> Ticked:
        """Do what is due; `paused`: finish what is begun and take nothing new."""
