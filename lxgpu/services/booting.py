"""After a boot of the host: whose programs ended with it learns so, once."""

from __future__ import annotations

from lxgpu.model.instance import InstanceState
from lxgpu.model.operation import Event
from lxgpu.model.snapshot import Observation
from lxgpu.services.notices import notice
from lxgpu.services.site import Site

BOOTED = "booted"
_HISTORY = 1000


def note_boot(site: Site, seen: Observation) -> int:
    """Write a boot down that is new, and tell who held cards in a container that was to run; gives how many.

    The first one that is ever seen tells nobody: what was before it is not known.
    """
    if not seen.boot_id or site.watch.boot_id == seen.boot_id:
        return 0
    told = 0 if _is(_last(site), seen) else _note(site, seen)
    site.watch.boot_id = seen.boot_id
    return told


def _note(site: Site, seen: Observation) -> int:
    """Asked for again within the transaction: of two processes that see the same boot one tells."""
    now = site.clock.now()
    with site.write() as tx:
        before = _last(site)
        if _is(before, seen):
            return 0
        rows = []
        for row in tx.records.instances if before is not None else ():
            held = tx.records.held_by(row.name)
            if row.state is InstanceState.READY and row.running and held:
                facts = {"at": now, "gpus": [one.slot.gpu for one in held]}
                rows.append(notice("restarted", instance=row.name, person=row.owner, facts=facts, now=now))
        tx.put(*rows)
        tx.event(BOOTED, site.host, detail={"boot_id": seen.boot_id, "told": [row.instance for row in rows]})
    return len(rows)


def _last(site: Site) -> Event | None:
    return next((one for one in site.inventory.events(subject=site.host, limit=_HISTORY) if one.kind == BOOTED), None)


def _is(event: Event | None, seen: Observation) -> bool:
    return event is not None and event.detail.get("boot_id") == seen.boot_id
