"""What an instance must look like in LXD, from the inventory alone; pure, and the same at every step.

Steps do not edit: they make LXD show what this says. `attached` are the slots whose device is there; a card that is
being released may still be attached while its rule already denies it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field

from lxgpu.config.profiles import Profile
from lxgpu.config.settings import Settings
from lxgpu.model import devices
from lxgpu.model.assignment import KEPT, Assignment
from lxgpu.model.borrowing import IN_PLACE, Borrowing
from lxgpu.model.gpu import DeviceNode, Gpu, Slot
from lxgpu.model.instance import Instance, InstanceState, Person, Sighting
from lxgpu.model.layout import whole
from lxgpu.model.operation import Identity
from lxgpu.model.rules import SharedData
from lxgpu.ports import Change
from lxgpu.services.identity import KEY_EPOCH, KEY_INVENTORY

KEY_UUID = "user.lxgpu.uuid"
KEY_HOLDS = "user.lxgpu.holds"
KEY_INSTANCE = "user.lxgpu.instance"
KEY_PERSON = "user.lxgpu.person"
KEY_OPERATION = "user.lxgpu.operation"
KEY_TEMPLATE = "user.lxgpu.template"
GPU_PREFIX = "gpu-"
GUEST_PATH = "/var/lib/lxgpu"
DATA_PREFIX = "data-"
_KEPT = {InstanceState.CREATING: InstanceState.READY, InstanceState.DELETING: InstanceState.SUSPENDED}


@dataclass(frozen=True, slots=True)
class Picture:
    """All that decides how an instance looks: its rows, the host's cards, its profile and the settings.

    `borrowings` are others' cards that it has borrowed: they are among its devices, and only the sentry opens them.
    `keys` are the person's authorized_keys lines. `nvidia` mounts the driver's libraries; `guest` is
    the folder of the host through which lxgpu and the container speak.
    """

    instance: Instance
    person: Person
    assignments: tuple[Assignment, ...]
    gpus: tuple[Gpu, ...]
    profile: Profile
    settings: Settings
    identity: Identity
    keys: tuple[str, ...] = ()
    data: tuple[SharedData, ...] = ()
    nvidia: Mapping[str, str] = field(default_factory=dict)
    borrowings: tuple[Borrowing, ...] = ()
    guest: str = ""

    @property
    def usable(self) -> frozenset[Slot]:
        """The slots the instance may open."""
        return frozenset(row.slot for row in self.assignments if row.state in KEPT)

    def denied(self) -> tuple[DeviceNode, ...]:
        """The nodes of all cards and MIG slices that it must not open, in a fixed order."""
        return tuple(sorted({node for gpu in self.gpus for node in gpu.around}.difference(self.allowed())))

    def allowed(self) -> tuple[DeviceNode, ...]:
        """The nodes of the cards and MIG slices that it may open."""
        slices = {slot.gpu for slot in self.usable if slot.profile}
        cards = {slot.card for slot in self.usable if not slot.profile}
        mine = (gpu for gpu in self.gpus if (gpu.card in cards if gpu.of is None else gpu.uuid in slices))
        return tuple(sorted({node for gpu in mine for node in gpu.nodes}))


def base(picture: Picture, *, operation: str) -> Change:
    """Everything but cards and identity: what the instance is made with; its template's marks are not its own."""
    instance, settings, profile = picture.instance, picture.settings, picture.profile
    config: dict[str, str | None] = {
        **devices.limits_config(instance.limits),
        **profile.config,
        **picture.nvidia,
        "boot.autostart": "false",
        "raw.lxc": raw_lxc(picture),
        KEY_OPERATION: operation,
        KEY_TEMPLATE: None,
        KEY_UUID: None,
        **{f"environment.{key}": value for key, value in profile.environment.items()},
    }
    wanted: dict[str, Mapping[str, str] | None] = {
        "root": devices.root_device(pool=settings.pool, size_bytes=instance.limits.disk_bytes),
        "eth0": nic(settings, instance),
    }
    return Change(config=config, devices=wanted)


def nic(settings: Settings, instance: Instance) -> dict[str, str]:
    """The network card. One that was adopted keeps the hardware address that LXD gave it: it has none in its row.

    To name one, even the same, would take the card out and put in another, which a running system does not notice.
    """
    device = devices.nic_device(bridge=settings.network.bridge, address=instance.address, hwaddr=instance.hwaddr)
    return {key: value for key, value in device.items() if value}


def full(picture: Picture, seen: Sighting, *, attached: Iterable[Slot], operation: str) -> Change:
    """Everything, cards and identity included, for an instance that exists."""
    start = base(picture, operation=operation)
    config = {
        **start.config,
        KEY_UUID: seen.uuid,
        KEY_INVENTORY: picture.identity.inventory,
        KEY_EPOCH: str(picture.identity.epoch),
        KEY_HOLDS: holds_text(picture.assignments, attached),
        KEY_INSTANCE: instance_text(picture.instance),
        KEY_PERSON: person_text(picture.person, () if picture.instance.throw_away else picture.keys),
    }
    wanted: dict[str, Mapping[str, str] | None] = {
        **picture.profile.devices,
        **start.devices,
        **_home(picture),
        **_guest(picture),
        **folders(picture, seen),
        **cards(picture, seen, attached),
        **ssh(picture),
    }
    return Change(config=config, devices=wanted)


def _home(picture: Picture) -> dict[str, Mapping[str, str] | None]:
    """The home volume, which only the person's own machine has: two at once would write to one file system."""
    if picture.instance.throw_away:
        return {}
    home = devices.home_device(
        pool=picture.settings.pool, volume=home_volume(picture.person.name), path=home_path(picture.person.name)
    )
    return {"home": home}


def _guest(picture: Picture) -> dict[str, Mapping[str, str] | None]:
    """The folder of notices and of the container's own socket; without it the container starts all the same."""
    if not picture.guest:
        return {}
    return {"lxgpu": devices.mount_device(picture.guest, GUEST_PATH, readonly=False)}


def folders(picture: Picture, seen: Sighting) -> dict[str, Mapping[str, str] | None]:
    """Shared data by group and the profile's folders; what is shared no longer is taken away."""
    present = [name for name in seen.devices if name.startswith(DATA_PREFIX)]
    result: dict[str, Mapping[str, str] | None] = dict.fromkeys(present)
    for shared in (*picture.profile.folders, *picture.data):
        result[f"{DATA_PREFIX}{shared.name}"] = devices.mount_device(shared.path, shared.at, readonly=shared.read_only)
    return result


def cards(picture: Picture, seen: Sighting, attached: Iterable[Slot]) -> dict[str, Mapping[str, str] | None]:
    """The devices of the attached cards; whatever else passes a card is removed, or masked where a profile brings it.

    A snapshot that was restored, a copy or a hand may have left devices of any name.
    """
    attached = frozenset(attached)
    wanted = {slot.card for slot in attached if not slot.profile}
    wanted |= {row.slot.card for row in picture.borrowings if row.state in IN_PLACE}
    passing = [name for name, device in seen.expanded_devices.items() if devices.gpus_in({name: device}, picture.gpus)]
    result: dict[str, Mapping[str, str] | None] = {
        name: None if name in seen.devices else {"type": "none"} for name in passing
    }
    result |= dict.fromkeys(name for name in seen.devices if name.startswith(GPU_PREFIX))
    for gpu in whole(picture.gpus):
        if gpu.uuid in wanted:
            result[devices.gpu_device_name(gpu)] = devices.gpu_device(gpu)
    for gpu in picture.gpus:
        if gpu.of is not None and Slot(gpu.uuid) in attached:
            result |= devices.slice_devices(gpu)
    return result


def ssh(picture: Picture) -> dict[str, Mapping[str, str] | None]:
    """The published port; a suspended or deleted instance has none, nor one of a single run."""
    open_ = picture.instance.state in {InstanceState.CREATING, InstanceState.READY} and not picture.instance.throw_away
    device = devices.ssh_device(
        listen=picture.settings.network.listen, port=picture.person.ssh_port, address=picture.instance.address
    )
    return {"ssh": device if open_ else None}


def raw_lxc(picture: Picture) -> str:
    """The device rule from the first process on, and /dev/shm sized to the memory limit."""
    lines = [devices.deny_rules(picture.denied())]
    size = shm_bytes(picture)
    if size is not None:
        lines.append(f"lxc.mount.entry = tmpfs dev/shm tmpfs nosuid,nodev,size={size},create=dir 0 0")
    return "\n".join(line for line in lines if line)


def shm_bytes(picture: Picture) -> int | None:
    """How large /dev/shm is; None: as large as the system makes it, since there is no memory limit."""
    memory = picture.instance.limits.memory_bytes
    return None if memory is None else int(memory * picture.profile.shm_fraction)


def home_volume(person: str) -> str:
    """The name of a person's home volume."""
    return f"home-{person}"


def home_path(person: str) -> str:
    """Where the home volume is mounted."""
    return f"/home/{person}"


def holds_text(assignments: Iterable[Assignment], attached: Iterable[Slot]) -> str:
    """The assignments as the instance carries them, so that a lost inventory can be rebuilt."""
    there = set(attached)
    rows = [
        {
            "assignment": row.id,
            "slot": str(row.slot),
            "class": row.class_name,
            "since": (row.since or row.created_at).isoformat(),
            "until": row.until.isoformat() if row.until else None,
            "reservation": row.reservation,
        }
        for row in sorted(assignments, key=lambda item: item.id)
        if row.slot in there
    ]
    return json.dumps(rows, sort_keys=True)


def instance_text(instance: Instance) -> str:
    """The instance's row as it carries it itself.

    What is being made counts as made, what is being deleted as closed: a rebuilt inventory loses nobody's data.
    """
    return json.dumps(
        {
            "owner": instance.owner,
            "class": instance.class_name,
            "profile": instance.profile,
            "image": instance.image,
            "state": _KEPT.get(instance.state, instance.state).value,
            "limits": asdict(instance.limits),
            "address": instance.address,
            "hwaddr": instance.hwaddr,
            "running": instance.running,
            "created_at": instance.created_at.isoformat(),
            "expires": instance.expires.isoformat() if instance.expires else None,
            "reason": instance.reason,
            "deleted_at": instance.deleted_at.isoformat() if instance.deleted_at else None,
            **({"kind": instance.kind.value} if instance.throw_away else {}),
        },
        sort_keys=True,
    )


def person_text(person: Person, keys: Iterable[str]) -> str:
    """The person's row and keys, carried by the instance."""
    row = {
        "name": person.name,
        "uid": person.uid,
        "ssh_port": person.ssh_port,
        "created_at": person.created_at.isoformat(),
    }
    return json.dumps({**row, "keys": sorted(keys)}, sort_keys=True)
