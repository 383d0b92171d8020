"""On which host cards are kept for the first in the queue; all the others may lend theirs at once."""

from __future__ import annotations

from collections.abc import Iterable

from lxgpu.policy.routing import host_to_keep
from lxgpu.simulate.floor import Floor
from lxgpu.simulate.site import Site


class Kept:
    """Says after each change which hosts are to be looked at again."""

    def __init__(self, floor: Floor, site: Site) -> None:
        self._floor, self._site = floor, site

    def keep_for(self, first: str) -> Iterable[int]:
        """Somebody is first in the queue now: of all hosts that have free cards, one keeps them."""
        site = self._site
        row = site.reservation(first)
        if row is None or first in site.shadows:
            return ()
        host = host_to_keep([site.snapshot(host) for host in site.hosts], row)
        site.shadows = {**site.shadows, first: host}
        return [host for host in site.hosts if self._floor.free[host]]

    def no_more(self) -> Iterable[int]:
        """What was kept for those who wait no more may be lent."""
        site = self._site
        over = {name: host for name, host in site.shadows.items() if not site.waits(name)}
        if over:
            site.shadows = {name: host for name, host in site.shadows.items() if name not in over}
        return map(site.number, over.values())
