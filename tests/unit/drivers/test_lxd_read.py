"""LXD's JSON in the words of the model, its refusals in the words of our errors."""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path

import pytest
import yaml

from lxgpu.drivers import lxd_read
from lxgpu.drivers.lxd_errors import not_sent, refusal
from lxgpu.drivers.lxd_socket import find_socket
from lxgpu.drivers.lxd_wire import Deadline, ask
from lxgpu.errors import LxgpuError
from lxgpu.model.devices import hwaddr_for
from lxgpu.model.instance import Power

CASES = Path(__file__).parents[2] / "cases" / "lxd"


def cases(name: str) -> list[dict[str, object]]:
    """The rows of a case file."""
    return yaml.safe_load((CASES / name).read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", cases("cards.yaml"), ids=lambda case: case["what"])
def test_only_cards_that_can_be_lent_are_seen(case):
    """A card is one with a driver and a UUID; its nodes carry their numbers, unknown stays None."""
    found = lxd_read.gpus({"gpu": {"cards": [case["card"]]}}, "host1")
    if case["gpu"] is None:
        assert found == ()
        return
    (gpu,) = found
    assert gpu.host == "host1"
    seen = {key: getattr(gpu, key) for key in ("uuid", "pci", "model", "numa_node")}
    seen["nodes"] = [[node.path, node.major, node.minor] for node in gpu.nodes]
    assert seen == case["gpu"]


def test_cards_are_in_pci_order():
    """The order does not depend on how LXD happened to find them."""
    cards = [
        {"vendor_id": "10de", "pci_address": f"0000:{bus}:00.0", "nvidia": {"uuid": bus}} for bus in ("82", "02", "c1")
    ]
    assert [gpu.uuid for gpu in lxd_read.gpus({"gpu": {"cards": cards}}, "h")] == ["02", "82", "c1"]


@pytest.mark.parametrize("odd", [{}, {"gpu": None}, {"gpu": {"cards": None}}, {"gpu": {"cards": [None, {}]}}])
def test_a_server_without_cards_has_none(odd):
    """Missing and null sections are no error."""
    assert lxd_read.gpus(odd, "h") == ()


@pytest.mark.parametrize("case", cases("refusals.yaml"), ids=lambda case: f"{case['status']} {case['text'][:60]}")
def test_a_refusal_has_the_right_code_and_keeps_the_words(case):
    """What LXD said is told, and services can tell the kinds apart."""
    error = refusal("start alice", status=case["status"], text=case["text"])
    assert error.code == case["code"]
    assert error.brief.startswith("start alice: ")
    assert case["text"] in error.why or not case["text"]


@pytest.mark.parametrize("case", cases("ports.yaml"), ids=lambda case: str(case["device"].get("listen")))
def test_ports_taken_on_the_host(case):
    """Every form of `listen`; devices that listen inside the instance take nothing."""
    assert list(lxd_read.proxy_ports({"p": case["device"]})) == case["ports"]


@pytest.mark.parametrize("case", cases("networks.yaml"), ids=lambda case: str(case["config"]))
def test_what_a_bridge_hands_out(case):
    """Named ranges, or all of the net from .2 on."""
    found = lxd_read.network({"name": "br0", "config": case["config"]})
    assert found.gateway == case["gateway"]
    assert [list(pair) for pair in found.dhcp_ranges] == case["ranges"]


def test_what_a_bridge_has_out():
    """Every address that another card than ours has, of whatever kind; an answer of another shape is none."""
    leases = [
        {"address": "10.1.1.1", "type": "gateway"},
        {"address": "10.1.1.9", "type": "dynamic", "hwaddr": "00:16:3e:5e:f2:01"},
        {"address": "10.1.1.8", "type": "static", "hwaddr": hwaddr_for("10.1.1.8")},  # of a container that is gone
        {"address": "fd42::9", "type": "dynamic"},
        {"address": ""},
        1,
    ]
    assert lxd_read.leased(leases) == {"10.1.1.1", "10.1.1.9"}
    assert lxd_read.leased(None) == frozenset()


def test_an_instance_with_hardly_any_field():
    """Fields that are missing, null or new are no error, and unknown is None and not 0."""
    seen = lxd_read.sighting({"name": "a", "status": "Wondering", "config": None, "state": None, "new_field": 1})
    assert (seen.power, seen.init_pid, seen.disk_used_bytes, seen.created_at) == (Power.OTHER, None, None, None)
    stopped = {"pid": 0, "disk": {"root": {"usage": 0}}, "network": None}
    seen = lxd_read.sighting({"name": "a", "created_at": "0001-01-01T00:00:00Z", "location": "none", "state": stopped})
    assert (seen.init_pid, seen.disk_used_bytes, seen.created_at, seen.location) == (None, None, None, None)


def test_only_global_addresses_are_shown():
    """Link-local and loopback addresses lead nowhere."""
    network = {
        "lo": {"addresses": [{"family": "inet", "address": "127.0.0.1", "scope": "local"}]},
        "eth0": {
            "addresses": [
                {"family": "inet", "address": "10.1.2.3", "scope": "global"},
                {"family": "inet6", "address": "fe80::1", "scope": "link"},
            ]
        },
    }
    assert lxd_read.sighting({"name": "a", "state": {"network": network}}).addresses == ("10.1.2.3",)


def test_a_dir_pool_does_not_enforce_sizes():
    """On `dir` a size is only a wish, and that is said."""
    space = {"space": {"total": 100, "used": 0}}
    assert not lxd_read.pool({"name": "p", "driver": "dir"}, space).enforces_quota
    found = lxd_read.pool({"name": "p", "driver": "btrfs"}, space)
    assert (found.enforces_quota, found.size_bytes, found.used_bytes) == (True, 100, 0)
    assert lxd_read.pool({"name": "p", "driver": "btrfs"}, {}).used_bytes is None


@pytest.mark.parametrize(
    ("error", "word"),
    [(FileNotFoundError(), "no socket"), (ConnectionRefusedError(), "nobody listens"), (PermissionError(), "opened")],
)
def test_missing_refused_and_denied_are_told_apart(error, word):
    """Each way of not reaching LXD has its own next step."""
    told = not_sent("/x/unix.socket", error, "list")
    assert told.code == "unavailable"
    assert word in " ".join(told.why)
    assert told.fix


def test_a_missing_socket_is_unavailable(tmp_path):
    """No answer at all is `unavailable`, with the socket's path."""
    with pytest.raises(LxgpuError) as caught:
        ask("GET", "/1.0", where=str(tmp_path / "unix.socket"), deadline=Deadline(1), what="list")
    assert caught.value.code == "unavailable"
    assert str(tmp_path) in caught.value.why[0]


def test_the_environment_names_the_socket(tmp_path, monkeypatch):
    """LXD_DIR decides, as it does for `lxc`; it is looked at when needed and not before."""
    monkeypatch.setenv("LXD_DIR", str(tmp_path))
    assert find_socket() == str(tmp_path / "unix.socket")


def test_without_lxd_a_lab_that_is_up_is_offered(tmp_path, monkeypatch):
    """Whoever forgot to enter the lab reads its name; folders without a socket are no lab that is up."""
    monkeypatch.delenv("LXGPU_LAB", raising=False)
    monkeypatch.setenv("LXGPU_LAB_ROOT", str(tmp_path))
    missing = FileNotFoundError(2, "No such file or directory")
    assert "--name LAB" in not_sent("/x", missing, "list").fix
    (tmp_path / "down" / "lxd").mkdir(parents=True)
    with contextlib.ExitStack() as opened:
        for name in ("two", "one"):
            (tmp_path / name / "lxd").mkdir(parents=True)
            wire = opened.enter_context(socket.socket(socket.AF_UNIX))
            wire.bind(str(tmp_path / name / "lxd" / "unix.socket"))
        fix = not_sent("/x", missing, "list").fix
    assert fix.startswith('eval "$(lxgpu lab env --name one)" enters the lab; or install or start LXD')
    assert fix.endswith("(other labs: two)")


@pytest.mark.parametrize("error", [FileNotFoundError(), ConnectionRefusedError()])
def test_inside_a_lab_the_remedy_is_the_labs(error, monkeypatch):
    """Its LXD is no unit of systemd."""
    monkeypatch.setenv("LXGPU_LAB", "x")
    fix = not_sent("/x/unix.socket", error, "list").fix
    assert "lxgpu lab up --name x" in fix
    assert "systemctl" not in fix
