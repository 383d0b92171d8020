"""Isolation on the real kernel: a card opens in its holder's container, and nowhere else, whatever root inside does."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from house import House, house_for, numbers_of, until
from labkit import Launch

from lxgpu.lab import Lab
from lxgpu.lab.spec import Card

pytestmark = pytest.mark.lab

SHARED = "/mnt/shared"
LOG = "/root/first"
# PID 1 of the container, before systemd: it asks whether the shared nodes open, and notes it.
FIRST = f"""#!/bin/sh
for node in {SHARED}/*; do
  if (exec 3<>"$node") 2>/dev/null; then echo "$node opens" >>{LOG}; fi
done
for node in /dev/dri/*; do
  if (exec 3<>"$node") 2>/dev/null; then echo "mine opens" >>{LOG}; fi
done
echo "pid $$ asked" >>{LOG}
exec /lib/systemd/systemd
"""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of the host that everybody may share."""
    folder = tmp_path_factory.mktemp("shared")
    for path in (folder, *folder.parents[:2]):
        path.chmod(0o755)
    return folder


@pytest.fixture(scope="module")
def house(lab: Lab, shared: Path) -> Iterator[House]:
    """Alice holds a card and bob none; both share a folder in which somebody put the nodes of all cards."""
    for name, (major, minor) in numbers_of(*lab.gpus).items():
        os.mknod(shared / name, stat.S_IFCHR | 0o666, os.makedev(major, minor))
        (shared / name).chmod(0o666)
    for house in house_for(lab):
        house.ok("create", "alice", "--gpus", "1")
        house.ok("create", "bob")
        for name in ("alice", "bob"):
            house.lxc("config", "device", "add", name, "shared", "disk", f"source={shared}", f"path={SHARED}")
        yield house


def shared_paths(*cards: Card) -> list[str]:
    """The nodes of some cards in the shared folder, in order of their numbers' names."""
    return [f"{SHARED}/{name}" for name in numbers_of(*cards)]


def others(house: House, name: str) -> list[Card]:
    """The cards that a container does not hold."""
    held = house.cards_of(name)
    return [card for card in house.lab.gpus if card not in held]


def render(card: Card) -> str:
    """The node that can really be opened."""
    return f"/dev/dri/{card.drm_render}"


def test_the_holder_opens_her_card(house: House) -> None:
    """In alice's container exactly her card's nodes are there, and open; over SSH too, as alice."""
    card = house.card_of("alice")
    paths = [node.path for node in card.nodes]
    assert house.opens("alice", *paths) == [0, 0, errno.ENXIO]
    assert house.sh("alice", "ls /dev/dri").split() == sorted([card.drm_card, card.drm_render])
    assert house.ssh("alice", f"id -un; exec 3<>{render(card)} && echo open").out.split() == ["alice", "open"]


def test_no_node_and_none_can_be_made(house: House) -> None:
    """In bob's container there is no card's node, and root there cannot make one, nor mount a /dev that has one."""
    card = house.card_of("alice")
    assert house.sh("bob", "ls -d /dev/dri /dev/nvidia[0-9]* 2>/dev/null; true") == ""
    for major, minor in numbers_of(*house.lab.gpus).values():
        for before in ("", "unshare --user --map-root-user ", "unshare --mount "):
            script = f"{before}mknod /root/node c {major} {minor} 2>&1; ls /root/node 2>&1; true"
            told = house.sh("bob", script)
            assert "Operation not permitted" in told
            assert "No such file" in told
    for kind in ("devtmpfs", "sysfs -o rw"):
        house.sh("bob", f"mkdir -p /root/m; mount -t {kind} none /root/m 2>/dev/null; true")
    assert house.opens("bob", f"/root/m/dri/{card.drm_render}", f"/root/m/nvidia{card.minor}") == [errno.ENOENT] * 2
    house.sh("bob", "umount /root/m 2>/dev/null; true")


def test_a_node_in_a_shared_folder(house: House, shared: Path, launch: Launch) -> None:
    """A node that reaches bob in a shared folder answers EPERM; without lxgpu's rule it would open."""
    plain = launch(house.lab)
    house.lxc("config", "device", "add", plain, "shared", "disk", f"source={shared}", f"path={SHARED}")
    card = house.card_of("alice")
    assert house.opens(plain, *shared_paths(card)) == [0, 0, errno.ENXIO], "the folder's nodes are no proof"
    every = shared_paths(*house.lab.gpus)
    assert house.opens("bob", *every) == [errno.EPERM] * len(every)
    assert house.opens("alice", *shared_paths(card)) == [0, 0, errno.ENXIO]
    rest = shared_paths(*others(house, "alice"))
    assert house.opens("alice", *rest) == [errno.EPERM] * len(rest)


def test_root_inside_cannot_lift_the_rule(house: House) -> None:
    """Bob writes to every devices.allow that he can find or mount, and moves about in cgroups: still EPERM."""
    path = shared_paths(house.card_of("alice"))[1]
    house.sh(
        "bob",
        "mkdir -p /root/cg; mount -t cgroup -o devices cg /root/cg 2>/dev/null;"
        " for file in $(find /sys/fs/cgroup /root/cg -name devices.allow 2>/dev/null); do"
        "  echo 'a *:* rwm' >$file; echo 'c *:* rwm' >$file; done 2>/dev/null;"
        " for folder in /sys/fs/cgroup/devices /root/cg; do mkdir -p $folder/mine &&"
        "  echo $$ >$folder/mine/cgroup.procs; echo a >$folder/mine/devices.allow; done 2>/dev/null; true",
    )
    ask = f"(exec 3<>{path}) 2>&1; true"
    for how in ("", "unshare --user --map-root-user ", "unshare --cgroup ", "setsid ", "systemd-run --quiet --pipe "):
        assert "Operation not permitted" in house.sh("bob", f"{how}sh -c '{ask}'"), how
    places = house.sh("bob", "find /sys/fs/cgroup /root/cg -path '*/mine/cgroup.procs' 2>/dev/null; true").split()
    for place in places:
        assert house.sh("bob", f"echo $$ >{place}; (exec 3<>{path}) 2>/dev/null && echo opens; true") == ""
    assert house.opens("bob", path) == [errno.EPERM]


@pytest.mark.parametrize("how", ["lxc restart", "lxc stop and start", "reboot inside", "lxgpu restart"])
def test_from_the_first_process_on(house: House, how: str) -> None:
    """PID 1 of a container that just started opens no card but its own, whoever restarted it."""
    for name in ("alice", "bob"):
        _restart(house, name, how)
    mine = [f"{path} opens" for path in sorted(shared_paths(house.card_of("alice"))) if "nvidia" not in path]
    told = sorted([*mine, "mine opens", "pid 1 asked"])
    assert until(lambda: house.sh("alice", f"sort -u {LOG}", check=False).splitlines() == told)
    assert until(lambda: house.sh("bob", f"cat {LOG}", check=False).splitlines() == ["pid 1 asked"])
    rest = shared_paths(*others(house, "alice"))
    assert house.opens("alice", *rest) == [errno.EPERM] * len(rest)


def _restart(house: House, name: str, how: str) -> None:
    house.sh(name, f"cat >/root/first.sh <<'X'\n{FIRST}X\nchmod 755 /root/first.sh")
    house.sh(name, f"ln -sf /root/first.sh /sbin/init; rm -f {LOG}")
    before = house.init(name)
    if how == "lxc restart":
        house.lxc("restart", "--force", name)
    elif how == "lxc stop and start":
        house.lxc("stop", "--force", name)
        house.lxc("start", name)
    elif how == "reboot inside":
        house.sh(name, "systemctl reboot --force --force", check=False)
    else:
        house.ok("restart", name, "--yes")
    assert until(lambda: house.init(name) not in {before, 0, -1}), how
    assert until(lambda: "asked" in house.sh(name, f"cat {LOG}", check=False)), how


def test_what_was_kept_opens_no_more_after_release(house: House) -> None:
    """A bind mount of the node, or a mount namespace pinned without a process, is worth nothing after `release`.

    Nor when bob has the card, nor when alice has another one.
    """
    card = house.card_of("alice")
    house.sh(
        "alice",
        f"touch /root/keep && mount --bind {render(card)} /root/keep;"
        " mkdir -p /root/ns && mount --bind /root/ns /root/ns && mount --make-private /root/ns && touch /root/ns/pin;"
        # A namespace can be pinned only from one that the kernel counts as older, and Linux 6.18 numbers them by CPU:
        # a new one may count as older than we are, whence a few tries.
        " for try in $(seq 50); do rm -f /root/ns/ready;"
        " unshare --mount sh -c 'mkdir -p /root/own && mount -t tmpfs none /root/own && touch /root/own/keep &&"
        f" mount --bind {render(card)} /root/own/keep && touch /root/ns/ready && exec sleep 60' >/dev/null 2>&1 &"
        " for turn in $(seq 100); do [ -e /root/ns/ready ] && break; sleep 0.1; done;"
        " mount --bind /proc/$!/ns/mnt /root/ns/pin 2>/dev/null; said=$?; kill $!;"
        " [ $said = 0 ] && exit; done; exit $said",
    )
    pinned = "nsenter --mount=/root/ns/pin sh -c '(exec 3<>/root/own/keep) 2>&1 && echo opens; true'"
    assert house.opens("alice", "/root/keep") == [0]
    assert house.sh("alice", pinned) == "opens"
    house.ok("release", "alice", "--all")

    def denied() -> None:
        every = ["/root/keep", *shared_paths(card)]
        assert house.opens("alice", *every) == [errno.EPERM] * len(every)
        assert "Operation not permitted" in house.sh("alice", pinned)

    denied()
    house.ok("attach", "bob", "--gpu", card.uuid)
    assert house.opens("bob", render(card), *shared_paths(card)[:2]) == [0, 0, 0]
    denied()
    house.ok("attach", "alice", "--gpus", "1")
    denied()
    assert house.opens("alice", *(node.path for node in house.card_of("alice").nodes)) == [0, 0, errno.ENXIO]
    house.settled()
    house.ok("release", "bob", "--gpu", card.uuid)
    house.ok("attach", "alice", "--gpu", card.uuid)
    assert house.opens("alice", "/root/keep", render(card)) == [0, 0]


def test_a_stranger_with_a_card_keeps_it_from_everybody(house: House, launch: Launch) -> None:
    """A card that somebody's own container has by any device is reported by name and lent to nobody.

    Here by a device that passes all cards, by a folder with its node, and by a profile.
    """
    plain = launch(house.lab)
    free = [card for card in house.lab.gpus if house.slots()[card.uuid][1] == "free"]
    card = free[-1]
    house.lxc("config", "device", "add", plain, "theirs", "gpu")
    assert plain in house.refused(7, "attach", "bob", "--gpu", free[0].uuid).err
    _kept_from_everybody(house, plain, card, 0)
    house.lxc("config", "device", "remove", plain, "theirs")
    house.lxc("config", "device", "add", plain, "theirs", "disk", "source=/dev/dri", "path=/mnt/dri")
    assert house.opens(plain, f"/mnt/dri/{card.drm_render}") == [0]
    _kept_from_everybody(house, plain, card, 0)
    house.lxc("config", "device", "remove", plain, "theirs")
    house.lxc("profile", "device", "add", "default", "theirs", "gpu", f"pci={card.pci}")
    try:
        _kept_from_everybody(house, plain, card, len(free) - 1)
    finally:
        house.lxc("profile", "device", "remove", "default", "theirs")
    assert house.slots()[card.uuid] == (None, "free")


def _kept_from_everybody(house: House, plain: str, card: Card, left: int) -> None:
    """Only `left` cards are free, the card is not among them, and it is said who has it."""
    assert plain in house.refused(7, "attach", "bob", "--gpus", str(left + 1)).err
    found = house.run("inventory", "verify", "-o", "json")
    assert found.status == 10
    assert any(one["subject"] == card.uuid and plain in one["text"] for one in found.items)
