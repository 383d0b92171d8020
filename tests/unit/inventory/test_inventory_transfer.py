"""The inventory as YAML: what it looks like, which mistakes are found, and putting it in the place of another."""

from __future__ import annotations

from pathlib import Path

import inventory_rows as make
import pytest
import yaml

from lxgpu.errors import LxgpuError
from lxgpu.inventory.memory import MemoryInventory
from lxgpu.inventory.store import open_inventory
from lxgpu.inventory.transfer import export_yaml, import_yaml, replace_rows
from lxgpu.model.assignment import AssignmentState
from lxgpu.model.instance import Limits
from lxgpu.model.operation import Identity

CASES = yaml.safe_load((Path(__file__).parents[2] / "cases" / "inventory_yaml.yaml").read_text(encoding="utf-8"))

SHOWN = """\
# The inventory of lxgpu. Times are UTC. `lxgpu inventory import FILE` reads it back.
# Operations under way, which are not in this file: 1.
lxgpu_inventory: 1
version: 1
identity: {inventory: "6f", epoch: 2}

persons:
  - name: alice
    uid: 10001
    ssh_port: 22001
    created_at: "2026-11-30T08:00:00Z"

instances:
  - name: alice
    owner: alice
    host: gpu1
    state: ready
    created_at: "2026-11-30T08:00:00Z"
    limits: {cpu: 8, memory_bytes: 34359738368}
    running: false

assignments:
  - id: a1
    gpu: GPU-1
    part: "1/2"
    instance: alice
    state: active
    created_at: "2026-11-30T08:00:00Z"
    since: "2026-11-30T08:00:30Z"

events:
  - at: "2026-11-30T08:00:00Z"
    actor: root
    kind: granted
    subject: alice
    detail: '{"it''s":1}'
"""


def filled(inventory):
    """Put some rows in."""
    with inventory.write(actor="root", now=make.T0) as tx:
        tx.put(make.person("alice", uid=10001, ssh_port=22001))
        tx.put(make.instance("alice", limits=Limits(cpu=8, memory_bytes=2**35), running=False))
        tx.put(make.assignment("a1", part="1/2", since=make.at(0.5)), make.operation())
        tx.put(make.assignment("a0", state=AssignmentState.CLOSED))
        tx.identify(Identity("6f", 2))
        tx.event("granted", "alice", detail={"it's": 1})
    return inventory


def test_the_file_is_readable():
    """Sections in order, no field that says nothing, times and sizes as they are."""
    assert export_yaml(filled(MemoryInventory()), events=10) == SHOWN


def test_every_yaml_reader_reads_the_same():
    """What PyYAML makes of it, with all its guesses, is what was written."""
    read = yaml.safe_load(SHOWN)
    assert read["identity"] == {"inventory": "6f", "epoch": 2}
    assert read["persons"][0]["created_at"] == "2026-11-30T08:00:00Z"
    for word in (
        "no",
        "NULL",
        "1e3",
        "012",
        "10:00",
        "~",
        "",
        "a: b",
        "# x",
        "'",
        '"',
        "\\",
        "\x85\u2028\ufeff",
        "ä😀",
    ):
        inventory = MemoryInventory()
        with inventory.write(actor="root", now=make.T0) as tx:
            tx.put(make.card("GPU-1", model=word))
        assert yaml.safe_load(export_yaml(inventory))["cards"][0]["model"] == word


@pytest.mark.parametrize("case", CASES, ids=[case["case"] for case in CASES])
def test_every_mistake_is_told_with_its_line(case):
    """All at once, in the order of the lines, and nothing that is only a consequence."""
    with pytest.raises(LxgpuError) as caught:
        import_yaml(case["text"], name="inv.yaml")
    assert (caught.value.code, int(caught.value.status)) == ("bad_file", 2)
    found = [(problem.where.removeprefix("inv.yaml:"), problem.text) for problem in caught.value.problems]
    expected = [line.split(" | ") for line in case["mistakes"]]
    assert [where for where, _ in found] == [where.removesuffix(":") for where, _ in expected]
    for (_, text), (_, words) in zip(found, expected, strict=True):
        assert words in text


@pytest.fixture(params=["sqlite", "memory"])
def inventory(request, tmp_path):
    """An inventory of each kind with some rows in it."""
    if request.param == "memory":
        yield filled(MemoryInventory())
        return
    with open_inventory(tmp_path / "inventory.db") as opened:
        yield filled(opened)


def test_an_import_takes_the_place_of_what_was_there(inventory):
    """Rows that are not in the file go, others come or change, and two people can swap their ports."""
    wanted = MemoryInventory()
    with wanted.write(actor="root", now=make.T0) as tx:
        tx.put(make.person("alice", ssh_port=2), make.person("bob", ssh_port=1), make.key("bob"))
        tx.put(make.assignment("a2", instance="bob"))
    contents = import_yaml(export_yaml(wanted))
    with inventory.write(actor="root", now=make.T0) as tx:
        tx.put(make.person("alice", ssh_port=1), make.person("bob", ssh_port=2))
    with inventory.write(actor="root", now=make.T0) as tx:
        replace_rows(tx, contents.records)
    now, then = inventory.read(), wanted.read()
    assert (now.persons, now.keys, now.instances, now.assignments) == (then.persons, then.keys, (), then.assignments)
    assert (now.operations, now.identity) == ((make.operation(),), Identity("6f", 2))
    version = now.version
    with inventory.write(actor="root", now=make.T0) as tx:
        replace_rows(tx, contents.records)
    assert inventory.read().version == version
