"""The lab divided for good: each group has its own servers, and its own line for them, first come first served."""

from __future__ import annotations

from lxgpu.model.quota import Policy
from lxgpu.simulate.floor import Floor
from lxgpu.simulate.jobs import Lab, Workload
from lxgpu.simulate.rules.line import Fifo
from lxgpu.simulate.shares import owned_servers


class Static:
    """Servers that are bought and used by one group: what one leaves free is no use to another.

    No project's code is followed; it is what labs do that have no scheduler, and what owners compare with. A job that
    is larger than all of its group's servers is turned away.
    """

    def __init__(self, floor: Floor, parts: dict[str, int]) -> None:
        """`parts`: which of the floor's rooms each group has."""
        self._jobs = floor.jobs
        self._of = {group: Fifo(floor, part) for group, part in parts.items()}
        self._stirred: dict[str, None] = {}

    def asked(self, job: int) -> None:
        """It goes to the end of its group's line."""
        group = self._jobs[job].group
        self._of[group].asked(job)
        self._stirred[group] = None

    def ended(self, job: int) -> None:
        """Its group may go on."""
        self._stirred[self._jobs[job].group] = None

    def turned(self, job: int) -> None:
        """What a card does is no matter here."""

    def decide(self) -> None:
        """In each group that something happened to, the first ones start as long as they fit."""
        for group in self._stirred:
            self._of[group].decide()
        self._stirred.clear()


def static(workload: Workload, lab: Lab, policy: Policy | None) -> tuple[Floor, Static]:
    """Each group on its own servers."""
    shares = owned_servers(workload, lab, policy)
    floor = Floor(workload.jobs, lab, tuple(shares.values()))
    return floor, Static(floor, {group: part for part, group in enumerate(shares)})
