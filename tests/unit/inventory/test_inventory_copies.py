"""Backups, and bringing them back."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import inventory_rows as make
import pytest

from lxgpu.errors import LxgpuError
from lxgpu.inventory.copies import copy_database
from lxgpu.inventory.restoring import identity_of_backup, put_aside, restore_inventory
from lxgpu.inventory.store import open_inventory
from lxgpu.model.assignment import AssignmentState
from lxgpu.model.operation import Identity
from lxgpu.ports import VersionMovedError

CLOSED = make.assignment("a0", state=AssignmentState.CLOSED, closed_at=make.at(9))


@pytest.fixture
def inventory(tmp_path):
    """An inventory at version 2: alice with a card, some history, an identity."""
    with open_inventory(tmp_path / "lib" / "inventory.db") as opened:
        with opened.write(actor="root", now=make.T0) as tx:
            tx.put(make.person("alice"), make.instance("alice"), make.assignment("a1"), CLOSED)
            tx.event("granted", "alice", detail={"n": 1})
        with opened.write(actor="root", now=make.T0) as tx:
            tx.identify(Identity("inv-1", 3))
        yield opened


@pytest.fixture
def backup(inventory, tmp_path) -> Path:
    """A backup of it, after which bob came and alice's card was given back."""
    target = tmp_path / "backup.db"
    inventory.backup(target)
    with inventory.write(actor="root", now=make.at(1)) as tx:
        tx.put(make.person("bob"), make.assignment("a1", state=AssignmentState.CLOSED, closed_at=make.at(1)))
        tx.event("released", "alice")
    return target


def everything(inventory):
    """What an inventory holds, but for its version."""
    records = inventory.read()
    rows = (records.persons, records.keys, records.instances, records.assignments, records.operations)
    return rows, records.identity, inventory.events(), inventory.assignments_at(make.at(5)).assignments


def refused(do, *args, **named):
    """The error that a call ends with."""
    with pytest.raises(LxgpuError) as caught:
        do(*args, **named)
    assert caught.value.fix
    return caught.value


def files(folder):
    """Names of all files in a folder but those of SQLite's log."""
    return sorted(each.name for each in folder.iterdir() if not each.name.endswith(("-wal", "-shm")))


# ---- backup


def test_a_backup_is_one_sound_file_with_everything(inventory, tmp_path):
    """History included, readable by root only, and no other file beside it."""
    target = tmp_path / "copies" / "today.db"
    target.parent.mkdir()
    for _ in range(2):
        inventory.backup(target)
        assert (files(target.parent), target.stat().st_mode & 0o777) == (["today.db"], 0o600)
    with open_inventory(target) as copy:
        copy.check()
        assert everything(copy) == everything(inventory)


def test_a_backup_holds_what_was_committed(inventory, tmp_path):
    """A transaction under way is not in it, and does not hold it up."""
    with inventory.write(actor="root", now=make.T0) as tx:
        tx.put(make.person("bob"))
        inventory.backup(tmp_path / "copy.db")
    with open_inventory(tmp_path / "copy.db") as copy:
        assert [person.name for person in copy.read().persons] == ["alice"]


def test_a_backup_that_cannot_be_written_leaves_nothing(inventory, tmp_path):
    """No folder, a folder of that name, and the inventory itself."""
    (tmp_path / "taken").mkdir()
    before = files(tmp_path)
    assert refused(inventory.backup, tmp_path / "nowhere" / "x.db").code == "inventory_storage"
    assert refused(inventory.backup, tmp_path / "taken").code == "inventory_storage"
    assert refused(inventory.backup, inventory.path).code == "usage"
    assert refused(inventory.backup, inventory.path.with_name("inventory.db-wal")).code == "usage"
    assert files(tmp_path) == before
    inventory.check()


def test_a_backup_on_a_full_disk_leaves_the_older_one(inventory, small_disk):
    """The new file takes the old one's name only when it is whole."""
    target = small_disk / "copy.db"
    inventory.backup(target)
    whole = target.read_bytes()
    (small_disk / "filler").write_bytes(b"x" * (512 * 1024 - len(whole) - 16384))
    assert refused(inventory.backup, target).code == "inventory_storage"
    assert (files(small_disk), target.read_bytes()) == (["copy.db", "filler"], whole)


def test_a_copying_that_is_locked_out_ends(inventory, tmp_path):
    """Python's own copying would wait for ever, in silence."""
    with closing(sqlite3.connect(inventory.path, isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        assert refused(copy_database, writer, tmp_path / "copy.db").code == "conflict"
    assert files(tmp_path) == ["lib"]


# ---- restore


def test_a_restore_brings_everything_back(inventory, backup):
    """Rows, history and identity are those of the backup; what was there is kept beside."""
    with open_inventory(backup) as wanted:
        expected = everything(wanted)
    kept = restore_inventory(inventory.path, backup, now=make.at(2))
    assert kept == inventory.path.with_name("inventory.db.replaced-20261130T080200Z")
    assert everything(inventory) == expected
    inventory.check()
    with open_inventory(kept) as old:
        assert [person.name for person in old.read().persons] == ["alice", "bob"]
    assert files(inventory.path.parent) == ["inventory.db", kept.name]
    with inventory.write(actor="root", now=make.T0) as tx:
        tx.event("next", "alice")
    assert len({event.id for event in inventory.events()}) == 2


def test_a_running_command_notices_a_restore(inventory, backup):
    """A decision on what was before fits no version after, even where the numbers were the same."""
    decided_on = inventory.read().version
    restore_inventory(inventory.path, backup, now=make.T0)
    assert inventory.read().version > decided_on
    with pytest.raises(VersionMovedError), inventory.write(actor="root", now=make.T0, expected=decided_on):
        pass


def test_a_missing_inventory_is_restored(inventory, backup):
    """After `rm` the backup becomes the inventory, whatever SQLite's log of the old one says."""
    path = inventory.path
    path.unlink()
    assert restore_inventory(path, backup, now=make.T0) is None
    assert refused(inventory.read).code == "inventory_lost"
    with open_inventory(path) as new:
        new.check()
        assert (new.read().identity, [person.name for person in new.read().persons]) == (
            Identity("inv-1", 3),
            ["alice"],
        )
        assert path.stat().st_mode & 0o777 == 0o600


def test_a_damaged_inventory_is_restored_and_kept(inventory, backup):
    """The damaged file is moved aside, not deleted: somebody may still want to look at it."""
    inventory.close()
    inventory.path.write_bytes(b"hello " * 3000)
    kept = restore_inventory(inventory.path, backup, now=make.T0)
    assert kept == inventory.path.with_name("inventory.db.damaged-20261130T080000Z")
    assert kept.read_bytes().startswith(b"hello")
    with open_inventory(inventory.path) as new:
        new.check()
        assert len(new.read().assignments) == 1


def test_a_backup_copied_with_its_log_is_restored_whole(inventory, tmp_path):
    """Somebody copied the file of a running lxgpu by hand, log and all: the log is read."""
    for suffix in ("", "-wal"):
        shutil.copy(f"{inventory.path}{suffix}", tmp_path / f"hand.db{suffix}")
    expected = everything(inventory)
    inventory.path.unlink()
    restore_inventory(inventory.path, tmp_path / "hand.db", now=make.T0)
    with open_inventory(inventory.path) as new:
        assert everything(new) == expected


def no_file(backup):
    """Nothing there."""
    backup.unlink()


def empty(backup):
    """A file without content."""
    backup.write_bytes(b"")


def garbage(backup):
    """No database."""
    backup.write_bytes(b"hello " * 3000)


def cut(backup):
    """Half a database."""
    with backup.open("r+b") as file:
        file.truncate(16384)


def newer(backup):
    """A backup of a later lxgpu."""
    run(backup, "INSERT INTO migrations VALUES (99, 'future', '', '')")


def orphan(backup):
    """A key of nobody."""
    run(backup, "INSERT INTO keys VALUES ('zoe', 'f', 'l', '2026-11-30T08:00:00.000000Z')")


def odd_row(backup):
    """A value that lxgpu never writes."""
    run(backup, "UPDATE persons SET created_at = 'yesterday'")


def run(path, statement):
    """Change a database behind lxgpu's back."""
    with closing(sqlite3.connect(path)) as raw:
        raw.execute(statement)
        raw.commit()


@pytest.mark.parametrize("spoil", [no_file, empty, garbage, cut, newer, orphan, odd_row])
@pytest.mark.parametrize("gone", [False, True], ids=["over a sound one", "for a missing one"])
def test_a_bad_backup_changes_nothing(inventory, backup, spoil, gone):
    """A backup is checked before anything is touched, and leaves nothing behind."""
    before = everything(inventory)
    if gone:
        inventory.path.unlink()
    spoil(backup)
    error = refused(restore_inventory, inventory.path, backup, now=make.T0)
    expected = {no_file: "not_found", newer: "inventory_newer"}.get(spoil, "bad_file")
    assert error.code == expected
    assert refused(identity_of_backup, backup).code == expected
    assert files(inventory.path.parent) == ([] if gone else ["inventory.db"])
    if not gone:
        assert everything(inventory) == before
        inventory.check()


def test_whose_backup_it_is_can_be_asked_first(inventory, backup):
    """It tells the identity that the inventory had, and writes nothing anywhere."""
    before = files(backup.parent)
    assert identity_of_backup(backup) == inventory.read().identity
    assert files(backup.parent) == before


def test_a_damaged_file_makes_room_for_a_new_one(tmp_path):
    """What cannot be read is kept, its log with it, and a fresh inventory opens in its place."""
    path = tmp_path / "inventory.db"
    path.write_bytes(b"no database " * 500)
    with pytest.raises(LxgpuError) as caught:
        open_inventory(path)
    path.with_name("inventory.db-wal").write_bytes(b"log")
    kept = put_aside(path, now=make.T0)
    assert caught.value.code == "inventory_damaged"
    assert kept.read_bytes().startswith(b"no database")
    assert kept.with_name(f"{kept.name}-wal").read_bytes() == b"log"
    with open_inventory(path) as fresh:
        assert fresh.read().identity is None
