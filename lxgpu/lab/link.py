"""The lab's way to the machine and out: a network namespace of its own, a pair of links, one rule.

LXD names its firewall chains by container and device alone, so two LXD servers in one namespace would take each
other's rules away when their containers have the same names. The lab's bridge lies in the lab's own namespace; the
machine reaches its subnet by a route, and what goes out is given the machine's address.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lxgpu.errors import LxgpuError
from lxgpu.lab.programs import run

if TYPE_CHECKING:
    from lxgpu.lab.record import Lab

UPLINK = "up0"
FORWARD = Path("/proc/sys/net/ipv4/ip_forward")


def ends(subnet: str) -> tuple[str, str]:
    """The addresses of the pair of links: the machine's and the lab's, without prefix (it is 30).

    Each lab's subnet 10.A.B.0/24 (A from 64 to 127) has one pair in 100.64.0.0/10, so no second claim is needed.
    """
    _, second, third, _ = subnet.split("/", maxsplit=1)[0].split(".")
    return f"100.{second}.{third}.1", f"100.{second}.{third}.2"


def ensure_link(lab: Lab, holder: int) -> None:
    """Have links, routes and rule; looks first, so that an interrupted `up` goes on. `holder` is a pid in the lab."""
    here, there = ends(lab.subnet)
    inside = ["nsenter", "-t", str(holder), "-n", "--"]
    if not Path("/sys/class/net", lab.bridge).exists():
        run(["ip", "link", "add", lab.bridge, "type", "veth", "peer", "name", UPLINK, "netns", str(holder)])
    elif Path("/sys/class/net", lab.bridge, "bridge").exists():
        raise LxgpuError(
            "exists",
            f"the machine has a bridge named {lab.bridge} already",
            fix=f"lxgpu lab down --name {lab.name}, then up again",
        )
    run(["ip", "address", "replace", f"{here}/30", "dev", lab.bridge])
    run(["ip", "link", "set", lab.bridge, "up"])
    run([*inside, "ip", "link", "set", "lo", "up"])
    run([*inside, "ip", "address", "replace", f"{there}/30", "dev", UPLINK])
    run([*inside, "ip", "link", "set", UPLINK, "up"])
    run([*inside, "ip", "route", "replace", "default", "via", here])
    run(["ip", "route", "replace", lab.subnet, "via", there])
    if FORWARD.read_text().strip() == "0":
        FORWARD.write_text("1")
    rules = lab.paths.run / "link.nft"
    rules.write_text(_rule(lab))
    run(["nft", "-f", str(rules)])


def isolated(holder: int) -> bool:
    """Whether a lab has a network namespace of its own; those of an older lxgpu have not."""
    return Path(f"/proc/{holder}/ns/net").readlink() != Path("/proc/self/ns/net").readlink()


def table(bridge: str) -> str:
    """The name of the lab's own firewall table."""
    return f"lxgpu-{bridge}"


def _rule(lab: Lab) -> str:
    here, _ = ends(lab.subnet)
    name, pair = table(lab.bridge), here.removesuffix(".1") + ".0/30"
    return f"""\
add table ip {name}
delete table ip {name}
table ip {name} {{
  chain out {{
    type nat hook postrouting priority srcnat
    ip saddr {pair} masquerade
  }}
}}
"""
