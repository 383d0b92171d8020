"""What is shown of the host to containers: one look that all of them share for a moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lxgpu.errors import LxgpuError
from lxgpu.model.gpu import Slot
from lxgpu.model.snapshot import Observation
from lxgpu.model.usage import IdleVerdict
from lxgpu.services import observe
from lxgpu.services.site import Site

_OUT = frozenset({"unavailable", "outcome_unknown", "engine"})


@dataclass(frozen=True, slots=True)
class World:
    """What LXD and the samples showed; nothing while LXD does not answer. `at` is a second of the steady clock."""

    at: float
    seen: Observation | None
    verdicts: Mapping[Slot, IdleVerdict]


def looked(site: Site, at: float) -> World:
    """Look now."""
    from lxgpu.services.sampling import judge_all  # noqa: PLC0415 -- loaded when somebody asks

    try:
        seen = observe.look(site)
    except LxgpuError as error:
        if error.code not in _OUT:
            raise
        return World(at, None, {})
    return World(at, seen, judge_all(site, seen, site.inventory.read(), site.policy()))
