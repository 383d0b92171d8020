"""Which inventory speaks for this LXD: the identity in its configuration, and the epoch that stops old writers."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping

from lxgpu.errors import LxgpuError
from lxgpu.model.instance import InstanceState
from lxgpu.model.operation import Identity
from lxgpu.model.snapshot import Records
from lxgpu.ports import Server
from lxgpu.services.promised import plain
from lxgpu.services.site import Site

KEY_INVENTORY = "user.lxgpu.inventory"
KEY_EPOCH = "user.lxgpu.epoch"
KEY_PROMISES = "user.lxgpu.promises"
REBUILD = "lxgpu inventory rebuild"
FIRST_USE = "@identity"
"""The lock of whoever looks whether this is the first use; no instance can have this name."""
FIRST_USE_S = 30.0


def ensure_identity(site: Site, server: Server | None = None) -> Identity:
    """The identity under which changes may be made now; the first use of an LXD sets it.

    Errors: `inventory_lost` (LXD knows an inventory, this database is empty), `other_inventory` (LXD belongs to
    another one), `superseded` (a newer epoch took over).
    """
    server = server or site.engine.server()
    mine = site.inventory.read().identity
    if mine is not None and mine == identity_of(server.promises):
        return mine
    with site.locks.hold(FIRST_USE, wait_s=FIRST_USE_S):  # several may be the first at once
        return _settle(site, site.engine.server())


def _settle(site: Site, server: Server) -> Identity:
    mine, theirs = site.inventory.read().identity, identity_of(server.promises)
    if mine is not None and mine == theirs:
        return mine
    if mine is None and theirs is not None:
        raise LxgpuError(
            "inventory_lost",
            "this inventory is empty, but the LXD server has containers of one",
            why=f"LXD belongs to inventory {theirs.inventory}, epoch {theirs.epoch}",
            fix=REBUILD,
        )
    _check_still_ours(mine, theirs)
    wanted = mine or Identity(inventory=uuid.uuid4().hex, epoch=1)
    with site.write() as tx:
        tx.identify(wanted)  # first here: LXD with an identity and a database without one would be a lost inventory
    declare(site, wanted, server)
    return wanted


def _check_still_ours(mine: Identity | None, theirs: Identity | None) -> None:
    """Refuse to write where another inventory, or a newer epoch of this one, is in charge."""
    if mine is None or theirs is None:
        return
    if mine.inventory != theirs.inventory:
        raise LxgpuError(
            "other_inventory",
            "this LXD server belongs to another inventory",
            why=f"LXD says {theirs.inventory}, the database says {mine.inventory}",
            fix=f"point lxgpu at the right state directory (lxgpu config show --origin), or take over: {REBUILD}",
        )
    if theirs.epoch > mine.epoch:
        raise LxgpuError(
            "superseded",
            "a newer inventory has taken over this LXD server",
            why=f"LXD says epoch {theirs.epoch}, this database has {mine.epoch}",
            fix=REBUILD,
        )


def declare(site: Site, identity: Identity, server: Server) -> None:
    """Write an identity into LXD, guarded by its ETag, and into the database."""
    keys = {KEY_INVENTORY: identity.inventory, KEY_EPOCH: str(identity.epoch)}
    site.engine.put_promises(keys, etag=server.etag)
    with site.write() as tx:
        tx.identify(identity)


def identity_of(promises: Mapping[str, str]) -> Identity | None:
    """The identity that LXD's configuration carries."""
    inventory = promises.get(KEY_INVENTORY)
    if not inventory:
        return None
    return Identity(inventory=inventory, epoch=int(promises.get(KEY_EPOCH, "0")))


def mirror_promises(site: Site) -> None:
    """Write what only the inventory knows of cards and people into LXD, so that `inventory rebuild` loses none.

    Errors: `superseded`, `other_inventory`: an old writer must not put its rows over those of who took over.
    """
    for _ in range(5):
        server = site.engine.server()
        records = site.inventory.read()  # after the server: rows that are newer than these came with another ETag
        _check_still_ours(records.identity, identity_of(server.promises))
        text = _promises(records)
        if server.promises.get(KEY_PROMISES, "{}") == text:
            return
        try:
            site.engine.put_promises({KEY_PROMISES: text}, etag=server.etag)
        except LxgpuError as error:
            if error.code != "conflict":
                raise
            continue
        return
    raise LxgpuError("conflict", "LXD's configuration changes too fast to write the promises", fix="repeat the command")


def _promises(records: Records) -> str:
    own = [row for row in records.instances if not row.throw_away]
    housed = {row.owner for row in own}
    reached = {row.owner for row in own if row.state is not InstanceState.TRASHED}
    promises: dict[str, dict[str, object]] = {
        "closed": {card.uuid: [card.closed, card.closed_by] for card in records.cards if card.closed},
        "layouts": {card.uuid: card.layout for card in records.cards if card.layout},
        "quarantined": {str(row.slot): row.quarantine for row in records.slots if row.quarantine},
        "reservations": {row.id: plain(row) for row in records.reservations},
        "keeps": {row.id: plain(row) for row in records.keeps},
        "people": {row.name: [row.uid, row.ssh_port] for row in records.persons if row.name not in housed},
        "keys": {
            row.name: sorted(lines)
            for row in records.persons
            if row.name not in reached and (lines := [key.line for key in records.keys if key.person == row.name])
        },
    }
    return json.dumps({key: value for key, value in promises.items() if value}, sort_keys=True)
