"""Making a throw-away container for one run, step by step: no home volume, no account, no login."""

from __future__ import annotations

from lxgpu.services import giving, instances, leaving, making, taking
from lxgpu.services.recipes import Recipe, Step, Wait, Work

NETWORK_S = 20.0
"""How long a run waits for the network inside; a program that needs none is not held up for ever."""


def network(work: Work) -> Wait | None:
    """The container has its address: what a program begins with may well be a download."""
    seen = work.site.engine.instance(work.name)
    if seen is not None and work.instance().address in seen.addresses:
        return None
    until = work.deadline(NETWORK_S)
    if work.site.clock.now() < until:
        return Wait(until)
    work.site.say(f"its network is not up after {NETWORK_S:.0f} s, and it goes on without")
    return None


def settle(work: Work) -> None:
    """Undo: nothing that its runner sent can land any more."""
    instances.settle(work.site, work.name)


RUN = Recipe(
    kind="run",
    steps=(
        Step("make", "container", making.copy),
        Step("fence", "", giving.prove),
        Step("configure", "limits, network, cards", making.configure),
        Step("start", "starting", making.start),
        Step("network", "", network),
        Step("verify", "checking cards and limits", making.verify),
        Step("confirm", "", making.confirm),
    ),
    undo=(
        Step("settle", "", settle),
        Step("back", "", giving.take_back),
        Step("remove", "removing what was made", making.remove),
        Step("detached", "", making.detached),
        Step("fence", "", taking.prove),
        Step("folder", "", leaving.put_folder),
        Step("forget", "", making.forget),
    ),
)
