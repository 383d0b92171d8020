"""What every `ports.HostSetup` promises, the fake and the real one (on a tree of files)."""

from __future__ import annotations

import os
import socket
from dataclasses import replace
from pathlib import Path

import pytest
from fakes.setup import SOUND, FakeSetup

from lxgpu.drivers.hostfacts import SYSCTL_FILE, LocalSetup, knock, local_addresses
from lxgpu.errors import LxgpuError
from lxgpu.ports.facts import Door, FileMode, IdRange, Places

TRIE = """\
Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 0.0.0.0
        /0 universe UNICAST
     +-- 10.0.0.0/24 2 0 2
        |-- 10.0.0.0
           /24 link UNICAST
        |-- 10.0.0.1
           /32 host LOCAL
        |-- 10.0.0.255
           /32 link BROADCAST
     |-- 127.0.0.1
        /32 host LOCAL
"""
NAMES = ("fs.inotify.max_user_instances", "vm.max_map_count", "kernel.keys.maxkeys")


def _tree(root: Path) -> Path:
    """A host as Debian is, below a folder."""
    texts = {
        "proc/sys/fs/inotify/max_user_instances": "128\n",
        "proc/sys/vm/max_map_count": "65530\n",
        "proc/sys/net/ipv4/ip_local_port_range": "32768\t60999\n",
        "proc/self/mountinfo": "22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n",
        "proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.90.07  Release\n",
        "etc/subuid": "alice:100000:65536\nroot:1000000:65536\n",
        "etc/subgid": "root:1000000:1000\nbroken line\n",
        "usr/lib/x86_64-linux-gnu/libnvidia-ml.so.550.107.02": "",
        "dev/nvidiactl": "",
        "usr/bin/newuidmap": "",
        "policy.yaml": "version: 1\n",
    }
    for name, text in texts.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (root / "usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1").symlink_to("libnvidia-ml.so.550.107.02")
    (root / "policy.yaml").chmod(0o666)
    return root


def _places(root: Path) -> Places:
    return Places(
        socket=str(root / "no.socket"),
        listen="127.0.0.1",
        state_dir=root / "state",
        secret=(),
        public=(root / "policy.yaml", root / "not-there"),
        keys_made=root / "state" / "keys",
    )


@pytest.fixture(params=["fake", "real"])
def setup(request, tmp_path):
    """A host with small parameters and a policy file that everybody may write."""
    if request.param == "real":
        return LocalSetup(_tree(tmp_path))
    file = FileMode(path=str(tmp_path / "policy.yaml"), mode=0o100666, uid=0, secret=False)
    small = {"fs.inotify.max_user_instances": 128, "vm.max_map_count": 65530}
    return FakeSetup(replace(SOUND, sysctls=small, files=(file,)))


def test_parameters_are_those_asked_for(setup, tmp_path):
    """One that cannot be read is None, never 0."""
    found = setup.facts(_places(tmp_path), NAMES).sysctls
    assert found == {NAMES[0]: 128, NAMES[1]: 65530, NAMES[2]: None}


def test_a_parameter_that_was_set_is_read_back(setup, tmp_path):
    """And the others are as they were."""
    setup.set_sysctl("vm.max_map_count", 262144)
    found = setup.facts(_places(tmp_path), NAMES).sysctls
    assert (found["vm.max_map_count"], found["fs.inotify.max_user_instances"]) == (262144, 128)


def test_a_mode_that_was_set_is_read_back(setup, tmp_path):
    """What is no file that is there is left out."""
    path = str(tmp_path / "policy.yaml")
    setup.set_mode(path, 0o644)
    (file,) = setup.facts(_places(tmp_path), ()).files
    assert (file.path, file.mode & 0o7777) == (path, 0o644)


def test_a_parameter_is_kept_for_the_next_boot_once(tmp_path):
    """Set twice it has one line, and other lines of the file stay."""
    setup = LocalSetup(_tree(tmp_path))
    for value in (1024, 2048):
        setup.set_sysctl("fs.inotify.max_user_instances", value)
    setup.set_sysctl("vm.max_map_count", 262144)
    lines = (tmp_path / SYSCTL_FILE).read_text().splitlines()
    assert lines[1:] == ["fs.inotify.max_user_instances = 2048", "vm.max_map_count = 262144"]


@pytest.mark.parametrize("name", ["../../etc/passwd", "vm", "vm.max_map_count\n", "vm..x"])
def test_only_kernel_parameters_are_written(tmp_path, name):
    """No name leads out of /proc/sys."""
    with pytest.raises(LxgpuError):
        LocalSetup(_tree(tmp_path)).set_sysctl(name, 1)


def test_a_link_is_not_followed_when_a_mode_is_set(tmp_path):
    """Whoever may put a link there cannot have another file's mode changed."""
    target, link = tmp_path / "target", tmp_path / "link"
    target.touch(mode=0o666)
    target.chmod(0o666)
    link.symlink_to(target)
    with pytest.raises(LxgpuError):
        LocalSetup(tmp_path).set_mode(str(link), 0o600)
    assert target.stat().st_mode & 0o777 == 0o666


def test_a_host_is_read_from_its_files(tmp_path):
    """Driver and library have their own versions, only root's id ranges count, a missing node is missing."""
    found = LocalSetup(_tree(tmp_path)).facts(_places(tmp_path), ())
    assert (found.driver, found.library) == ("550.90.07", "550.107.02")
    assert (found.subuid, found.subgid) == ((IdRange(1000000, 65536),), (IdRange(1000000, 1000),))
    assert (found.nodes["nvidiactl"], found.nodes["nvidia-uvm"]) == (True, False)
    assert (found.local_ports, found.state_kind, found.shadow) == ((32768, 60999), "ext4", True)
    assert (found.cgroups, found.rules) == ("none", {})


def test_private_keys_are_told_from_public_ones(tmp_path):
    """By what stands in them."""
    folder = tmp_path / "state" / "keys"
    folder.mkdir(parents=True)
    (folder / "alice").write_text("-----BEGIN OPENSSH PRIVATE KEY-----\n")
    (folder / "alice.pub").write_text("ssh-ed25519 AAAA alice\n")
    assert LocalSetup(_tree(tmp_path)).facts(_places(tmp_path), ()).private_keys == (str(folder / "alice"),)


def test_an_address_of_another_host_is_told(tmp_path):
    """192.0.2.0/24 is nobody's."""
    places = replace(_places(tmp_path), listen="192.0.2.77")
    assert LocalSetup(_tree(tmp_path)).facts(places, ()).listen_error == "no address of this host"
    assert LocalSetup(_tree(tmp_path / "b")).facts(_places(tmp_path), ()).listen_error == ""


def test_the_addresses_of_another_network_are_read():
    """Only what is local there counts: not its networks, not the broadcast addresses."""
    assert local_addresses(TRIE) == {"10.0.0.1", "127.0.0.1"}


def test_a_socket_says_why_nobody_answers(tmp_path):
    """Missing, refused and open are three things."""
    path = tmp_path / "s"
    assert knock(str(path)) is Door.MISSING
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        assert knock(str(path)) is Door.REFUSED
        server.listen()
        assert knock(str(path)) is Door.OPEN


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may make cgroups")
def test_the_device_rule_is_tried_and_leaves_nothing():
    """Every way that this kernel offers says whether it works, and the cgroups made for it are gone."""
    from lxgpu.drivers.cgroups import Cgroups  # noqa: PLC0415 -- one test needs them
    from lxgpu.drivers.rule_trial import try_rules, version  # noqa: PLC0415

    cgroups = Cgroups()
    found = try_rules(cgroups)
    assert set(found) == {"v1": {"v1"}, "v2": {"bpf"}, "hybrid": {"v1", "bpf"}, "none": set()}[version(cgroups)]
    assert set(found.values()) <= {""}
    for name in ("devices", ""):
        tree = cgroups.tree(name)
        assert tree is None or not list(tree.glob("lxgpu-doctor-*"))
