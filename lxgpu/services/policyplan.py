"""A rehearsal of an edit of the policy: what it would do to those who have cards, bookings and requests now."""

from __future__ import annotations

from dataclasses import replace

from lxgpu.errors import LxgpuError
from lxgpu.model.quota import Policy
from lxgpu.model.snapshot import Snapshot
from lxgpu.policy.policyplan import Effect, at_odds, effects_of, owners_of
from lxgpu.services import observe, waitline
from lxgpu.services.site import Site
from lxgpu.services.tick import look

_AWAY = frozenset({"unavailable", "outcome_unknown", "engine"})


def plan_policy(site: Site, new: Policy | None) -> tuple[Effect, ...]:
    """What the new policy would do; without one, what the living have that the policy in force would not give them.

    While LXD does not answer, what the inventory remembers is looked at, which is said.
    """
    snapshot = _snapshot(site)
    owners = owners_of(snapshot.records)
    snapshot = replace(snapshot, unix_groups={name: site.unix_groups(name) for name in owners})
    return at_odds(snapshot) if new is None else effects_of(snapshot, new)


def _snapshot(site: Site) -> Snapshot:
    records = site.inventory.read()
    try:
        seen = observe.look(site, readings=True)
    except LxgpuError as error:
        if error.code not in _AWAY:
            raise
        site.say(f"{error.brief}; what is told is by what the inventory knows")
        return waitline.remembered(records, site.policy(), host=site.host, now=site.clock.now())
    return look(site, seen, records)
