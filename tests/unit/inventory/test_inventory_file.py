"""The inventory's file: who may read it, where it may lie, and what happens when it is taken away or spoiled."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import subprocess
import tempfile
from pathlib import Path

import inventory_rows as make
import pytest

from lxgpu.errors import LxgpuError
from lxgpu.inventory.place import file_system
from lxgpu.inventory.store import open_inventory, open_readonly

ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root may become somebody else")


@pytest.fixture
def path(tmp_path) -> Path:
    """Where an inventory with alice in it lies."""
    place = tmp_path / "lib" / "inventory.db"
    with open_inventory(place) as inventory:
        add(inventory, "alice")
    return place


def add(inventory, name):
    """Write one person."""
    with inventory.write(actor="root", now=make.T0) as tx:
        tx.put(make.person(name))


def names(inventory):
    """The people in it."""
    return [person.name for person in inventory.read().persons]


def refused(do, *args):
    """The error that a call ends with."""
    with pytest.raises(LxgpuError) as caught:
        do(*args)
    assert caught.value.fix
    return caught.value


def test_only_root_can_read_it(tmp_path):
    """The file has mode 0600 in a folder of mode 0700, and so have the files that SQLite puts beside it."""
    with open_inventory(tmp_path / "a" / "b" / "inventory.db") as inventory:
        add(inventory, "alice")
        folder = inventory.path.parent
        modes = {each.name: each.stat().st_mode & 0o777 for each in folder.iterdir()}
        assert folder.stat().st_mode & 0o777 == 0o700
    assert modes == {"inventory.db": 0o600, "inventory.db-wal": 0o600, "inventory.db-shm": 0o600}


def test_what_was_written_is_there_after_closing(path):
    """Closing and opening changes nothing."""
    with open_inventory(path) as inventory:
        assert (names(inventory), inventory.read().version) == (["alice"], 1)


def test_a_relative_path_and_a_link_name_the_same_file(path, monkeypatch):
    """What SQLite puts beside the file is beside the real one, and another working folder changes nothing."""
    link = path.parent.parent / "link.db"
    link.symlink_to(path)
    monkeypatch.chdir(path.parent)
    with open_inventory(Path("inventory.db")) as here, open_readonly(link) as there:
        monkeypatch.chdir("/")
        add(here, "bob")
        assert names(here) == names(there) == ["alice", "bob"]
    assert not link.with_name("link.db-wal").exists()


# ---- reading only


def test_reading_only_writes_nothing(path):
    """Opened for reading it makes no file, and refuses to write."""
    before = [(each.name, each.stat().st_mtime_ns) for each in path.parent.iterdir()]
    with open_readonly(path) as inventory:
        assert names(inventory) == ["alice"]
        assert inventory.operation("o1") is None
        assert (inventory.events(), inventory.assignments_at(make.T0).assignments) == ([], ())
        error = refused(add, inventory, "bob")
        inventory.check()
    assert error.code == "not_allowed"
    assert [(each.name, each.stat().st_mtime_ns) for each in path.parent.iterdir()] == before


def test_reading_only_sees_what_others_write(path):
    """With a writer at work, its log is read too."""
    with open_inventory(path) as writer, open_readonly(path) as reader:
        add(writer, "bob")
        assert names(reader) == ["alice", "bob"]
        add(writer, "carol")
        assert names(reader) == ["alice", "bob", "carol"]


def test_a_missing_inventory_is_not_made_by_reading(tmp_path):
    """Reading only makes nothing up."""
    assert refused(open_readonly, tmp_path / "inventory.db").code == "not_found"
    assert list(tmp_path.iterdir()) == []


READ_AS_NOBODY = """
os.setgroups([]); os.setgid(65534); os.setuid(65534)
try:
    print(*[person.name for person in open_readonly(path).read().persons])
except LxgpuError as error:
    print(error.code)
"""


@ROOT
@pytest.mark.parametrize("writing", [False, True], ids=["closed", "a writer at work"])
@pytest.mark.parametrize(("mode", "told"), [(0o644, "alice"), (0o600, "not_allowed")], ids=["open to all", "private"])
def test_reading_needs_no_more_than_the_right_to_read(start, writing, mode, told):
    """A user whom the modes let read can read, although SQLite would want to write beside the file."""
    folder = Path(tempfile.mkdtemp(prefix="lxgpu-test-", dir="/var/tmp"))
    folder.chmod(0o755)
    try:
        path = folder / "inventory.db"
        path.touch()
        path.chmod(mode)
        inventory = open_inventory(path)
        add(inventory, "alice")
        if not writing:
            inventory.close()
        output, _ = start(READ_AS_NOBODY, path).communicate()
        inventory.close()
    finally:
        shutil.rmtree(folder)
    assert output.split() == [told]


# ---- the file goes away


def test_a_removed_file_is_noticed(path):
    """After `rm` under a running command, neither reads nor writes go on as if nothing had happened."""
    with open_inventory(path) as fresh, open_inventory(path) as inventory:
        add(inventory, "zoe")
        path.unlink()
        for do in (inventory.read, inventory.events, lambda: add(inventory, "bob"), lambda: add(fresh, "bob")):
            error = refused(do)
            assert (error.code, int(error.status)) == ("inventory_lost", 6)
            assert error.fix == "lxgpu inventory rebuild"


def test_a_file_removed_inside_a_transaction_is_noticed(path):
    """The last look is just before the commit."""

    def write():
        with inventory.write(actor="root", now=make.T0) as tx:
            tx.put(make.person("bob"))
            path.unlink()

    with open_inventory(path) as inventory:
        assert refused(write).code == "inventory_lost"


def test_a_replaced_file_is_noticed(path):
    """Another file of the same name is not the one that was opened, and is not written to."""
    with open_inventory(path) as old:
        path.unlink()
        with open_inventory(path) as new:
            assert (names(new), new.read().version) == ([], 0)
            add(new, "carol")
            error = refused(add, old, "bob")
            assert (error.code, "new inventory" in error.fix) == ("inventory_lost", True)
            assert refused(old.read).code == "inventory_lost"
            assert names(new) == ["carol"]
            new.check()
    with open_inventory(path) as again:
        assert names(again) == ["carol"]


def test_a_removed_file_is_noticed_before_an_old_version(path):
    """Who decided on the removed file is told that it is gone, not to decide again."""
    with open_inventory(path) as inventory:
        add(inventory, "zoe")
        path.unlink()
        error = refused(inventory.write(actor="root", now=make.T0, expected=0).__enter__)
    assert error.code == "inventory_lost"


def test_who_still_has_the_removed_file_open_is_in_nobodys_way(start, path):
    """A process in the middle of a transaction on the removed file neither blocks the new one nor reaches it."""
    child = start(
        """
try:
    with open_inventory(path).write(actor="root", now=make.T0) as tx:
        tx.put(make.person("bob"))
        print("in it", flush=True)
        sys.stdin.readline()
except LxgpuError as error:
    print(error.code, flush=True)
""",
        path,
    )
    assert child.stdout.readline() == "in it\n"
    path.unlink()
    with open_inventory(path, timeout_s=0.05) as new:
        add(new, "carol")
        child.stdin.write("\n")
        child.stdin.flush()
        assert child.stdout.readline() == "inventory_lost\n"
        add(new, "dave")
    with open_inventory(path) as new:
        assert names(new) == ["carol", "dave"]
        new.check()


def test_a_log_that_was_left_behind_is_not_taken_for_the_new_file(path):
    """`rm inventory.db` while others write leaves their log; a new inventory starts empty all the same."""
    inventory = open_inventory(path)
    add(inventory, "bob")
    log = path.with_name("inventory.db-wal").read_bytes()
    assert log
    inventory.close()
    path.unlink()
    path.with_name("inventory.db-wal").write_bytes(log)
    with open_inventory(path) as new:
        assert names(new) == []
        new.check()


# ---- the file is no good


def test_a_newer_inventory_is_left_alone(path):
    """An older lxgpu neither opens nor goes on with what a newer one has changed."""
    with open_inventory(path) as running:
        raw = sqlite3.connect(path)
        raw.execute("INSERT INTO migrations VALUES (99, 'future', '', '')")
        raw.commit()
        raw.close()
        for do in (lambda: open_inventory(path), running.read, lambda: add(running, "bob")):
            error = refused(do)
            assert (error.code, int(error.status)) == ("inventory_newer", 6)
            assert "99" in error.why[0]


def garbage(path):
    """No database at all."""
    path.write_bytes(b"hello " * 3000)


def cut(path):
    """Only the first pages are left."""
    with path.open("r+b") as file:
        file.truncate(8192)


def foreign(path):
    """A database of another program."""
    path.unlink()
    raw = sqlite3.connect(path)
    raw.execute("CREATE TABLE cookies (a)")
    raw.close()


def odd_row(path):
    """A value that lxgpu never writes."""
    raw = sqlite3.connect(path)
    raw.execute("UPDATE persons SET created_at = 'yesterday'")
    raw.commit()
    raw.close()


@pytest.mark.parametrize("spoil", [garbage, cut, foreign, odd_row])
def test_a_damaged_inventory_is_said_to_be(path, spoil):
    """The error says what to do; nothing is read by halves."""
    spoil(path)

    def use():
        with open_inventory(path) as inventory:
            inventory.read()
            inventory.check()

    error = refused(use)
    assert (error.code, int(error.status)) == ("inventory_damaged", 1)
    assert "lxgpu inventory" in error.fix


def test_a_place_that_cannot_be_is_told(tmp_path):
    """A folder of that name, and a file where the folder should be."""
    (tmp_path / "file").touch()
    (tmp_path / "inventory.db").mkdir()
    assert refused(open_inventory, tmp_path / "inventory.db").code == "inventory_storage"
    assert refused(open_inventory, tmp_path / "file" / "inventory.db").code == "inventory_storage"


# ---- the disk is full, or read-only


def fill(folder):
    """Take all the room there is."""
    handle = os.open(folder / "filler", os.O_CREAT | os.O_WRONLY)
    try:
        while os.write(handle, b"x" * 4096):
            pass
    except OSError as error:
        assert error.errno == errno.ENOSPC  # noqa: PT017 -- the end of the loop
    finally:
        os.close(handle)


def test_a_full_disk_changes_nothing(small_disk):
    """What does not fit is not written at all, what was there is there, and with room again all goes on."""
    path = small_disk / "inventory.db"
    with open_inventory(path) as inventory:
        add(inventory, "alice")

        def put(count):
            with inventory.write(actor="root", now=make.T0) as tx:
                tx.put(*(make.assignment(f"a{number}", gpu=f"GPU-{number}") for number in range(count)))

        def put_one_by_one():
            for number in range(2000):
                with inventory.write(actor="root", now=make.T0) as tx:
                    tx.event("count", str(number))

        fill(small_disk)
        for do in (lambda: put(5000), put_one_by_one, lambda: put(3)):
            error = refused(do)
            assert (error.code, int(error.status)) == ("inventory_storage", 8)
            assert "disk is full" in error.why[0]
            assert (names(inventory), inventory.read().assignments, inventory.read().version) == (["alice"], (), 1)
        events = inventory.events(limit=2000)
        assert [event.subject for event in events] == [str(number) for number in reversed(range(len(events)))]
        (small_disk / "filler").unlink()
        put(3)
        assert refused(lambda: put(5000)).code == "inventory_storage"
        assert (len(inventory.read().assignments), inventory.read().version) == (3, 2)
        inventory.check()
    with open_inventory(path) as inventory:
        assert len(inventory.read().assignments) == 3


def test_on_a_full_disk_one_can_still_read(small_disk):
    """Opening for writing says that the disk is full; reading only needs no room."""
    path = small_disk / "inventory.db"
    with open_inventory(path) as inventory:
        add(inventory, "alice")
    fill(small_disk)
    assert refused(open_inventory, path).code == "inventory_storage"
    with open_readonly(path) as inventory:
        assert names(inventory) == ["alice"]
    assert refused(open_inventory, small_disk / "other.db").code == "inventory_storage"


def test_on_a_read_only_disk_one_can_still_read(small_disk):
    """A disk that the kernel made read-only after a fault is told apart from a lost inventory."""
    path = small_disk / "inventory.db"
    with open_inventory(path) as inventory:
        add(inventory, "alice")
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    assert refused(open_inventory, path).code == "inventory_storage"
    with open_readonly(path) as inventory:
        assert names(inventory) == ["alice"]


# ---- where it may lie

MOUNTS = r"""
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:26 / /home rw shared:9 - nfs4 server:/home rw,vers=4.2
31 30 0:27 / /home/local rw shared:9 - xfs /dev/sdb rw
32 22 0:28 / /mnt/with\040space rw - cifs //server/share rw
33 22 0:29 / /srv rw - ext4 /dev/sdc rw
34 33 0:30 / /srv rw - fuse.sshfs server: rw
"""


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/var/lib/lxgpu", "ext4"),
        ("/home", "nfs4"),
        ("/home/alice", "nfs4"),
        ("/homestead", "ext4"),
        ("/home/local/lxgpu", "xfs"),
        ("/mnt/with space/lxgpu", "cifs"),
        ("/srv/lxgpu", "fuse.sshfs"),
    ],
)
def test_the_file_system_of_a_folder_is_found(folder, kind):
    """The innermost and newest mount counts, and names are compared folder by folder."""
    assert file_system(Path(folder), MOUNTS) == kind
