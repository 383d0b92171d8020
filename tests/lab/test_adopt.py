"""Containers made by hand, copies and deleted ones on a real LXD: taken over with what they have, or left alone."""

from __future__ import annotations

import errno
import signal
from collections.abc import Iterator

import pytest
from house import House, house_for, until

from lxgpu.lab import Lab

pytestmark = pytest.mark.lab

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGCxwX5Je8bgcNoDkkrBxz/PhQdDwATq6Fc2QCMtSeSh by-hand"


@pytest.fixture
def house(lab: Lab) -> Iterator[House]:
    """The lab, empty before and after."""
    yield from house_for(lab)


def by_hand(house: House, letter: str, *, card: int | None = None, account: bool = False) -> str:
    """A running container as people make them with lxc."""
    name = f"{house.lab.name}{letter}"
    house.lxc("launch", "base", name, "--quiet", "-c", "limits.memory=600MiB")
    if card is not None:
        house.lxc("config", "device", "add", name, "g0", "gpu", f"pci={house.lab.gpus[card].pci}")
    if account:
        script = f"useradd -m -u 1000 -s /bin/bash {name}; cd ~{name}; echo mine >file; mkdir .ssh; echo '{KEY}'"
        house.sh(name, f"{script} >.ssh/authorized_keys; chown -R {name} .")
    return name


def test_it_lives_on_with_its_card(house: House) -> None:
    """Without an account of the person inside: no restart, the card stays, and no other one opens."""
    name = by_hand(house, "h", card=0)
    assert until(lambda: house.query(f"/1.0/instances/{name}/state")["network"]["eth0"]["addresses"])
    assert until(lambda: "inet" in str(house.query(f"/1.0/instances/{name}/state")["network"]["eth0"]["addresses"]))
    init = house.init(name)
    house.ok("adopt", name)
    assert house.init(name) == init
    assert house.card_of(name).uuid == house.lab.gpus[0].uuid
    assert house.ssh(name, "id -un").out == f"{name}\n"
    (row,) = house.ok("ls", "-o", "json").items
    assert row["limits"]["memory_bytes"] == 600 * 2**20
    other = next(node for node in house.lab.gpus[1].nodes if "renderD" in node.path)
    house.sh(name, f"mknod /root/n c {other.major} {other.minor} 2>/dev/null; true")
    house.settled()
    house.ok("release", name, "--all", "--yes")
    house.settled()


def test_the_home_moves_and_nothing_is_lost(house: House) -> None:
    """With an account: a restart that wants --yes, the home on a volume, its keys adopted, the old home beside it."""
    name = by_hand(house, "h", card=1, account=True)
    ran = house.refused(2, "adopt", name)
    assert "home" in ran.err
    house.ok("adopt", name, "--yes")
    assert house.sh(name, f"cat /home/{name}/file /home/{name}.before-lxgpu/file; id -u {name}").split() == [
        "mine",
        "mine",
        "1000",
    ]
    assert f"home-{name}" in house.volumes()
    assert [row["comment"] for row in house.ok("keys", "ls", name, "-o", "json").items] == ["by-hand"]
    house.settled()
    house.ok("rebuild", name, "--yes")
    assert house.sh(name, f"cat /home/{name}/file") == "mine"
    house.settled()


@pytest.mark.parametrize("device", ["lxgpu-home", "home"])
def test_killed_in_the_middle(house: House, device: str) -> None:
    """Kill -9 while it is being taken over: the next command ends it, and the home is there once and whole."""
    name = by_hand(house, "h", card=0, account=True)
    process = house.start("adopt", name, "--yes")
    assert until(lambda: device in house.instances()[name]["devices"])
    process.send_signal(signal.SIGKILL)
    process.communicate()
    house.ok("gpu", "open", house.lab.gpus[-1].uuid)
    assert house.sh(name, f"cat /home/{name}/file") == "mine"
    house.settled()


def test_what_cannot_be_adopted_is_left_as_it_was(house: House) -> None:
    """No sshd inside: configuration, devices, account, home and the open card are as before, and it runs."""
    name = by_hand(house, "h", card=0, account=True)
    house.sh(name, "mv /usr/sbin/sshd /usr/sbin/sshd.away")
    before = house.instances()[name]
    passwd = house.sh(name, "cat /etc/passwd")
    ran = house.refused(8, "adopt", name, "--yes")
    assert "openssh-server" in ran.err
    after = house.instances()[name]
    own = {key: value for key, value in after["config"].items() if not key.startswith("volatile.")}
    assert own == {key: value for key, value in before["config"].items() if not key.startswith("volatile.")}
    assert (after["devices"], after["status"]) == (before["devices"], "Running")
    assert house.sh(name, "cat /etc/passwd") == passwd
    assert house.sh(name, f"cat /home/{name}/file; ls /home") == f"mine\n{name}"
    assert house.volumes() == set()
    render = next(node.path for node in house.lab.gpus[0].nodes if "renderD" in node.path)
    assert house.opens(name, render) == [0]
    assert house.records().instances == ()


def test_refusals_name_the_device_and_the_holder(house: House) -> None:
    """A device that passes every card, and a card that somebody holds: refused, and nothing is changed."""
    alice = f"{house.lab.name}a"
    house.ok("create", alice, "--gpus", "1")
    name = by_hand(house, "h")
    house.lxc("config", "device", "add", name, "all", "gpu")
    before = house.world()
    assert "passes every card" in house.refused(6, "adopt", name).err
    house.lxc("config", "device", "remove", name, "all")
    house.lxc("config", "device", "add", name, "g0", "gpu", f"pci={house.card_of(alice).pci}")
    assert f"held by {alice}" in house.refused(7, "adopt", name).err
    house.lxc("config", "device", "remove", name, "g0")
    assert house.world()["records"] == before["records"]


def test_a_copy_of_ours_becomes_somebody_elses(house: House) -> None:
    """Copied with card, port and address: adopted it has its own, the card stays with the original, and is closed."""
    alice, eve = f"{house.lab.name}a", f"{house.lab.name}e"
    house.ok("create", alice, "--gpus", "1")
    house.lxc("copy", alice, eve)
    house.ok("adopt", eve)
    house.ok("start", eve)
    assert house.ssh(eve, "id -un").out == f"{eve}\n"
    card = house.card_of(alice)
    assert house.cards_of(eve) == []
    render = next(node for node in card.nodes if "renderD" in node.path)
    assert house.opens(eve, render.path) == [errno.ENOENT]
    house.settled()


def test_out_of_the_trash(house: House) -> None:
    """Deleted and adopted again: old name, old home, old port, and the login works."""
    alice = f"{house.lab.name}a"
    house.ok("create", alice, "--gpus", "1")
    house.ssh(alice, "echo mine >file; sudo touch /etc/kept")
    port = house.ok("ls", "-o", "json").items[0]["ssh"]["port"]
    house.ok("delete", alice, "--yes")
    house.ok("adopt", f"trash-{alice}")
    assert house.ok("ls", "-o", "json").items[0]["ssh"]["port"] == port
    assert house.ssh(alice, "cat file; ls /etc/kept").out.split() == ["mine", "/etc/kept"]
    house.settled()
