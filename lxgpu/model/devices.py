"""What lxgpu means ↔ how LXD and Incus write it: pure, no server needed.

All values are texts, as in LXD's own JSON.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Mapping, Sequence

from lxgpu.model.gpu import DeviceNode, Gpu, normal_pci
from lxgpu.model.instance import Limits

Device = dict[str, str]
_UNITS = (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))
_CDI = "nvidia.com/gpu="
SHARED_NODES = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools")
"""Nodes of the driver that every program on a card opens; a `gpu` device brings them along."""


def size_text(count: int) -> str:
    """Bytes in the largest binary unit that is exact: `64GiB`, `1500MiB`, `1000B`."""
    return next((f"{count // unit}{name}" for name, unit in _UNITS if count and count % unit == 0), f"{count}B")


def gpu_device_name(gpu: Gpu) -> str:
    """The device's name tells the card: `gpu-` and the UUID without its prefix."""
    return f"gpu-{gpu.uuid.removeprefix('GPU-')}"


def gpu_device(gpu: Gpu) -> Device:
    """A whole card, picked by PCI address: LXD's `id` is the DRM number, which is nobody's index."""
    return {"type": "gpu", "gputype": "physical", "pci": gpu.pci, "mode": "0666"}


def slice_devices(gpu: Gpu) -> dict[str, Device]:
    """A MIG slice: the card's node, those of its two capabilities, and what all cards share, which they do not bring.

    By numbers, so that LXD makes each node whether or not the host has it: the driver makes those of capabilities only
    for who asks for them. LXD's own type `mig` does not hot-plug.
    """
    name = gpu_device_name(gpu.of or gpu)
    own = {f"{name}-{node.path.rpartition('/')[2]}": _node_device(node) for node in gpu.nodes}
    return own | {f"gpu-all-{node}": _shared_device(f"/dev/{node}") for node in SHARED_NODES}


def _node_device(node: DeviceNode) -> Device:
    numbers = {"major": str(node.major), "minor": str(node.minor)}
    return {"type": "unix-char", "path": f"/dev/{node.path}", "mode": "0666"} | numbers


def _shared_device(path: str) -> Device:
    """A node of the driver itself, by whatever number it has on this host."""
    return {"type": "unix-char", "source": path, "path": path, "mode": "0666", "required": "false"}


def nic_device(bridge: str, address: str, hwaddr: str, *, filter_ipv6: bool = True) -> Device:
    """The only network card, with a fixed address and filters, so that a neighbour cannot pose as another.

    The filters are nft rules on the host's side; ran on LXD 5.0.2: they cost no measurable time at start
    (220 ms with and without). `filter_ipv6` then drops all IPv6 where the bridge has none; turn it off
    for a bridge with IPv6, where LXD wants stateful DHCPv6 for it.
    """
    device = {
        "type": "nic",
        "network": bridge,
        "name": "eth0",
        "ipv4.address": address,
        "hwaddr": hwaddr,
        "security.mac_filtering": "true",
        "security.ipv4_filtering": "true",
    }
    return device | ({"security.ipv6_filtering": "true"} if filter_ipv6 else {})


def hwaddr_for(address: str) -> str:
    """A hardware address from an IPv4 address, always the same, so that a new container needs no new ARP entry."""
    tail = ipaddress.IPv4Address(address).packed[1:]
    return "00:16:3e:" + ":".join(f"{byte:02x}" for byte in tail)


def ssh_device(listen: str, port: int, address: str) -> Device:
    """SSH published on the host by address translation: no process, no delay.

    `listen` is an address that the host has (LXD refuses 0.0.0.0 here, and 127.0.0.1 leads nowhere). LXD
    takes the same port for two instances without a word; `proxy_ports` of the engine tells what is taken.
    """
    host = f"[{listen}]" if ":" in listen else listen
    return {
        "type": "proxy",
        "bind": "host",
        "nat": "true",
        "listen": f"tcp:{host}:{port}",
        "connect": f"tcp:{address}:22",
    }


def root_device(pool: str, size_bytes: int | None) -> Device:
    """The root disk, with a limit where one is given."""
    device = {"type": "disk", "path": "/", "pool": pool}
    return device | ({} if size_bytes is None else {"size": size_text(size_bytes)})


def home_device(pool: str, volume: str, path: str) -> Device:
    """A custom volume mounted at a path."""
    return {"type": "disk", "pool": pool, "source": volume, "path": path}


def mount_device(source: str, path: str, *, readonly: bool, required: bool = False) -> Device:
    """A directory of the host. When it is missing the instance starts without it, unless it is `required`."""
    flags = {"readonly": readonly, "required": required}
    return {"type": "disk", "source": source, "path": path} | {key: str(on).lower() for key, on in flags.items()}


def limits_config(limits: Limits) -> dict[str, str | None]:
    """Limits as config keys, None for "no limit" (which removes the key). The disk's limit is on the root device."""
    return {
        "limits.cpu": None if limits.cpu is None else str(limits.cpu),
        "limits.memory": None if limits.memory_bytes is None else size_text(limits.memory_bytes),
        "limits.processes": None if limits.processes is None else str(limits.processes),
    }


def deny_rules(nodes: Iterable[DeviceNode]) -> str:
    """The `raw.lxc` text that forbids the nodes from the first process on, in order of their numbers.

    Ran on LXD 5.0.2 (cgroup v1 hybrid): `raw.lxc` may be changed on a running instance, in the same PUT as
    devices (50 ms together); it counts from the next start on, so the running one needs `HostProbe.set_rule`
    too. Lines for cgroup2 are ignored there and do not break the start; a line liblxc does not know is
    refused by the PUT. On a pure cgroup2 host (read in liblxc's source, not run) it is the other way about,
    and a list of nothing but `deny` would forbid everything: `allow = a` in front turns it into a list of
    exceptions. There liblxc's own program must be detached from the cgroup to lift a rule.
    """
    numbers = sorted({(node.major, node.minor) for node in nodes})
    if not numbers:
        return ""
    old = [f"lxc.cgroup.devices.deny = c {major}:{minor} rwm" for major, minor in numbers]
    new = [f"lxc.cgroup2.devices.deny = c {major}:{minor} rwm" for major, minor in numbers]
    return "\n".join([*old, "lxc.cgroup2.devices.allow = a", *new]) + "\n"


def gpus_in(expanded_devices: Mapping[str, Mapping[str, str]], gpus: Sequence[Gpu]) -> frozenset[str]:
    """UUIDs of the cards that a device map passes, by whatever way.

    In doubt a card counts as passed: a `gpu` device without selector passes all, and so may one that picks
    by product or by an index that is not known. A card's node as `unix-char` or `disk` passes the card too.
    """
    return frozenset(gpu.uuid for device in expanded_devices.values() for gpu in _passed(device, gpus))


def _passed(device: Mapping[str, str], gpus: Sequence[Gpu]) -> Iterator[Gpu]:
    kind = device.get("type")
    if kind == "gpu":
        return (gpu for gpu in gpus if _selects(device, gpu))
    if kind in {"unix-char", "disk"}:
        return (gpu for gpu in gpus if any(_is_node(device, node) for node in gpu.nodes))
    return iter(())


def _selects(device: Mapping[str, str], gpu: Gpu) -> bool:
    """Whether a `gpu` device may pass the card: every selector that is there has to fit."""
    pci, number, vendor = device.get("pci", ""), device.get("id", ""), device.get("vendorid", "")
    if pci and normal_pci(pci) != gpu.pci:
        return False
    if vendor and vendor.lower().removeprefix("0x") != "10de":
        return False
    if number.startswith(_CDI):
        return _cdi(number.removeprefix(_CDI), gpu)
    return not number or any(node.path == f"dri/card{number}" for node in gpu.nodes)


def _cdi(name: str, gpu: Gpu) -> bool:
    """`all`, a UUID, or an index, with `:` and a number behind it for a MIG slice."""
    whole = name.partition(":")[0]
    if whole.isdecimal():
        return gpu.index is None or gpu.index == int(whole)
    if whole.startswith("MIG-"):
        return True  # its card is not named
    return whole in {"all", gpu.uuid}


def _is_node(device: Mapping[str, str], node: DeviceNode) -> bool:
    inside = f"/dev/{node.path}"
    numbers = (device.get("major"), device.get("minor"))
    if device.get("type") == "unix-char" and numbers == (str(node.major), str(node.minor)):
        return True
    source = device.get("source") or (device.get("path", "") if device.get("type") == "unix-char" else "")
    if not source.startswith("/") or "pool" in device:
        return False
    if source == "/":  # the host's root without what is mounted on it has no /dev
        return device.get("recursive") == "true"
    source = source.rstrip("/")
    return source == inside or inside.startswith(f"{source}/")
