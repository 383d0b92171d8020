"""Several processes at one inventory, and processes that die in the middle."""

from __future__ import annotations

import random
import time

import inventory_rows as make
import pytest

from lxgpu.errors import LxgpuError
from lxgpu.inventory.store import open_inventory

WRITERS = 16

CONTEND = """
from lxgpu.model.gpu import Slot
name = "p" + sys.argv[1][-1] + str(os.getpid())
print("ready", flush=True)
sys.stdin.readline()
inventory = open_inventory(path)

def decide_then_write():
    while True:
        seen = inventory.read()
        if seen.holder(Slot("GPU-1")) is not None:
            return "lost"
        try:
            with inventory.write(actor=name, now=make.T0, expected=seen.version) as tx:
                tx.put(make.assignment("v" + name, gpu="GPU-1", instance=name))
            return "won"
        except VersionMovedError:
            continue

def write_blindly():
    try:
        with inventory.write(actor=name, now=make.T0) as tx:
            tx.put(make.assignment("b" + name, gpu="GPU-2", instance=name))
        return "won"
    except LxgpuError as error:
        return error.code

print(decide_then_write(), write_blindly(), flush=True)
"""


def test_of_sixteen_processes_one_gets_the_slot(start, tmp_path):
    """Whoever decides on a version, and whoever does not look at all: one wins, the others are told.

    The file is new, so making it and its schema is raced for as well.
    """
    path = tmp_path / "new" / "inventory.db"
    children = [start(CONTEND, path) for _ in range(WRITERS)]
    for child in children:
        assert child.stdout.readline() == "ready\n"
    for child in children:
        child.stdin.write("go\n")
        child.stdin.flush()
    ends = [child.stdout.readline().split() for child in children]
    assert sorted(decided for decided, _ in ends) == ["lost"] * (WRITERS - 1) + ["won"]
    assert sorted(blind for _, blind in ends) == ["conflict"] * (WRITERS - 1) + ["won"]
    with open_inventory(path) as inventory:
        inventory.check()
        records = inventory.read()
    assert (len(records.assignments), records.version) == (2, 2)


COUNT = """
inventory = open_inventory(path)
number = inventory.read().cards[0].memory_bytes if inventory.read().cards else 0
while True:
    number += 1
    with inventory.write(actor="root", now=make.T0) as tx:
        tx.put(make.card("GPU-1", memory_bytes=number))
        tx.event("count", str(number))
        tx.put(make.card("GPU-2", memory_bytes=number), make.card(f"old-{number % 7}", memory_bytes=number))
    print(number, flush=True)
"""


def test_a_writer_killed_anywhere_leaves_whole_transactions(start, tmp_path):
    """After kill -9 at any moment the file is sound, holds all that was reported as done, and nothing by halves."""
    path = tmp_path / "inventory.db"
    chance = random.Random(61)  # noqa: S311 -- moments, no secrets
    for _ in range(6):
        child = start(COUNT, path)
        told = child.stdout.readline()
        time.sleep(chance.uniform(0, 0.05))
        child.kill()
        told = (told + child.stdout.read()).rpartition("\n")[0].split("\n")[-1]
        with open_inventory(path) as inventory:
            inventory.check()
            records = inventory.read()
            cards = {card.uuid: card.memory_bytes for card in records.cards}
            assert cards["GPU-1"] == cards["GPU-2"] == cards[f"old-{cards['GPU-1'] % 7}"] == records.version
            assert records.version in (int(told), int(told) + 1)
            assert len(inventory.events(limit=10**6)) == records.version


def test_a_writer_killed_inside_a_transaction_has_written_nothing(start, tmp_path):
    """What was not committed is not there, and the lock is free at once."""
    path = tmp_path / "inventory.db"
    child = start(
        """
with open_inventory(path).write(actor="root", now=make.T0) as tx:
    tx.put(make.person("alice"))
    os.kill(os.getpid(), 9)
""",
        path,
    )
    assert child.wait() == -9
    with open_inventory(path, timeout_s=0.1) as inventory:
        assert inventory.read().version == 0
        with inventory.write(actor="root", now=make.T0) as tx:
            tx.put(make.person("bob"))
        inventory.check()


def test_who_waits_too_long_is_told(start, tmp_path):
    """A process that hangs inside a transaction makes others fail with `conflict`; readers read on."""
    path = tmp_path / "inventory.db"
    child = start(
        """
with open_inventory(path).write(actor="root", now=make.T0) as tx:
    tx.put(make.person("alice"))
    print("in it", flush=True)
    sys.stdin.readline()
print("out of it", flush=True)
sys.stdin.readline()
""",
        path,
    )
    assert child.stdout.readline() == "in it\n"
    with open_inventory(path, timeout_s=0.05) as inventory:
        with pytest.raises(LxgpuError, match="another lxgpu is writing") as caught:
            _write(inventory)
        assert (caught.value.code, int(caught.value.status)) == ("conflict", 6)
        assert inventory.read().version == 0
        child.stdin.write("\n")
        child.stdin.flush()
        assert child.stdout.readline() == "out of it\n"
        _write(inventory)
        assert [person.name for person in inventory.read().persons] == ["alice", "bob"]


def test_an_open_inventory_is_not_carried_over_a_fork(start, tmp_path):
    """SQLite's locks do not survive a fork, so a child that goes on with its parent's connection is stopped."""
    child = start(
        """
inventory = open_inventory(path)
if os.fork() == 0:
    for use in (inventory.read, inventory.write(actor="x", now=make.T0).__enter__):
        try:
            use()
        except RuntimeError as error:
            print(error, flush=True)
    os._exit(0)
os.wait()
""",
        tmp_path / "inventory.db",
    )
    told, _ = child.communicate()
    assert told.count("cannot be carried over a fork") == 2


def _write(inventory):
    with inventory.write(actor="root", now=make.T0) as tx:
        tx.put(make.person("bob"))
