"""Create: from a request to a container in which its person can work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from lxgpu.errors import LxgpuError
from lxgpu.model import devices
from lxgpu.model.assignment import Assignment, AssignmentState
from lxgpu.model.instance import Instance, InstanceKind, InstanceState, Key, Limits, Person
from lxgpu.model.plan import Plan, Verdict
from lxgpu.model.request import CreateRequest
from lxgpu.model.snapshot import Observation, Snapshot
from lxgpu.policy import allocate
from lxgpu.policy.decide import decide_create
from lxgpu.policy.resolve import resolve_gpus
from lxgpu.ports import Network, Tx
from lxgpu.services import observe, slots
from lxgpu.services.begin import decided, make_way, new_operation
from lxgpu.services.identity import ensure_identity
from lxgpu.services.images import ensure_template, find_image
from lxgpu.services.keyring import keys_for, only_if_made
from lxgpu.services.limits import check_disk
from lxgpu.services.making import CREATE
from lxgpu.services.operations import carry_out
from lxgpu.services.refusal import raise_if_refused
from lxgpu.services.running import RUN
from lxgpu.services.site import Site

POOL_FULL = 0.9


@dataclass(frozen=True, slots=True)
class Ground:
    """What a creation needs to know of the host besides the snapshot."""

    network: Network
    listening: frozenset[int]
    uid: int | None


def plan(site: Site, request: CreateRequest) -> tuple[Snapshot, CreateRequest, Plan]:
    """The decision on a request, with its image and its cards found; nothing is written."""
    snapshot = observe.snapshot(site, people=[request.owner], readings=request.gpus.more > 0)
    request = _whole(site, snapshot, request)
    return snapshot, request, decide_create(snapshot, request)


def _whole(site: Site, snapshot: Snapshot, request: CreateRequest) -> CreateRequest:
    """The request with its image, its profile and the cards it names found; errors where there are none."""
    image = find_image(site, request.image)
    site.profile(request.profile)
    uuids = resolve_gpus(snapshot.seen.gpus, snapshot.records.cards, request.gpus.uuids)
    gpus = replace(request.gpus, uuids=uuids, more=len(uuids) or request.gpus.more)
    return replace(request, image=image.fingerprint, gpus=gpus)


def plan_all(site: Site, requests: Sequence[CreateRequest]) -> list[Plan]:
    """The decisions on several requests, each as if those before it had been carried out; nothing is written."""
    wants_cards = any(request.gpus.more for request in requests)
    snapshot = observe.snapshot(site, people=[request.owner for request in requests], readings=wants_cards)
    plans = []
    for request in requests:
        whole = _whole(site, snapshot, request)
        decision = decide_create(snapshot, whole)
        plans.append(decision)
        if decision.decision is Verdict.GRANTED:
            snapshot = _as_if(snapshot, whole, decision)
    return plans


def _as_if(snapshot: Snapshot, request: CreateRequest, decision: Plan) -> Snapshot:
    """The snapshot with a granted request's container and cards in it."""
    records, now = snapshot.records, snapshot.now
    row = Instance(request.name, request.owner, snapshot.seen.host, InstanceState.CREATING, now, kind=request.kind)
    held = tuple(
        Assignment(f"{request.name}/{slot}", slot, request.name, AssignmentState.ATTACHING, now)
        for slot in decision.slots
    )
    records = replace(records, instances=(*records.instances, row), assignments=(*records.assignments, *held))
    return replace(snapshot, records=records)


def create(site: Site, request: CreateRequest) -> Instance:
    """Make the container, or leave nothing behind and say why.

    Errors: what the policy refuses (5), what is not free (7), what exists (6), and whatever a step met, undone.
    """
    ensure_identity(site)
    snapshot, request, decision = plan(site, request)
    raise_if_refused(decision, _what(request), snapshot.policy)
    _check_pool(site, limits_of(site, snapshot, request))
    with only_if_made(site, request.owner):
        _make(site, snapshot, request)
    row = site.inventory.read().instance(request.name)
    if row is None:
        raise LxgpuError("conflict", f"{request.name} was deleted while it was being made", fix="repeat the command")
    return row


def _what(request: CreateRequest) -> str:
    return f"create {request.name}" if request.kind is InstanceKind.OWN else f"run for {request.owner}"


def _make(site: Site, snapshot: Snapshot, request: CreateRequest) -> None:
    own = request.kind is InstanceKind.OWN
    if own and not request.keys:
        request = replace(request, keys=tuple((key.fingerprint, key.text) for key in keys_for(site, request.owner)))
    ensure_template(site, find_image(site, request.image), site.profile(request.profile))
    ground = look_at_ground(site, request.owner)
    carry_out(
        site,
        CREATE if own else RUN,
        request.name,
        lambda: decided(site, snapshot, lambda tx, now: _write(site, tx, now, request, ground)),
        gpus=snapshot.seen.gpus,
    )


def _write(site: Site, tx: Tx, snapshot: Snapshot, request: CreateRequest, ground: Ground) -> str:
    """Decide once more on what holds now, and write the intent: person, keys, instance, cards, operation."""
    decision = decide_create(snapshot, request)
    raise_if_refused(decision, _what(request), snapshot.policy)
    make_way(tx, snapshot, request.name)
    known = snapshot.records.person(request.owner)
    person = known or new_person(snapshot, request.owner, ground, ports=site.settings.network.ports)
    old = {key.fingerprint for key in snapshot.records.keys if key.person == person.name}
    fresh = [
        Key(person=person.name, fingerprint=fingerprint, line=line, added_at=snapshot.now)
        for fingerprint, line in request.keys
        if fingerprint not in old
    ]
    row = _new_instance(site, snapshot, request, ground)
    rules = snapshot.policy.rules.preemption
    operation = new_operation(
        site,
        kind=(CREATE if request.kind is InstanceKind.OWN else RUN).kind,
        instance=request.name,
        args={
            "person_new": known is None,
            "keys_new": [key.fingerprint for key in fresh],
            "fence_timeout_s": rules.fence_timeout_s,
        },
    )
    tx.put(person, *fresh, row)
    slots.claim(tx, replace(snapshot, records=tx.records), request.gpus, decision.slots, lease_s=request.lease_s)
    tx.put(operation)
    return operation.id


def look_at_ground(site: Site, person: str) -> Ground:
    """The host's network, its taken ports, and the account id that the person has on it."""
    return Ground(
        network=site.engine.network(site.settings.network.bridge),
        listening=site.probe.listening_ports(),
        uid=site.host_uid(person),
    )


def new_person(snapshot: Snapshot, name: str, ground: Ground, *, ports: range) -> Person:
    """A person with an account id and a port of their own; error `no_numbers`: one of the ranges is used up."""
    people = snapshot.records.persons
    uid = allocate.uid({row.uid for row in people}, wanted=ground.uid)
    taken = {row.ssh_port for row in people} | ground.listening | proxy_ports(snapshot.seen)
    port = allocate.port(ports, taken)
    if uid is None or port is None:
        what = "account ids" if uid is None else f"SSH ports ({ports.start}-{ports.stop - 1})"
        raise LxgpuError("no_numbers", f"no {what} are left for {name}", fix="widen network.ports in config.yaml")
    return Person(name=name, uid=uid, ssh_port=port, created_at=snapshot.now)


def taken_addresses(snapshot: Snapshot, *, but: str = "") -> set[str]:
    """The addresses that an instance has or is to have, `but` one instance's own."""
    others = [sighting for sighting in snapshot.seen.sightings if (sighting.project, sighting.name) != ("default", but)]
    seen = {text for sighting in others for text in _addresses(sighting.expanded_devices)}
    seen |= {text for sighting in others for text in sighting.addresses}
    return seen | {row.address for row in snapshot.records.instances if row.name != but and row.address}


def free_address(snapshot: Snapshot, ground: Ground) -> str:
    """An address for a new container; error `no_numbers`.

    One that is leased would not be given to it, however firmly it is put down: a stopped template may have the lease.
    """
    address = allocate.address(ground.network.gateway, taken_addresses(snapshot) | ground.network.leased)
    if address is None:
        raise LxgpuError(
            "no_numbers", f"the network {ground.network.name} has no address left", fix="give the bridge a wider one"
        )
    return address


def _new_instance(site: Site, snapshot: Snapshot, request: CreateRequest, ground: Ground) -> Instance:
    address = free_address(snapshot, ground)
    return Instance(
        name=request.name,
        owner=request.owner,
        host=site.host,
        state=InstanceState.CREATING,
        created_at=snapshot.now,
        class_name=request.gpus.class_name,
        profile=request.profile,
        image=request.image,
        limits=limits_of(site, snapshot, request),
        address=address,
        hwaddr=devices.hwaddr_for(address),
        expires=request.expires,
        kind=request.kind,
    )


def limits_of(site: Site, snapshot: Snapshot, request: CreateRequest) -> Limits:
    """What the container gets: flags over the policy over the profile."""
    policy = snapshot.policy
    groups = policy.groups_of(request.owner, snapshot.unix_groups.get(request.owner, frozenset()))
    entitled = policy.entitlement(
        request.owner, groups, snapshot.now, profile=site.profile(request.profile).terms, flags=request.flags
    )
    whole = entitled.limits(request.gpus.more)
    return Limits(
        cpu=request.flags.cpu or whole.cpu,
        memory_bytes=request.flags.memory_bytes or whole.memory_bytes,
        disk_bytes=whole.disk_bytes,
        processes=whole.processes,
    )


def proxy_ports(seen: Observation) -> set[int]:
    """Every host port that a proxy device of any instance listens on, stopped ones and profiles included."""
    found: set[int] = set()
    for sighting in seen.sightings:
        for device in sighting.expanded_devices.values():
            if device.get("type") == "proxy":
                last = device.get("listen", "").rsplit(":", 1)[-1]
                for part in last.split(","):
                    first, _, end = part.partition("-")
                    if first.isdigit():
                        found.update(range(int(first), int(end or first) + 1))
    return found


def _addresses(devices: Mapping[str, Mapping[str, str]]) -> list[str]:
    return [device["ipv4.address"] for device in devices.values() if device.get("ipv4.address", "none") != "none"]


def _check_pool(site: Site, limits: Limits) -> None:
    pool = site.engine.pool(site.settings.pool)
    check_disk(site, pool, limits)
    if pool.size_bytes and pool.used_bytes is not None and pool.used_bytes / pool.size_bytes >= POOL_FULL:
        raise LxgpuError(
            "pool_full",
            f"pool {pool.name} is {pool.used_bytes / pool.size_bytes:.0%} full",
            why=f"from {POOL_FULL:.0%} on no container is made, so that those there can go on writing",
            fix="lxgpu ls -o wide shows who uses it; delete what is not needed, or enlarge the pool",
        )
