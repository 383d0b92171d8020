"""A lost inventory made again from LXD alone: what the instances carry, and what the server's configuration promises.

The epoch rises first, so that a process that still writes from the old inventory stops at its next write. A rebuild
destroys nothing: what it cannot judge it keeps, and says.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from lxgpu.errors import LxgpuError
from lxgpu.model.gpu import WHOLE, Slot
from lxgpu.model.instance import Instance, InstanceState
from lxgpu.model.operation import Identity
from lxgpu.model.snapshot import Observation, Row
from lxgpu.policy.exclusivity import holdings
from lxgpu.policy.lent import lent
from lxgpu.ports import Change, Server, Tx
from lxgpu.services import instances, observe
from lxgpu.services.configure import configure, picture, set_rule
from lxgpu.services.identity import KEY_EPOCH, KEY_INVENTORY, declare, identity_of
from lxgpu.services.readback import Found, read_back
from lxgpu.services.site import Site
from lxgpu.services.slicing import any_sliced, settle_slices


def rebuild(site: Site) -> Found:
    """Make the inventory again; everything in it but history is replaced.

    Error `nothing_to_rebuild`: LXD carries no inventory's mark.
    """
    server = site.engine.server()
    theirs, mine = identity_of(server.promises), site.inventory.read().identity
    if theirs is None:
        raise LxgpuError(
            "nothing_to_rebuild",
            "this LXD server has no containers of lxgpu",
            why="its configuration carries no inventory",
            fix="lxgpu create NAME begins a new inventory",
        )
    epoch = max(theirs.epoch, mine.epoch if mine else 0) + 1
    identity = Identity(inventory=theirs.inventory, epoch=epoch)
    site.engine.put_promises({KEY_EPOCH: str(epoch), KEY_INVENTORY: identity.inventory}, etag=server.etag)
    seen = observe.look(site)
    found = read_back(seen, server.promises, now=site.clock.now())
    with site.write() as tx:
        _replace(tx, found, identity)
        tx.event("rebuilt", site.host, detail={"instances": len(found.instances), "troubles": found.troubles})
    _find_slices(site, seen)
    _stamp(site, seen, found.instances, identity)
    return found


def preview(site: Site) -> Found:
    """What a rebuild would find; nothing is written."""
    return read_back(observe.look(site), site.engine.server().promises, now=site.clock.now())


def take_over(site: Site) -> Identity:
    """An inventory that was imported or restored takes charge: a new epoch in LXD, in the database, on every instance.

    Error `other_inventory`: LXD belongs to an inventory of another id.
    """
    server = site.engine.server()
    theirs, mine = identity_of(server.promises), site.inventory.read().identity
    check_own(server, mine)
    known = theirs or mine or Identity(inventory=uuid.uuid4().hex, epoch=0)
    epoch = max(known.epoch, mine.epoch if mine else 0) + 1
    identity = Identity(inventory=known.inventory, epoch=epoch)
    declare(site, identity, server)
    with site.write() as tx:
        for slot in tx.records.slots:
            tx.put(replace(slot, proven_at=None))  # a proof from before says nothing of who had the card since
    seen = observe.look(site)
    _stamp(site, seen, [row for row in site.inventory.read().instances if seen.sighting(row.name)], identity)
    return identity


def check_own(server: Server, rows: Identity | None) -> None:
    """Error `other_inventory` when rows come from the inventory of another LXD server; nothing is written."""
    theirs = identity_of(server.promises)
    if theirs is not None and rows is not None and theirs.inventory != rows.inventory:
        raise LxgpuError(
            "other_inventory",
            "this inventory was never the one of this LXD server",
            why=f"LXD says {theirs.inventory}, the rows say {rows.inventory}",
            fix="lxgpu inventory rebuild makes the one that LXD carries",
        )


def _replace(tx: Tx, found: Found, identity: Identity) -> None:
    old = tx.records
    housed = {row.owner for one in old.elsewhere for row in one.instances}  # they have a container on another host
    rows: Iterable[Row] = (
        *old.assignments,
        *old.borrowings,
        *old.operations,
        *old.reservations,
        *old.keeps,
        *old.slots,
        *(row for row in old.keys if row.person not in housed),
        *old.instances,
        *(row for row in old.persons if row.name not in housed),
    )
    for row in rows:
        tx.drop(row)
    tx.identify(identity)
    tx.put(*found.rows())


def _stamp(site: Site, seen: Observation, rows: Iterable[Instance], identity: Identity) -> None:
    """The new epoch on every instance of ours, so that an old writer meets it, and the rule as the rows have it.

    Cards that an instance shows and the rows do not give it stay where they are: to take them is for `mend`, which
    ends what holds them, and proves them. A release that was cut short had set the rule already.
    """
    seen, shown = lent(seen, site.inventory.read()), defaultdict[str, set[Slot]](set)
    for one in holdings(seen):
        if one.ours and one.project == "default":
            shown[one.instance].add(Slot(one.uuid))
    for row in rows:
        if row.state in {InstanceState.READY, InstanceState.SUSPENDED}:
            wanted = picture(site, row.name, gpus=seen.gpus)
            parts = {slot.card for slot in wanted.usable if slot.part != WHOLE}
            beside = {slot for slot in shown[row.name] if slot.card not in parts}
            now = configure(site, wanted, operation="rebuild", attached=wanted.usable | beside)
            set_rule(site, wanted, now)
        else:
            instances.put(site, row.name, _epoch_change(str(identity.epoch)))


def _find_slices(site: Site, seen: Observation) -> None:
    """Which MIG slice is whose is known before anything is written to the containers that use them."""
    snapshot = observe.of(site, seen, site.inventory.read())
    try:
        if any_sliced(snapshot):
            settle_slices(site, snapshot)
    except LxgpuError as error:
        site.say(f"MIG slices are not to be had until the daemon finds them: {error.brief}")


def _epoch_change(epoch: str) -> instances.Build:
    return lambda _: Change(config={KEY_EPOCH: epoch})
