"""Numbers that are given out once: account ids, SSH ports, addresses. Pure; the lowest free one each time."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from ipaddress import IPv4Address, ip_interface

FIRST_UID = 2000
LAST_UID = 60000


def uid(taken: Collection[int], *, wanted: int | None = None) -> int | None:
    """An account id of one's own; `wanted` (the host account's) where nobody else has it. None: all are taken."""
    if wanted is not None and FIRST_UID // 2 <= wanted <= LAST_UID and wanted not in taken:
        return wanted
    return next((number for number in range(FIRST_UID, LAST_UID + 1) if number not in taken), None)


def port(ports: range, taken: Collection[int]) -> int | None:
    """An SSH port that nobody has; None: the range is used up."""
    return next((number for number in ports if number not in taken), None)


def address(gateway: str, taken: Iterable[str]) -> str | None:
    """An address of the bridge's network, from its far end down, since DHCP servers start at the near one.

    `gateway` is the bridge's own address with its prefix length, as `10.1.2.1/24`. None: all are taken.
    """
    bridge = ip_interface(gateway)
    used = {*taken, str(bridge.ip)}
    first, last = int(bridge.network.network_address) + 2, int(bridge.network.broadcast_address) - 1
    candidates = (str(IPv4Address(number)) for number in range(last, first - 1, -1))
    return next((candidate for candidate in candidates if candidate not in used), None)
