"""Adopt: a container that was made by hand, a copy of one of ours, or one from the trash becomes one of lxgpu's."""

from __future__ import annotations

from dataclasses import replace

from lxgpu.errors import LxgpuError
from lxgpu.model.instance import Instance, InstanceState, Key, Sighting
from lxgpu.model.names import check_name, check_person
from lxgpu.model.plan import Plan, PlannedStep, Verdict
from lxgpu.model.request import GpuRequest
from lxgpu.model.snapshot import Snapshot
from lxgpu.policy.admission import admit
from lxgpu.ports import Tx, VersionMovedError
from lxgpu.services import observe, slots
from lxgpu.services.adopting import ADOPT
from lxgpu.services.begin import decided, make_way, new_operation
from lxgpu.services.identity import ensure_identity, mirror_promises
from lxgpu.services.keyring import keys_for
from lxgpu.services.operations import carry_out
from lxgpu.services.provision import Ground, look_at_ground, new_person
from lxgpu.services.refusal import raise_if_refused
from lxgpu.services.site import Site
from lxgpu.services.takeover import Takeover, examine

TRIES = 3


def plan_adopt(site: Site, name: str, *, owner: str) -> Plan:
    """What adopting would do, with every reason against it; nothing is written and nothing runs inside."""
    snapshot = observe.snapshot(site, people=[owner or name])
    found, _ = _look(site, snapshot, name, owner)
    return _plan(found, snapshot)


def adopt(site: Site, name: str, *, owner: str) -> None:
    """Take a container over: rows, marks, limits as they are, its cards where nobody else has them, account and keys.

    Done when the person's login works; else it is left as it was found.
    """
    ensure_identity(site)
    for left in reversed(range(TRIES)):
        try:
            _adopt_once(site, name, owner)
        except VersionMovedError:
            if not left:
                raise LxgpuError("conflict", "the inventory changes too fast to adopt", fix="repeat it") from None
        else:
            break
    mirror_promises(site)


def _adopt_once(site: Site, name: str, owner: str) -> None:
    """What was found holds for one version of the inventory, since finding out asks LXD, which no transaction may."""
    snapshot = observe.snapshot(site, people=[owner or name])
    found, ground = _look(site, snapshot, name, owner)
    raise_if_refused(_plan(found, snapshot), f"adopt {name}", snapshot.policy)

    def write(tx: Tx, now: Snapshot) -> str:
        if now.records.version != snapshot.records.version:
            raise VersionMovedError
        make_way(tx, now, name)
        return _begin(site, tx, now, found, ground)

    for note in found.notes:
        site.say(f"note: {note}")
    found.keys = found.keys or keys_for(site, found.owner)
    carry_out(site, ADOPT, name, lambda: decided(site, snapshot, write), gpus=snapshot.seen.gpus)


def _look(site: Site, snapshot: Snapshot, name: str, owner: str) -> tuple[Takeover, Ground]:
    check_name(name)
    owner = check_person(owner or name)
    if snapshot.records.instance(name) is not None:
        raise LxgpuError("exists", f"{name} is lxgpu's already", fix=f"lxgpu show {name}")
    seen = site.engine.instance(name)
    if seen is None:
        raise LxgpuError(
            "not_found", f"LXD has no instance {name} in the default project", fix="lxc list shows what there is"
        )
    ground = look_at_ground(site, owner)
    return examine(site, snapshot, seen, owner, ground), ground


def _plan(found: Takeover, snapshot: Snapshot) -> Plan:
    if found.reasons:
        return Plan(decision=Verdict.REFUSED, reasons=tuple(found.reasons))
    name = found.name
    request = GpuRequest(instance=name, owner=found.owner, more=len(found.slots))
    notes = [*found.notes, *(reason.text for reason in admit(snapshot, request))]
    steps = [PlannedStep("restart", name, why="; ".join(found.restarts))] if found.restarts else []
    steps += [PlannedStep("adopt", name, why=f"for {found.owner}, at {found.address}, limits as they are")]
    steps += [PlannedStep("keep", name, gpu=slot.gpu, why="it has it now") for slot in found.slots]
    steps += [PlannedStep("take_off", name, why=f"device {device}") for device in sorted(found.drop)]
    if found.account is not None:
        steps.append(PlannedStep("move_home", name, why="into a volume of its own; the old one stays beside it"))
    steps.append(PlannedStep("verify", name, why="SSH login through the published port, cards and limits"))
    steps += [PlannedStep("note", name, why=note) for note in notes]
    return Plan(decision=Verdict.GRANTED, steps=tuple(steps), slots=found.slots)


def _begin(site: Site, tx: Tx, now: Snapshot, found: Takeover, ground: Ground) -> str:
    known = now.records.person(found.owner)
    taken = {row.uid for row in now.records.persons}
    wanted = found.account if found.account not in taken else ground.uid
    fresh = known or new_person(now, found.owner, replace(ground, uid=wanted), ports=site.settings.network.ports)
    person = fresh if known or found.port is None else replace(fresh, ssh_port=found.port)
    old = {key.fingerprint for key in now.records.keys if key.person == person.name}
    keys = [
        Key(person=person.name, fingerprint=key.fingerprint, line=key.text, added_at=now.now)
        for key in found.keys
        if key.fingerprint not in old
    ]
    request = GpuRequest(instance=found.name, owner=found.owner, more=len(found.slots))
    operation = new_operation(
        site,
        kind="adopt",
        instance=found.name,
        args={
            "person_new": known is None,
            "keys_new": [key.fingerprint for key in keys],
            "restart": bool(found.restarts),
            "was_running": found.running,
            "account": found.account is not None,
            "drop": found.drop,
            "before": _as_found(found.seen),
        },
    )
    tx.put(person, *keys, _row(site, now, found))
    slots.claim(tx, replace(now, records=tx.records), request, found.slots, lease_s=None)
    tx.put(operation)
    return operation.id


def _row(site: Site, now: Snapshot, found: Takeover) -> Instance:
    """Its row; the hardware address stays LXD's own, since to name it would take the network card out."""
    return Instance(
        name=found.name,
        owner=found.owner,
        host=site.host,
        state=InstanceState.CREATING,
        created_at=found.seen.created_at or now.now,
        uuid=found.seen.uuid,
        profile=site.settings.profile,
        image=found.seen.config.get("volatile.base_image", ""),
        limits=found.limits,
        address=found.address,
    )


def _as_found(seen: Sighting) -> dict[str, object]:
    """Configuration and devices to go back to."""
    return {
        "config": {key: value for key, value in seen.config.items() if not key.startswith("volatile.")},
        "devices": {name: dict(device) for name, device in seen.devices.items()},
    }
