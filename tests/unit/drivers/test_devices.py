"""What lxgpu writes into LXD, and which cards a device map passes."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from lxgpu.model import devices
from lxgpu.model.gpu import DeviceNode, Gpu
from lxgpu.model.instance import Limits

CASES = Path(__file__).parents[2] / "cases" / "devices"
A = Gpu(
    uuid="a",
    pci="0000:02:00.0",
    model="X",
    host="h",
    index=0,
    nodes=(DeviceNode("nvidia0", 195, 0), DeviceNode("dri/card1", 226, 1), DeviceNode("dri/renderD129", 226, 129)),
)
B = Gpu(
    uuid="b",
    pci="0000:82:00.0",
    model="X",
    host="h",
    index=1,
    nodes=(DeviceNode("nvidia1", 195, 1), DeviceNode("dri/card2", 226, 2), DeviceNode("dri/renderD130", 226, 130)),
)


def cases(name: str) -> list[dict[str, object]]:
    """The rows of a case file."""
    return yaml.safe_load((CASES / name).read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", cases("gpus_in.yaml"), ids=lambda case: case["what"])
def test_every_way_a_card_gets_in_is_seen(case):
    """No device map passes a card that gpus_in does not name."""
    assert devices.gpus_in(case["devices"], (A, B)) == frozenset(case["passes"])


def test_a_card_that_lxgpu_attaches_is_found_again():
    """What gpu_device writes passes that card and no other, under a name that tells which."""
    assert devices.gpus_in({devices.gpu_device_name(A): devices.gpu_device(A)}, (A, B)) == {"a"}
    assert devices.gpu_device_name(Gpu(uuid="GPU-77-8", pci="", model="", host="")) == "gpu-77-8"
    assert devices.gpu_device(A) == {"type": "gpu", "gputype": "physical", "pci": "0000:02:00.0", "mode": "0666"}


def test_an_unknown_index_counts_as_any_card():
    """An index cannot clear a card whose index nobody knows."""
    unknown = Gpu(uuid="c", pci="0000:03:00.0", model="X", host="h")
    assert devices.gpus_in({"g": {"type": "gpu", "id": "nvidia.com/gpu=5"}}, (A, unknown)) == {"c"}


@pytest.mark.parametrize("case", cases("limits.yaml"), ids=lambda case: str(case["limits"]))
def test_limits_are_written_in_one_way(case):
    """Limits become LXD's keys; no limit removes the key."""
    assert devices.limits_config(Limits(**case["limits"])) == case["config"]


@given(st.integers(min_value=0, max_value=2**50))
def test_a_size_is_written_exactly(count):
    """No byte is lost to rounding, in a unit that LXD knows."""
    text = devices.size_text(count)
    units = {"TiB": 2**40, "GiB": 2**30, "MiB": 2**20, "KiB": 2**10, "B": 1}
    unit = next(name for name in units if text.endswith(name))
    assert int(text.removesuffix(unit)) * units[unit] == count


@given(st.permutations([*A.nodes, *B.nodes]))
def test_the_rule_does_not_depend_on_the_order(nodes):
    """The same nodes make the same text, so that an unchanged rule is no change; doubles count once."""
    assert devices.deny_rules([*nodes, nodes[0]]) == devices.deny_rules([*A.nodes, *B.nodes])


def test_the_rule_names_each_node_for_both_kinds_of_cgroups():
    """A list for cgroup2 first allows all: liblxc takes a list of nothing but `deny` as "nothing at all"."""
    assert devices.deny_rules([DeviceNode("nvidia1", 195, 1), DeviceNode("nvidia0", 195, 0)]).splitlines() == [
        "lxc.cgroup.devices.deny = c 195:0 rwm",
        "lxc.cgroup.devices.deny = c 195:1 rwm",
        "lxc.cgroup2.devices.allow = a",
        "lxc.cgroup2.devices.deny = c 195:0 rwm",
        "lxc.cgroup2.devices.deny = c 195:1 rwm",
    ]
    assert devices.deny_rules([]) == ""


def test_the_network_card_is_fixed_and_filtered():
    """Address and hardware address belong together and cannot be borrowed by a neighbour."""
    hwaddr = devices.hwaddr_for("10.98.7.50")
    assert hwaddr == "00:16:3e:62:07:32"
    nic = devices.nic_device("br0", "10.98.7.50", hwaddr)
    assert nic["ipv4.address"] == "10.98.7.50"
    assert nic["hwaddr"] == hwaddr
    assert {"security.mac_filtering", "security.ipv4_filtering", "security.ipv6_filtering"} <= nic.keys()
    assert "security.ipv6_filtering" not in devices.nic_device("br0", "10.98.7.50", hwaddr, filter_ipv6=False)


@given(st.ip_addresses(v=4), st.ip_addresses(v=4))
def test_two_addresses_of_one_net_have_two_hardware_addresses(one, other):
    """Within a /8 no hardware address is given twice."""
    same = int(one) % 2**24 == int(other) % 2**24
    assert (devices.hwaddr_for(str(one)) == devices.hwaddr_for(str(other))) == same


def test_disks_and_ports():
    """The other devices, as LXD wants them."""
    assert devices.root_device("default", 20 * 2**30) == {
        "type": "disk",
        "path": "/",
        "pool": "default",
        "size": "20GiB",
    }
    assert "size" not in devices.root_device("default", None)
    assert devices.home_device("default", "home-alice", "/home") == {
        "type": "disk",
        "pool": "default",
        "source": "home-alice",
        "path": "/home",
    }
    mount = devices.mount_device("/srv/data", "/data", readonly=True)
    assert (mount["readonly"], mount["required"]) == ("true", "false")
    ssh = devices.ssh_device("10.0.0.1", 2201, "10.98.7.50")
    assert (ssh["listen"], ssh["connect"], ssh["nat"]) == ("tcp:10.0.0.1:2201", "tcp:10.98.7.50:22", "true")
    assert devices.ssh_device("fd00::1", 2201, "fd00::2")["listen"] == "tcp:[fd00::1]:2201"
