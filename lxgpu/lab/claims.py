"""What labs must not share: text consoles, subnets and the names of bridges.

A claim is an abstract unix socket that the lab's holder process keeps open: the kernel gives it to one
process only, in every mount namespace alike, and takes it back when the process ends, however it ends.
"""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path
from typing import TYPE_CHECKING

from lxgpu.errors import LxgpuError
from lxgpu.lab.link import ends
from lxgpu.lab.programs import run
from lxgpu.lab.spec import digest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# The first consoles are left to the machine's own logins; the kernel has 63.
FIRST_CONSOLE, LAST_CONSOLE = 9, 63
ALLOCATED = Path("/sys/class/vc")


@dataclass(slots=True)
class Claims:
    """Claims held by this process; hand the descriptors to the holder, then close."""

    consoles: tuple[int, ...]
    subnet: str
    sockets: list[socket.socket]

    def descriptors(self) -> tuple[int, ...]:
        """The descriptors that keep the claims."""
        return tuple(claim.fileno() for claim in self.sockets)

    def close(self) -> None:
        """Let go of them here; another process that inherited them keeps them."""
        for claim in self.sockets:
            claim.close()


def take(name: str, *, consoles: int, preferred: tuple[int, ...] = (), subnet: str = "") -> Claims:
    """Claim as many consoles as asked for, and a subnet; those of last time first.

    Raises:
        LxgpuError: `no_capacity` when all consoles or subnets are in use.
    """
    claims = Claims(consoles=(), subnet="", sockets=[])
    try:
        claims.consoles = tuple(_take_consoles(claims, count=consoles, preferred=preferred))
        claims.subnet = _take_subnet(claims, name=name, preferred=subnet)
    except BaseException:
        claims.close()
        raise
    return claims


def claimed(console: int) -> bool:
    """Whether some lab holds the console at this moment."""
    probe = Claims(consoles=(), subnet="", sockets=[])
    try:
        return not _claim(probe, f"console/{console}")
    finally:
        probe.close()


def _claim(claims: Claims, what: str) -> bool:
    claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        claim.bind(f"\0lxgpu-lab/{what}")
    except OSError:
        claim.close()
        return False
    claims.sockets.append(claim)
    return True


def _take_consoles(claims: Claims, *, count: int, preferred: tuple[int, ...]) -> Iterator[int]:
    mine = set(preferred)
    others = (n for n in range(FIRST_CONSOLE, LAST_CONSOLE + 1) if n not in mine and _unused(n))
    left = count
    for console in (*preferred, *others):
        if not left:
            return
        if _claim(claims, f"console/{console}"):
            left -= 1
            yield console
    if left:
        raise LxgpuError(
            "no_capacity",
            f"there are no text consoles left for {count} more pretend cards",
            why=f"each card takes one of the kernel's consoles {FIRST_CONSOLE} to {LAST_CONSOLE}; labs hold the rest",
            fix="take down a lab that nobody needs (`lxgpu lab status` shows them), or ask for fewer --gpus",
        )


def _unused(console: int) -> bool:
    return not (ALLOCATED / f"vcs{console}").exists()


def candidates(name: str) -> Iterator[IPv4Network]:
    """Subnets for a lab of that name, the same at each call: 10.64.0.0 to 10.127.255.0."""
    for attempt in range(64):
        number = int(digest(f"{name} {attempt}"), 16)
        yield IPv4Network(((10 << 24) + ((64 + number % 64) << 16) + ((number >> 8 & 0xFF) << 8), 24))


def _pair(subnet: IPv4Network) -> IPv4Network:
    here, _ = ends(str(subnet))
    return IPv4Network(f"{here}/30", strict=False)


def _take_subnet(claims: Claims, *, name: str, preferred: str) -> str:
    used = list(_networks_in_use())
    wanted = [IPv4Network(preferred)] if preferred else []
    for subnet in (*wanted, *candidates(name)):
        wanted_nets = (subnet, _pair(subnet))
        free = str(subnet) == preferred or not any(net.overlaps(other) for net in wanted_nets for other in used)
        if free and _claim(claims, f"subnet/{subnet}"):
            return str(subnet)
    raise LxgpuError("no_capacity", "no subnet is free for the lab", why="64 were tried between 10.64 and 10.127")


def _networks_in_use() -> Iterable[IPv4Network]:
    for link in json.loads(run(["ip", "-j", "-4", "address"])):
        for address in link.get("addr_info", ()):
            yield IPv4Network(f"{address['local']}/{address['prefixlen']}", strict=False)
    for route in json.loads(run(["ip", "-j", "-4", "route", "show", "table", "all"])):
        if route.get("dst", "default") != "default":
            yield IPv4Network(route["dst"], strict=False)


def bridge_name(name: str) -> str:
    """The name of the lab's bridge: the kernel allows 15 characters."""
    return f"lg-{name}" if len(name) <= 12 else f"lg-{name[:5]}{digest(name, length=6)}"  # noqa: PLR2004 -- 15 less "lg-"
