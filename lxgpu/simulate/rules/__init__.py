"""Who gets cards: what a lab would use instead, each faithful to its source, and lxgpu's own policy."""

from __future__ import annotations

from importlib import import_module
from typing import Protocol, cast

from lxgpu.model.quota import Policy
from lxgpu.simulate.engine import Rule
from lxgpu.simulate.floor import Floor
from lxgpu.simulate.jobs import Lab, Workload


class Make(Protocol):
    """Makes a floor and the rule that is played on it; without a policy the groups' own servers are computed."""

    def __call__(self, workload: Workload, lab: Lab, policy: Policy | None, /) -> tuple[Floor, Rule]:
        """For one run."""
        ...


RULES: dict[str, str] = {
    "fifo": "line:fifo",
    "fifo-skip": "line:fifo_skip",
    "sjf": "line:sjf",
    "srtf": "srtf:srtf",
    "static": "static:static",
    "slurm": "slurm:slurm",
    "kueue": "kueue:kueue",
    "culler": "culler:culler",
    "lxgpu": "ours:ours",
    "fifo-borrow": "borrow:exclusive",
    "lxgpu-borrow": "borrow:ours",
}
"""What can be played, and the module and function that makes it; a module is loaded when its rule is."""


def make(name: str) -> Make:
    """What makes the rule of that name.

    Raises:
        KeyError: there is no such rule.
    """
    module, function = RULES[name].split(":")
    return cast("Make", getattr(import_module(f"{__name__}.{module}"), function))
