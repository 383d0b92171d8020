"""Does the inventory agree with LXD? Findings with their remedies; nothing is changed."""

from __future__ import annotations

from lxgpu.model.snapshot import Observation
from lxgpu.policy.drift import Finding, findings
from lxgpu.policy.lent import lent
from lxgpu.services import observe
from lxgpu.services.identity import identity_of
from lxgpu.services.site import Site


def verify(site: Site, seen: Observation | None = None) -> tuple[Finding, ...]:
    """Every difference between the inventory, the identity in LXD, and what LXD shows."""
    seen = seen or observe.look(site, readings=True)
    records, theirs = site.inventory.read(), identity_of(site.engine.server().promises)
    found = list(findings(records, lent(seen, records)))
    if theirs is not None and theirs != records.identity:
        mine = f"{records.identity.inventory} epoch {records.identity.epoch}" if records.identity else "none"
        text = f"LXD says {theirs.inventory} epoch {theirs.epoch}, the database says {mine}"
        found.insert(0, Finding("identity", site.host, text, "lxgpu inventory rebuild"))
    return tuple(found)
