"""The Snapshot that a question is answered from: things as they are now, or as they are remembered."""

from __future__ import annotations

from collections.abc import Callable

from lxgpu.errors import LxgpuError
from lxgpu.model.snapshot import Records, Snapshot
from lxgpu.services import observe
from lxgpu.services.site import Site
from lxgpu.services.tick import look
from lxgpu.services.waitline import remembered

_AWAY = frozenset({"unavailable", "outcome_unknown", "engine"})


def present(site: Site, records: Records, warn: Callable[[str], None]) -> Snapshot:
    """What a decision would look at now; what the inventory remembers, while LXD does not answer (`warn` says so)."""
    try:
        seen = observe.look(site, readings=True)
    except LxgpuError as error:
        if error.code not in _AWAY:
            raise
        warn(f"{error.brief}; what is told is what the inventory knows")
        return remembered(records, site.policy(), host=site.host, now=site.clock.now())
    return look(site, seen, records)
