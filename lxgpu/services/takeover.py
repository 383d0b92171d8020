"""Looking at a container that was made by hand: what of it can be taken over, what must change, what stands against it.

Nothing is written and nothing runs inside.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from ipaddress import ip_address, ip_interface

from lxgpu.config.keys import PublicKey, parse_keys
from lxgpu.errors import LxgpuError
from lxgpu.model.devices import gpus_in
from lxgpu.model.gpu import Slot
from lxgpu.model.instance import Limits, Power, Sighting
from lxgpu.model.layout import whole
from lxgpu.model.plan import Reason
from lxgpu.model.snapshot import Snapshot
from lxgpu.policy.drift import is_copy
from lxgpu.policy.lookup import own_machine
from lxgpu.policy.placement import obstacles
from lxgpu.services.provision import Ground, free_address, proxy_ports, taken_addresses
from lxgpu.services.site import Site
from lxgpu.services.wanted import home_path, home_volume
from lxgpu.units import parse_size

LIVE_NIC = frozenset({"ipv4.address", "security.mac_filtering", "security.ipv4_filtering", "security.ipv6_filtering"})
"""What LXD changes of a network card without taking it out; anything else cuts a running container off."""
_SELECTORS = ("pci", "id", "mig.uuid")
_PASSWD_BYTES = 1024**2


@dataclass(slots=True)
class Takeover:
    """What was found. `reasons` stand against it, `restarts` say why it must be restarted, `notes` what is lost.

    `slots` are the cards it keeps; `drop` the devices that go (True) or are masked because a profile brings them
    (False). `account` is the uid that the person has inside, None: no account. `port` is one that it had before,
    `keys` those that let the person in until now.
    """

    name: str
    owner: str
    seen: Sighting
    limits: Limits = field(default_factory=Limits)
    slots: tuple[Slot, ...] = ()
    drop: dict[str, bool] = field(default_factory=dict)
    address: str = ""
    account: int | None = None
    port: int | None = None
    keys: tuple[PublicKey, ...] = ()
    reasons: list[Reason] = field(default_factory=list)
    restarts: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def running(self) -> bool:
        """Whether it runs."""
        return self.seen.power is Power.RUNNING

    def refuse(self, code: str, text: str) -> None:
        """One thing more that stands against it."""
        self.reasons.append(Reason(code, text))


def examine(site: Site, snapshot: Snapshot, seen: Sighting, owner: str, ground: Ground) -> Takeover:
    """Everything about a container of the default project that the inventory does not know."""
    found = Takeover(name=seen.name, owner=owner, seen=seen)
    _names(found, snapshot)
    _limits(site, found)
    _cards(found, snapshot)
    _disks(site, found)
    _network(site, found, snapshot, ground)
    _port(site, found, snapshot)
    _account(site, found, snapshot)
    if seen.config.get("raw.lxc") and not is_copy(seen):
        found.notes.append("its raw.lxc is replaced; what stood there: " + seen.config["raw.lxc"].strip()[:200])
    return found


def _names(found: Takeover, snapshot: Snapshot) -> None:
    if found.seen.ours:
        found.refuse("exists", f"{found.name} carries lxgpu's own mark, but the inventory does not know it")
    if found.seen.power not in {Power.RUNNING, Power.STOPPED}:
        found.refuse("not_ready", f"{found.name} is {found.seen.power.value}: start it or stop it first")
    if found.seen.config.get("security.privileged") == "true" or found.seen.config.get("volatile.idmap.next") == "[]":
        found.refuse("conflict", f"{found.name} is privileged: root in it is the host's root, whom no rule holds back")
    other = own_machine(snapshot.records.instances, found.owner)
    if other is not None:
        found.refuse("exists", f"{found.owner} has the container {other.name} on this host already")


def _limits(site: Site, found: Takeover) -> None:
    """The limits as they are; those that a profile brings, or that are shares of the host, as the kernel has them."""
    config, init = found.seen.config, found.seen.init_pid
    held = Limits() if init is None else site.probe.limits(init)
    cpu, processes = config.get("limits.cpu", ""), config.get("limits.processes", "")
    if cpu and not cpu.isdigit():
        spans = [span.partition("-") for span in cpu.split(",")]
        count = sum(int(last or first) - int(first) + 1 for first, _, last in spans)
        found.notes.append(f"it is pinned to CPUs {cpu}, and gets any {count} instead")
        cpu = str(count)
    found.limits = Limits(
        cpu=int(cpu) if cpu else None,
        memory_bytes=_bytes(found, "limits.memory", config.get("limits.memory", ""), held.memory_bytes),
        disk_bytes=_bytes(found, "the disk's size", (_root(found.seen) or {}).get("size", ""), None),
        processes=int(processes) if processes else held.processes,
    )


def _bytes(found: Takeover, what: str, text: str, held: int | None) -> int | None:
    """A size as LXD takes it, where a plain number is bytes; what is no size is what the kernel holds, if it does."""
    if text.isdigit() or not text:
        return int(text) if text else held
    try:
        return parse_size(text)
    except LxgpuError:
        if held is None:
            found.refuse("bad_size", f"{what} is {text}, no number of bytes: start it, or give it one with lxc first")
        return held


def _cards(found: Takeover, snapshot: Snapshot) -> None:
    """Its cards become its assignments where nobody else has them; a copy of ours only loses those of the original."""
    rest = tuple(one for one in snapshot.seen.sightings if one is not found.seen and one.name != found.name)
    others = tuple(one for one in snapshot.seen.sightings if one.project != "default" and one.name == found.name)
    blocked = obstacles(snapshot.records, replace(snapshot.seen, sightings=(*rest, *others)))
    slots: set[Slot] = set()
    for name, device in sorted(found.seen.expanded_devices.items()):
        uuids = gpus_in({name: device}, whole(snapshot.seen.gpus))
        if device.get("type") == "gpu" and not any(device.get(key) for key in _SELECTORS):
            found.refuse(
                "conflict",
                f"device {name} passes every card: lxc config device set {found.name} {name} pci=ADDRESS first",
            )
        elif len(uuids) > 1:
            found.refuse("conflict", f"device {name} passes {len(uuids)} cards: name the one that is meant (pci=…)")
        elif not uuids:
            if device.get("type") == "gpu":
                found.notes.append(f"device {name} names a card that the host does not show; it is taken off")
                found.drop[name] = name in found.seen.devices
        else:
            (uuid,) = uuids
            why = "divided" if snapshot.seen.gpu(uuid) is None else blocked[uuid].text if uuid in blocked else ""
            _one_card(found, uuid, name, why, slots)
    found.slots = tuple(sorted(slots))


def _one_card(found: Takeover, uuid: str, device: str, why: str, slots: set[Slot]) -> None:
    """`why` says why it cannot be its own, empty when it can."""
    if not why:
        slots.add(Slot(uuid))
    elif is_copy(found.seen):
        found.notes.append(f"{uuid} ({device}) is {why}; the copy does not keep it")
    else:
        found.refuse("not_free", f"{uuid} ({device}) is {why}; take the device off first")


def _disks(site: Site, found: Takeover) -> None:
    root, home, volume = _root(found.seen), home_path(found.owner), home_volume(found.owner)
    if root is None or root.get("pool") != site.settings.pool:
        where = root.get("pool") if root else "none"
        found.refuse("conflict", f"its root disk is on pool {where}, and the settings name {site.settings.pool}")
    for name, device in found.seen.expanded_devices.items():
        ours = is_copy(found.seen) and name == "home"
        if device.get("type") == "disk" and device.get("path") == home and device.get("source") != volume and not ours:
            found.refuse(
                "conflict", f"device {name} is mounted at {home}, where the home volume goes: take it off first"
            )
        elif name in {"home", "ssh"} and device.get("type") != {"home": "disk", "ssh": "proxy"}[name]:
            found.refuse("conflict", f"its device {name} has a name that lxgpu needs: rename it first")


def _network(site: Site, found: Takeover, snapshot: Snapshot, ground: Ground) -> None:
    """Its address if nobody else has it, else a new one; whatever LXD cannot change live is a restart."""
    bridge, devices = site.settings.network.bridge, found.seen.expanded_devices
    nics = {name: device for name, device in devices.items() if device.get("type") == "nic"}
    mine = {name for name, device in nics.items() if bridge in {device.get("network"), device.get("parent")}}
    for name, device in nics.items():
        if name not in mine and "eth0" in {name, device.get("name")}:
            found.refuse("conflict", f"its network card {name} is not on {bridge}, where its address has to be")
    network, taken = ip_interface(ground.network.gateway).network, taken_addresses(snapshot, but=found.name)
    static = [nics[name].get("ipv4.address", "") for name in sorted(mine)]
    candidates = [text for text in (*static, *found.seen.addresses) if _within(text, network)]
    found.address = next((text for text in candidates if text not in taken), "") or free_address(snapshot, ground)
    found.drop |= {name: name in found.seen.devices for name in mine - {"eth0"}}
    now = nics.get("eth0", {}) if "eth0" in mine else {}
    live = {key: value for key, value in now.items() if key not in LIVE_NIC}
    if not found.running:
        return
    if live != {"type": "nic", "network": bridge, "name": "eth0"} or mine != {"eth0"}:
        found.restarts.append("its network card is replaced")
    elif found.address not in found.seen.addresses:
        found.restarts.append(f"its address changes to {found.address}")


def _port(site: Site, found: Takeover, snapshot: Snapshot) -> None:
    """A port that leads to its sshd already is kept, if it is one of ours to give; lxgpu's device takes its place."""
    if is_copy(found.seen):
        return
    ports = {row.ssh_port for row in snapshot.records.persons}
    others = [one for one in snapshot.seen.sightings if (one.project, one.name) != ("default", found.name)]
    elsewhere = proxy_ports(replace(snapshot.seen, sightings=tuple(others)))
    for name, device in sorted(found.seen.expanded_devices.items()):
        if device.get("type") != "proxy" or not device.get("connect", "").endswith(":22"):
            continue
        number = device.get("listen", "").rpartition(":")[2]
        if number.isdigit() and int(number) in site.settings.network.ports and found.port is None:
            if int(number) in ports | elsewhere:
                found.refuse("exists", f"its SSH port {number} is somebody else's: take device {name} off first")
            found.port = int(number)
            found.drop[name] = name in found.seen.devices


def _account(site: Site, found: Takeover, snapshot: Snapshot) -> None:
    """The person's account inside, and the keys that let them in."""
    passwd = _file(site, found.seen, "/etc/passwd").decode(errors="replace")
    entries = [line.split(":") for line in passwd.splitlines() if line.startswith(f"{found.owner}:")]
    account = next((entry for entry in entries if len(entry) == 7), None)  # noqa: PLR2004 - passwd(5)
    known = snapshot.records.person(found.owner)
    old_keys = any(key.person == found.owner for key in snapshot.records.keys)
    if account is None:
        return
    found.account, home = int(account[2]), account[5]
    if site.engine.has_volume(site.settings.pool, home_volume(found.owner)):
        found.refuse("exists", f"there is a home volume of {found.owner} already, and {home} inside is another home")
    if found.running:
        found.restarts.append(f"the home of {found.owner} moves to a volume of its own")
    taken = {row.uid for row in snapshot.records.persons if row.name != found.owner}
    if (known is not None and known.uid != found.account) or found.account in taken:
        found.notes.append(
            f"the account {found.owner} gets another id inside, since {found.account} is somebody else's"
        )
    text = b"" if old_keys else _file(site, found.seen, f"{home}/.ssh/authorized_keys")
    if not text.strip():
        return
    try:
        found.keys = parse_keys(text.decode(errors="replace"))
    except LxgpuError as error:
        found.notes.append(f"{home}/.ssh/authorized_keys inside: {error.brief}")


def _file(site: Site, seen: Sighting, path: str) -> bytes:
    """A file inside; empty where there is none."""
    if seen.init_pid is not None:
        return site.probe.read_file(seen.init_pid, path, most=_PASSWD_BYTES) or b""
    return site.engine.pull(seen.name, path) or b""


def _root(seen: Sighting) -> Mapping[str, str] | None:
    disks = (device for device in seen.expanded_devices.values() if device.get("type") == "disk")
    return next((device for device in disks if device.get("path") == "/"), None)


def _within(text: str, network: object) -> bool:
    try:
        return ip_address(text) in network  # type: ignore[operator]
    except ValueError:
        return False
