"""Out of the trash: a deleted container comes back under its old name, with its home, a port and keys."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime

from lxgpu.config.keys import PublicKey, parse_keys
from lxgpu.errors import LxgpuError
from lxgpu.model import devices
from lxgpu.model.instance import Instance, InstanceState, Key, Sighting
from lxgpu.model.plan import Plan, PlannedStep, Reason, Verdict
from lxgpu.model.snapshot import Snapshot
from lxgpu.policy.lookup import own_machine
from lxgpu.ports import Change, Tx
from lxgpu.services import instances, making, observe, power
from lxgpu.services.begin import decided, make_way, new_operation
from lxgpu.services.identity import ensure_identity, mirror_promises
from lxgpu.services.keyring import keys_for
from lxgpu.services.leaving import TRASH
from lxgpu.services.lending import known_instance
from lxgpu.services.operations import LOCK_WAIT_S, carry_out
from lxgpu.services.provision import Ground, free_address, look_at_ground, taken_addresses
from lxgpu.services.recipes import Recipe, Step, Work
from lxgpu.services.refusal import raise_if_refused
from lxgpu.services.site import Site
from lxgpu.services.wanted import KEY_HOLDS, KEY_INSTANCE, KEY_PERSON, instance_text

_EVENTS = 100_000


def out_of_trash(work: Work) -> None:
    """Its old name in LXD."""
    _rename(work, work.text("trash"), work.name)
    _move_folder(work, work.text("trash"), work.name)


def confirm(work: Work) -> None:
    """It is in use again."""
    with work.site.write() as tx:
        row = tx.records.instance(work.name)
        if row is not None and row.state is InstanceState.CREATING:
            tx.put(replace(row, state=InstanceState.READY, engine_name=""))
            tx.event("brought_back", work.name, detail={"trash": work.text("trash")})


def into_trash(work: Work) -> None:
    """Undo: stopped, without home and port, under the name it had in the trash."""
    site, row, trash = work.site, work.instance(), work.text("trash")
    if site.engine.instance(work.name) is not None:
        instances.by_uuid(site, work.name)
        site.engine.stop(work.name, timeout_s=0, force=True)
        marks = {KEY_INSTANCE: instance_text(_in_trash(work, row)), KEY_HOLDS: "[]"}
        instances.put(
            site,
            work.name,
            lambda _: Change(config=marks, devices={"home": None, "ssh": None, "lxgpu": None}),
            read=instances.by_uuid,
        )
    _rename(work, work.name, trash)
    _move_folder(work, work.name, trash)


def _move_folder(work: Work, old: str, new: str) -> None:
    """The host's folder of the container goes along; without it the container has an empty one."""
    try:
        work.site.board.move(old, new)
    except LxgpuError as error:
        work.site.say(f"its folder on the host stays: {error.brief}")


def rows_back(work: Work) -> None:
    """Undo: the inventory has it in the trash again, and its keys are closed."""
    with work.site.write() as tx:
        row = tx.records.instance(work.name)
        if row is None:
            return
        tx.drop(row)
        tx.put(_in_trash(work, row))
        for key in tx.records.keys:
            if key.person == row.owner and key.fingerprint in work.texts("keys_new"):
                tx.drop(key)
        tx.event("bringing_back_undone", work.name, detail={"why": work.operation.error})


UNTRASH = Recipe(
    kind="untrash",
    steps=(
        Step("rename", "", out_of_trash),
        Step("volume", "home volume", making.volume),
        Step("configure", "", power.in_line),
        Step("start", "starting", making.start),
        Step("account", "account and SSH login", making.account),
        Step("verify", "", making.verify),
        Step("confirm", "", confirm),
    ),
    undo=(Step("trash", "putting it back into the trash", into_trash), Step("rows", "", rows_back)),
)


def _carried_keys(seen: Sighting) -> tuple[PublicKey, ...]:
    """The keys its person had when it was deleted, as it still carries them."""
    return parse_keys("\n".join(json.loads(seen.config.get(KEY_PERSON, "{}")).get("keys", ())))


def plan_untrash(site: Site, trash: str) -> Plan:
    """What bringing a container back would do, or what stands against it; nothing is written."""
    row, name = known_instance(site, trash), old_name(site, trash)
    return _decide(observe.snapshot(site), row, name)


def untrash(site: Site, trash: str) -> str:
    """Bring a container back from the trash, without cards; gives the name it has then."""
    ensure_identity(site)
    row, name = known_instance(site, trash), old_name(site, trash)
    snapshot, ground = observe.snapshot(site), look_at_ground(site, row.owner)
    raise_if_refused(_decide(snapshot, row, name), f"adopt {trash}", snapshot.policy)
    seen = instances.by_uuid(site, trash)
    keys = _carried_keys(seen) or keys_for(site, row.owner)

    def write(tx: Tx, now: Snapshot) -> str:
        make_way(tx, now, trash)
        make_way(tx, now, name)
        current = now.records.instance(trash)
        raise_if_refused(_decide(now, current or row, name), f"adopt {trash}", now.policy)
        old = {key.fingerprint for key in now.records.keys if key.person == row.owner}
        fresh = [
            Key(person=row.owner, fingerprint=key.fingerprint, line=key.text, added_at=now.now)
            for key in keys
            if key.fingerprint not in old
        ]
        args = {
            "trash": trash,
            "keys_new": [key.fingerprint for key in fresh],
            "deleted_at": row.deleted_at.isoformat() if row.deleted_at else "",
        }
        operation = new_operation(site, kind="untrash", instance=name, args=args)
        tx.drop(row)
        tx.put(_row(row, name, address=_address(now, seen, ground)), *fresh, operation)
        return operation.id

    with site.locks.hold(trash, wait_s=LOCK_WAIT_S) as held:
        if not held:
            raise LxgpuError("conflict", f"another lxgpu is at work on {trash}", fix="repeat in a moment")
        carry_out(site, UNTRASH, name, lambda: decided(site, snapshot, write), gpus=snapshot.seen.gpus)
    mirror_promises(site)
    return name


def old_name(site: Site, trash: str) -> str:
    """The name that a container had before it was deleted: by the history, since names are numbered and cut there."""
    plain = trash.removeprefix(TRASH)
    deleted = (event for event in site.inventory.events(limit=_EVENTS) if event.kind == "deleted")
    return next((event.subject for event in deleted if event.detail.get("trash") == trash), plain)


def _decide(now: Snapshot, row: Instance, name: str) -> Plan:
    reasons = []
    if now.records.instance(row.name) is None or row.state is not InstanceState.TRASHED:
        reasons.append(Reason("not_ready", f"{row.name} is not in the trash"))
    if now.records.instance(name) is not None or now.seen.sighting(name) is not None:
        reasons.append(Reason("exists", f"there is a container {name} again"))
    other = own_machine(now.records.instances, row.owner, but=name)
    if other is not None:
        reasons.append(Reason("exists", f"{row.owner} has the container {other.name} on this host already"))
    if reasons:
        return Plan(decision=Verdict.REFUSED, reasons=tuple(reasons))
    why = "with its home; cards have to be asked for anew"
    return Plan(
        decision=Verdict.GRANTED,
        steps=(
            PlannedStep("bring_back", row.name, why=f"as {name}, {why}"),
            PlannedStep("start", name),
            PlannedStep("verify", name, why="SSH login through the published port"),
        ),
    )


def _row(row: Instance, name: str, *, address: str) -> Instance:
    return replace(
        row,
        name=name,
        engine_name=row.name,
        state=InstanceState.CREATING,
        address=address,
        hwaddr=devices.hwaddr_for(address),
        running=True,
        deleted_at=None,
        reason="",
    )


def _in_trash(work: Work, row: Instance) -> Instance:
    """The row as it was in the trash."""
    text = work.text("deleted_at")
    at = datetime.fromisoformat(text) if text else work.operation.created_at
    return replace(
        row,
        name=work.text("trash"),
        engine_name="",
        state=InstanceState.TRASHED,
        deleted_at=at,
        running=False,
        address="",
        hwaddr="",
    )


def _address(now: Snapshot, seen: Sighting, ground: Ground) -> str:
    """The address it had, if nobody has it now."""
    before = seen.devices.get("eth0", {}).get("ipv4.address", "")
    return before if before and before not in taken_addresses(now, but=seen.name) else free_address(now, ground)


def _rename(work: Work, old: str, new: str) -> None:
    """LXD's name from one to the other; whatever LXD answers, what is there afterwards counts."""
    engine, uuid = work.site.engine, work.instance().uuid
    seen = engine.instance(old)
    if seen is None or seen.uuid != uuid:
        _ensure_at(work, new)
        return
    try:
        engine.rename(old, new)
    except LxgpuError:
        instances.settle(work.site, old)
        found = engine.instance(new)
        if found is None or found.uuid != uuid:
            raise


def _ensure_at(work: Work, name: str) -> None:
    seen = work.site.engine.instance(name)
    if seen is None or seen.uuid != work.instance().uuid:
        raise LxgpuError(
            "missing", f"LXD has no instance {name} of ours any more", fix="lxgpu inventory verify says what is there"
        )
