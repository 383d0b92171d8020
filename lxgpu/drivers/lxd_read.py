"""LXD's JSON in the words of the model: pure, tolerant of fields that are new, missing or of another kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

from lxgpu.model.devices import hwaddr_for
from lxgpu.model.gpu import DeviceNode, Gpu, normal_pci
from lxgpu.model.instance import Power, Sighting
from lxgpu.ports import Image, Network, Pool, Server

NVIDIA_VENDOR = "10de"
_YEAR_OF_NEVER = 1970
"""LXD writes year 1 or 1970 for a time that never was."""


def table(value: object) -> dict[str, object]:
    """The value if it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}


def rows(value: object) -> list[dict[str, object]]:
    """The objects in a JSON list, else none."""
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


def texts(value: object) -> dict[str, str]:
    """A JSON object of texts."""
    return {str(key): str(item) for key, item in table(value).items()}


def strings(value: object) -> tuple[str, ...]:
    """A JSON list of texts."""
    return tuple(str(item) for item in value) if isinstance(value, list) else ()


def positive(value: object) -> int | None:
    """A number above zero; LXD writes 0 or -1 where it does not know."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def moment(value: object) -> datetime | None:
    """An RFC 3339 time with its offset; None for "never"."""
    try:
        found = datetime.fromisoformat(str(value))
    except ValueError:
        return None
    return found if found.year > _YEAR_OF_NEVER and found.tzinfo else None


def devices(value: object) -> dict[str, dict[str, str]]:
    """A map of devices."""
    return {str(name): texts(device) for name, device in table(value).items()}


def server(data: Mapping[str, object], etag: str | None) -> Server:
    """`/1.0`; only the `user.lxgpu.*` keys of the configuration come along."""
    environment = table(data.get("environment"))
    config = texts(data.get("config"))
    return Server(
        name=str(environment.get("server_name") or ""),
        kind=str(environment.get("server") or "lxd"),
        version=str(environment.get("server_version") or ""),
        extensions=frozenset(strings(data.get("api_extensions"))),
        promises={key: value for key, value in config.items() if key.startswith("user.lxgpu.")},
        etag=etag,
    )


def power(status: object) -> Power:
    """LXD's status in our words."""
    try:
        return Power(str(status).lower())
    except ValueError:
        return Power.OTHER


def sighting(data: Mapping[str, object], etag: str | None = None) -> Sighting:
    """One instance, from a list or alone, with or without its state."""
    state = table(data.get("state"))
    root_disk = table(table(state.get("disk")).get("root"))
    location = str(data.get("location") or "none")
    return Sighting(
        name=str(data.get("name")),
        project=str(data.get("project") or "default"),
        power=power(data.get("status")),
        config=texts(data.get("config")),
        devices=devices(data.get("devices")),
        expanded_devices=devices(data.get("expanded_devices")),
        profiles=strings(data.get("profiles")),
        init_pid=positive(state.get("pid")),
        etag=etag,
        addresses=tuple(_addresses(state)),
        disk_used_bytes=positive(root_disk.get("usage")),
        created_at=moment(data.get("created_at")),
        location=None if location == "none" else location,
    )


def _addresses(state: Mapping[str, object]) -> Iterator[str]:
    for card in table(state.get("network")).values():
        for address in rows(table(card).get("addresses")):
            if address.get("scope") == "global":
                yield str(address.get("address"))


def gpus(resources: Mapping[str, object], host: str) -> tuple[Gpu, ...]:
    """The NVIDIA cards of `/1.0/resources` whose driver is loaded, in PCI order.

    A card without driver has no UUID, so it has no identity that could be lent; other makers' cards
    (a server's VGA chip) are no cards to us.
    """
    cards = [_gpu(card, host) for card in rows(table(resources.get("gpu")).get("cards"))]
    return tuple(sorted((card for card in cards if card), key=lambda card: card.pci))


def _gpu(card: Mapping[str, object], host: str) -> Gpu | None:
    nvidia = table(card.get("nvidia"))
    uuid = str(nvidia.get("uuid") or "")
    if not uuid or not card.get("pci_address"):
        return None
    if card.get("vendor_id") != NVIDIA_VENDOR and card.get("driver") != "nvidia":
        return None
    drm = table(card.get("drm"))
    found = (
        _node(nvidia.get("card_name"), nvidia.get("card_device")),
        _node(drm.get("card_name"), drm.get("card_device"), folder="dri/"),
        _node(drm.get("render_name"), drm.get("render_device"), folder="dri/"),
    )
    numa = card.get("numa_node")
    return Gpu(
        uuid=uuid,
        pci=normal_pci(str(card["pci_address"])),
        model=str(nvidia.get("model") or card.get("product") or "NVIDIA card"),
        host=host,
        nodes=tuple(node for node in found if node),
        numa_node=numa if isinstance(numa, int) else None,
    )


def _node(name: object, numbers: object, *, folder: str = "") -> DeviceNode | None:
    major, _, minor = str(numbers or "").partition(":")
    if not name or not (major.isdecimal() and minor.isdecimal()):
        return None
    return DeviceNode(path=f"{folder}{name}", major=int(major), minor=int(minor))


def image(data: Mapping[str, object]) -> Image:
    """One image."""
    return Image(
        fingerprint=str(data.get("fingerprint")),
        aliases=tuple(str(alias.get("name")) for alias in rows(data.get("aliases"))),
        size_bytes=positive(data.get("size")) or 0,
        created_at=moment(data.get("created_at")) or moment(data.get("uploaded_at")),
        description=str(table(data.get("properties")).get("description") or ""),
    )


def pool(data: Mapping[str, object], resources: Mapping[str, object]) -> Pool:
    """One storage pool. A size on a `dir` pool binds nobody (project quotas below it cannot be seen from here)."""
    space = table(resources.get("space"))
    driver = str(data.get("driver") or "")
    total = positive(space.get("total"))
    used = space.get("used")
    return Pool(
        name=str(data.get("name")),
        driver=driver,
        size_bytes=total,
        used_bytes=used if isinstance(used, int) and total else None,
        enforces_quota=driver not in {"", "dir"},
    )


def network(data: Mapping[str, object]) -> Network:
    """One managed bridge; a bridge without IPv4 has an empty gateway."""
    config = texts(data.get("config"))
    gateway = config.get("ipv4.address", "")
    gateway = "" if gateway in {"none", "auto"} else gateway
    return Network(name=str(data.get("name")), gateway=gateway, dhcp_ranges=tuple(_dhcp_ranges(config, gateway)))


def leased(data: object) -> frozenset[str]:
    """The IPv4 addresses of leases that a container of ours would not be given; the bridge's own is one.

    Where the hardware address belongs to it, an earlier container of ours had it, and the next has the same.
    """
    leases = (table(lease) for lease in (data if isinstance(data, list) else []))
    taken = ((str(lease.get("address") or ""), str(lease.get("hwaddr") or "").lower()) for lease in leases)
    return frozenset(address for address, mac in taken if "." in address and mac != hwaddr_for(address))


def _dhcp_ranges(config: Mapping[str, str], gateway: str) -> Iterator[tuple[str, str]]:
    if not gateway or config.get("ipv4.dhcp") == "false":
        return
    named = config.get("ipv4.dhcp.ranges", "")
    for part in filter(None, (part.strip() for part in named.split(","))):
        first, _, last = part.partition("-")
        yield first.strip(), (last or first).strip()
    if not named:  # LXD then hands out all from .2 to the one before the broadcast address
        from ipaddress import ip_interface  # noqa: PLC0415 - `ls` need not load it

        net = ip_interface(gateway).network
        yield str(net[2]), str(net[-2])


def proxy_ports(expanded: Mapping[str, Mapping[str, str]]) -> Iterator[int]:
    """The ports of the host that the proxy devices of one map listen on (those that listen inside are left out)."""
    for device in expanded.values():
        if device.get("type") != "proxy" or device.get("bind") in {"instance", "guest", "container"}:
            continue
        kind, _, address = device.get("listen", "").partition(":")
        if kind in {"tcp", "udp"}:
            yield from _ports(address.rpartition(":")[2])


def _ports(text: str) -> Iterator[int]:
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        if first.isdecimal() and (last or first).isdecimal():
            yield from range(int(first), int(last or first) + 1)
