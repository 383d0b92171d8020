"""A rehearsal of an edit of the policy: what it would do to those who have cards, bookings and requests now."""

from __future__ import annotations

from dataclasses import replace

from lxgpu.model.quota import Policy
from lxgpu.policy.policyplan import Effect, at_odds, effects_of, owners_of
from lxgpu.services.endings import told_ends, with_ends
from lxgpu.services.present import present
from lxgpu.services.site import Site


def plan_policy(site: Site, new: Policy | None) -> tuple[Effect, ...]:
    """What the new policy would do; without one, what the living have that the policy in force would not give them.

    While LXD does not answer, what the inventory remembers is looked at, which is said.
    """
    snapshot = present(site, site.inventory.read(), site.say)
    owners = owners_of(snapshot.records)
    snapshot = replace(snapshot, unix_groups={name: site.unix_groups(name) for name in owners})
    told, rows = told_ends(site.inventory, snapshot.records), snapshot.records.instances
    snapshot = with_ends(site.inventory, snapshot, site.unix_groups, told=told, rows=rows)
    return at_odds(snapshot) if new is None else effects_of(snapshot, new)
