"""Full disks, stale ETags, and hands behind our back: the right outcome each time, and no card lent twice."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from house import House, house_for, until

from lxgpu.lab import Lab
from lxgpu.lab.spec import Card

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def house(lab: Lab) -> Iterator[House]:
    """Ann and ben have containers, and no card."""
    for house in house_for(lab):
        house.ok("create", "ann")
        house.ok("create", "ben")
        yield house


@pytest.fixture
def card(house: House) -> Iterator[Card]:
    """The one card that ann holds when the test begins; nobody holds any when it ends."""
    house.ok("attach", "ann", "--gpus", "1")
    yield house.card_of("ann")
    for name in {"anncopy", "cat"} & set(house.instances()):  # what a failed test has left
        house.lxc("delete", "--force", name)
    house.lxc("delete", "ann/old", check=False)
    for name in ("ann", "ben"):
        if house.held(name):
            house.run("release", name, "--all", "--yes")


@contextmanager
def full_pool(house: House) -> Iterator[None]:
    """The pool without a free block, as far as it lets itself be filled."""
    place = f"{house.lab.lxd_dir}/storage-pools/default/filling"
    inside = ["nsenter", "-t", str(house.daemon()), "-m", "--"]
    script = f"mkdir -p {place}; for size in 1G 64M 4M 256k; do n=0; while fallocate -l $size {place}/$size.$n; do"
    fill = f"{script} n=$((n+1)); done; done; dd if=/dev/zero of={place}/rest bs=64k; sync -f {place}"
    subprocess.run([*inside, "sh", "-c", fill], check=False, capture_output=True, timeout=120)
    try:
        yield
    finally:
        subprocess.run([*inside, "rm", "-rf", place], check=True, timeout=120)
        subprocess.run([*inside, "btrfs", "filesystem", "sync", str(Path(place).parent)], check=True, timeout=120)


def _fill(path: Path) -> None:
    """Write a file until there is no room."""
    handle = os.open(path, os.O_CREAT | os.O_WRONLY)
    with suppress(OSError):
        while os.write(handle, b"x" * 4096):
            pass
    os.close(handle)


def opens(house: House, name: str, card: Card) -> list[int]:
    """What the card's nodes answer inside."""
    return house.opens(name, *(node.path for node in card.nodes))


OPEN, GONE = [0, 0, errno.ENXIO], [errno.ENOENT] * 3


# ---- full disks


def test_full_pool(house: House, card: Card) -> None:
    """On a full pool nothing new is made and nothing is left of the try, and cards come and go all the same."""
    before = house.world()
    with full_pool(house):
        assert house.refused(5, "create", "cat").error == "pool_full"
        assert house.world() == before
        ran = house.run("release", "ann", "--all")
        assert ran.status in {0, 8}, ran.err
        assert ran.status or opens(house, "ann", card) == GONE
    house.ok("gpu", "open", card.uuid)
    house.settled()
    assert house.slots()[card.uuid] == (None, "free")
    house.ok("attach", "ann", "--gpu", card.uuid)
    assert opens(house, "ann", card) == OPEN


def test_pool_that_fills_up_meanwhile(house: House) -> None:
    """Full in the middle of a create: undone whole, or made; never half, and the next create works."""
    process = house.start("create", "cat", "--gpus", "1")
    assert process.stderr is not None
    assert any("limits, network, cards" in line for line in process.stderr)
    with full_pool(house):
        _, err = process.communicate(timeout=140)
    assert process.returncode in {0, 8, 9}, err
    house.ok("gpu", "open", house.lab.gpus[0].uuid)
    house.settled()
    house.ok("create", "cat", "--gpus", "1", "--if-not-exists")
    house.ok("delete", "cat", "--purge", "--yes")
    house.settled()


@pytest.mark.usefixtures("card")
def test_full_disk_of_the_inventory(house: House) -> None:
    """Where the inventory cannot be written nothing is done, LXD is as before, and it goes on when there is room."""
    state = house.lab.paths.state
    aside = state.with_name("state-aside")
    _copy(state, aside)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,mode=711", "tmpfs", str(state)], check=True)
    try:
        _copy(aside, state)
        house.ok("gpus")
        before = house.instances()
        _fill(state / "fill")
        for words in (("release", "ann", "--all"), ("attach", "ben", "--gpus", "1"), ("create", "cat")):
            assert house.refused(8, *words).error == "inventory_storage"
        assert house.instances() == before
        (state / "fill").unlink()
        house.ok("attach", "ben", "--gpus", "1")
        house.ok("release", "ben", "--all")
        house.settled()
        _copy(state, aside)
    finally:
        subprocess.run(["umount", str(state)], check=True)
        _copy(aside, state)
        shutil.rmtree(aside)
    house.settled()


def _copy(source: Path, target: Path) -> None:
    """Files and folders; a daemon that ran before left sockets, which are made anew."""

    def sockets(folder: str, names: list[str]) -> list[str]:
        return [name for name in names if stat.S_ISSOCK((Path(folder) / name).lstat().st_mode)]

    shutil.copytree(source, target, dirs_exist_ok=True, ignore=sockets)


# ---- others at work


def test_somebody_else_edits_the_same_container(house: House, card: Card) -> None:
    """With `lxc config set` in a loop every ETag is stale soon: no edit is lost, no card is, and none is in doubt."""
    stop, edits = threading.Event(), []

    def edit() -> None:
        while not stop.is_set():
            with suppress(AssertionError):  # LXD lets one change wait, and refuses a third
                house.lxc("config", "set", "ann", f"user.edit{len(edits)}=x")
                edits.append(f"user.edit{len(edits)}")

    editor = threading.Thread(target=edit)
    editor.start()
    try:
        for _ in range(2):
            house.ok("release", "ann", "--all")
            assert opens(house, "ann", card) == GONE
            house.ok("attach", "ann", "--gpu", card.uuid)
            assert opens(house, "ann", card) == OPEN
    finally:
        stop.set()
        editor.join()
    config = house.instances()["ann"]["config"]
    assert len(edits) > 5
    assert set(edits) <= set(config)
    house.settled()


def test_lxd_is_away(house: House, card: Card) -> None:
    """With LXD stopped changes end with status 8 and a next step, looks go on by the inventory; nothing changed."""
    before = house.world()
    socket = house.lab.socket
    socket.rename(socket.with_name("away"))
    try:
        for words in (("release", "ann", "--all"), ("attach", "ben", "--gpus", "1"), ("create", "cat", "--gpus", "1")):
            ran = house.refused(8, *words)
            assert "fix:" in ran.err
        rows = {row["name"]: row for row in house.run("ls", "-o", "json").items}
        assert rows["ann"]["state"] == "unreachable"
        assert [gpu["uuid"] for gpu in rows["ann"]["gpus"]] == [card.uuid]
    finally:
        socket.with_name("away").rename(socket)
    assert house.world() == before


# ---- behind our back


def test_copied_behind_our_back(house: House, card: Card) -> None:
    """A copy of a holder is reported, its card is lent to nobody while it shows there, and nobody gets stuck by it.

    Started, it shares the card with the holder (LXD lets it): both are named, and the holder can always give it back.
    """
    house.lxc("copy", "ann", "anncopy")
    found = {one["code"]: one for one in house.run("inventory", "verify", "-o", "json").items}
    assert {"copy", "double_card", "foreign_card"} <= set(found)
    assert "anncopy" in found["double_card"]["text"]
    house.lxc("config", "device", "remove", "anncopy", "ssh")
    house.lxc("config", "device", "remove", "anncopy", "eth0")
    house.lxc("start", "anncopy")
    assert opens(house, "anncopy", card) == OPEN
    held = house.refused(8, "restart", "ann", "--yes")
    assert "anncopy" in held.err
    house.ok("release", "ann", "--all")
    assert opens(house, "ann", card) == GONE
    assert "anncopy" in house.refused(7, "attach", "ben", "--gpu", card.uuid).err
    house.refused(7, "attach", "ben", "--gpus", "4")
    house.ok("attach", "ben", "--gpus", "3")
    house.lxc("delete", "--force", "anncopy")
    house.settled()
    house.ok("attach", "ann", "--gpu", card.uuid)


def test_restored_behind_our_back(house: House, card: Card) -> None:
    """`lxc restore` brings an old card and an old rule back; the next change takes both, and ben keeps his card."""
    house.lxc("snapshot", "ann", "old")
    house.ok("release", "ann", "--all")
    house.ok("attach", "ben", "--gpu", card.uuid)
    house.lxc("restore", "ann", "old")
    house.lxc("delete", "ann/old")
    assert until(lambda: house.init("ann") > 0)
    codes = {one["code"] for one in house.run("inventory", "verify", "-o", "json").items}
    assert {"double_card", "extra_card"} <= codes
    house.sh("ann", f"touch /root/kept; mount --bind /dev/dri/{card.drm_render} /root/kept")
    house.ok("attach", "ben", "--gpus", "+1")
    assert opens(house, "ann", card) == GONE
    assert house.opens("ann", "/root/kept") == [errno.EPERM]
    assert opens(house, "ben", card) == OPEN
    house.settled()
    events = house.run("history", "-o", "json").items
    assert any(event["kind"] == "mended" and event["subject"] == "ann" for event in events)


def test_a_restored_card_that_is_kept_goes_to_nobody(house: House, card: Card) -> None:
    """Restored to an old card that nobody holds, ann parks it in a socket: taken off, and in quarantine, not lent."""
    house.lxc("snapshot", "ann", "old")
    house.ok("release", "ann", "--all")
    house.lxc("restore", "ann", "old")
    house.lxc("delete", "ann/old")
    assert until(lambda: house.init("ann") > 0)
    park = (
        "import os,socket,time;"
        f"f=os.open('/dev/dri/{card.drm_render}',os.O_RDWR|os.O_NOCTTY|os.O_NONBLOCK);"
        "a,b=socket.socketpair();socket.send_fds(a,[b'x'],[f]);os.close(f);open('/root/parked','w');time.sleep(999)"
    )
    house.sh("ann", f'setsid python3 -c "{park}" </dev/null >/dev/null 2>&1 &')
    assert until(lambda: house.sh("ann", "ls /root/parked", check=False))
    ran = house.run("attach", "ben", "--gpu", card.uuid)
    assert (ran.status, ran.error) == (7, "not_free"), ran.err
    assert house.slots()[card.uuid] == (None, "quarantined")
    house.refused(9, "gpu", "open", card.uuid)
    house.sh("ann", "pkill -KILL python3; rm /root/parked")
    house.ok("gpu", "open", card.uuid)
    house.ok("attach", "ben", "--gpu", card.uuid)
    house.settled()


def test_devices_edited_by_hand(house: House, card: Card) -> None:
    """Another's card added under any name is taken off again; one's own that was taken off comes back at a restart."""
    house.lxc("config", "device", "add", "ben", "mine", "gpu", f"pci={card.pci}")
    assert "extra_card" in {one["code"] for one in house.run("inventory", "verify", "-o", "json").items}
    name = next(name for name, row in house.instances()["ann"]["devices"].items() if row["type"] == "gpu")
    house.lxc("config", "device", "remove", "ann", name)
    assert opens(house, "ann", card) == GONE
    house.ok("restart", "ann", "--yes")
    assert opens(house, "ann", card) == OPEN
    assert opens(house, "ben", card) == GONE
    house.settled()


@pytest.mark.parametrize("how", ["deleted", "replaced"])
def test_removed_behind_our_back(house: House, how: str) -> None:
    """A container that somebody deleted, or put another in the place of: its card comes back, and so does its name.

    A stranger's container of that name is left alone.
    """
    house.ok("create", "cat", "--gpus", "1")
    card = house.card_of("cat")
    house.lxc("delete", "--force", "cat")
    if how == "replaced":
        house.lxc("init", "base", "cat")
    verified = house.run("inventory", "verify", "-o", "json")
    assert (verified.status, {one["subject"] for one in verified.items} & {"cat"}) == (10, {"cat"})
    house.ok("release", "cat", "--all", "--yes")
    assert house.slots()[card.uuid] == (None, "free")
    for words in (("attach", "cat", "--gpus", "1"), ("start", "cat")):
        ran = house.run(*words)
        assert ran.status in {3, 4}, ran.err
    assert house.slots()[card.uuid] == (None, "free")
    house.ok("delete", "cat", "--purge", "--yes")
    if how == "replaced":
        assert house.instances()["cat"]["config"].get("user.lxgpu.uuid") is None
        house.lxc("delete", "--force", "cat")
    house.settled()
    house.ok("create", "cat")
    house.ok("delete", "cat", "--purge", "--yes")
