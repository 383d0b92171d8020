"""On which of several hosts a new container is made when its owner does not mind."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lxgpu.errors import LxgpuError
from lxgpu.model.plan import Verdict
from lxgpu.model.request import CreateRequest
from lxgpu.model.snapshot import Snapshot
from lxgpu.policy.placement import free_cards
from lxgpu.services import provision
from lxgpu.services.site import Site


@dataclass(frozen=True, slots=True)
class Offer:
    """A host that can have it now: the fewer cards stay free there, the fewer are broken into for it."""

    free: int
    containers: int
    place: int
    site: Site


def best_host(sites: Iterable[Site], request: CreateRequest) -> Site | None:
    """Where a container is to be made: with cards the host that keeps the fewest free, else the one with the fewest.

    Hosts that do not answer, or that would refuse it, are left out; None: there is no other, or none at all.
    """
    offers = []
    for place, site in enumerate(sites):
        try:
            snapshot, _, decision = provision.plan(site, request)
        except LxgpuError as error:
            site.say(f"{site.host} is left out: {error.brief}")
            continue
        if decision.decision is Verdict.GRANTED:
            offers.append(_offer(place, site, snapshot, cards=request.gpus.more))
    return min(offers, key=lambda one: (one.free, one.containers, one.place)).site if offers else None


def _offer(place: int, site: Site, snapshot: Snapshot, *, cards: int) -> Offer:
    return Offer(len(free_cards(snapshot)) if cards else 0, len(snapshot.records.instances), place, site)
