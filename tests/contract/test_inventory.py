"""What every inventory promises, asked of the one in SQLite and of its twin in memory alike."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime

import inventory_rows as make
import pytest
from inventory_rows import T0, at

from lxgpu.errors import LxgpuError
from lxgpu.inventory.memory import MemoryInventory
from lxgpu.inventory.onehost import OneHost
from lxgpu.inventory.store import open_inventory
from lxgpu.model.assignment import LIVE, AssignmentState
from lxgpu.model.instance import InstanceKind, InstanceState, Limits
from lxgpu.model.operation import Identity, OperationState
from lxgpu.model.snapshot import Records
from lxgpu.ports import VersionMovedError


@pytest.fixture(params=["sqlite", "memory", "one host of several"])
def inventory(request, tmp_path):
    """An empty inventory of each kind."""
    if request.param != "sqlite":
        yield (
            MemoryInventory()
            if request.param == "memory"
            else OneHost(MemoryInventory(), "gpu1", hosts=("gpu1", "gpu2"))
        )
        return
    with open_inventory(tmp_path / "inventory.db") as opened:
        yield opened


def put(inventory, *rows, now=T0):
    """Write rows in one transaction."""
    with inventory.write(actor="root", now=now) as tx:
        tx.put(*rows)


FULL = (
    make.person("alice"),
    make.key("alice"),
    make.instance(
        "alice",
        uuid="6d2c",
        class_name="normal",
        profile="cuda",
        image="9f3a",
        limits=Limits(cpu=8, memory_bytes=2**35, processes=16384),
        address="10.0.3.4",
        hwaddr="00:16:3e:01:02:03",
        running=False,
        expires=at(90),
        reason="thesis",
        engine_name="trash-alice",
        deleted_at=at(3),
    ),
    make.assignment("a1", class_name="normal", until=at(60.5), due_at=at(61), reservation="r1", outcome="so far"),
    make.slot_record("GPU-2", detached_at=at(1), proven_at=at(2), boot_id="b", quarantine="Xid", quarantined_at=at(4)),
    make.card("GPU-1", closed="broken fan", closed_by="root", closed_at=at(5)),
    make.operation("o1", args={"n": 1, "deep": [None, {"ä": 1.5}]}, position=3, step="start", due_at=at(6), error="x"),
)
"""One row of each kind with every field set."""


def test_a_new_inventory_is_empty_and_nobody(inventory):
    """A fresh inventory has no identity, by which a lost one is noticed."""
    assert inventory.read() == Records(version=0, identity=None)
    assert inventory.events() == []


def test_every_field_of_every_row_comes_back(inventory):
    """Nothing is lost or rounded between writing and reading."""
    put(inventory, *FULL)
    records = inventory.read()
    assert (
        records.persons
        + records.keys
        + records.instances
        + records.assignments
        + records.slots
        + records.cards
        + records.operations
    ) == FULL


def test_rows_come_in_the_order_of_their_keys(inventory):
    """The order of writing leaves no trace, so decisions do not depend on it."""
    put(inventory, *(make.card(uuid) for uuid in ("GPU-2", "GPU-é", "GPU-10", "GPU-1")))
    put(inventory, make.card("GPU-10", model="other"))
    assert [card.uuid for card in inventory.read().cards] == ["GPU-1", "GPU-10", "GPU-2", "GPU-é"]


def test_a_row_of_the_same_key_is_replaced(inventory):
    """`put` is insert or replace."""
    put(inventory, make.person("alice"))
    put(inventory, make.person("alice", ssh_port=9))
    assert inventory.read().persons == (make.person("alice", ssh_port=9),)


def test_drop_removes_by_key(inventory):
    """A row to drop is recognised by its key; dropping what is not there is nothing."""
    put(inventory, make.person("alice"), make.key("alice"))
    with inventory.write(actor="root", now=T0) as tx:
        tx.drop(make.key("alice", line="another text"))
        tx.drop(make.person("bob"))
    records = inventory.read()
    assert (records.keys, len(records.persons), records.version) == ((), 1, 2)


def test_the_version_counts_changes(inventory):
    """One transaction that changed rows is one version, however many rows it wrote."""
    put(inventory, *FULL)
    assert inventory.read().version == 1
    with inventory.write(actor="root", now=T0) as tx:
        tx.identify(Identity("inv-1", 1))
    assert inventory.read().version == 2


@pytest.mark.parametrize("row", FULL, ids=lambda row: type(row).__name__)
def test_writing_the_same_again_is_no_change(inventory, row):
    """Who decided on a version need not decide again because somebody repeated what is known."""
    put(inventory, *FULL)
    put(inventory, row)
    assert inventory.read().version == 1


def test_the_order_of_arguments_is_no_change(inventory):
    """Arguments of an operation are a mapping; another order, or tuples for lists, are the same arguments."""
    put(inventory, make.operation("o1", args={"b": {"d": [1], "c": 2}, "a": 1}))
    put(inventory, make.operation("o1", args={"a": 1, "b": {"c": 2, "d": (1,)}}))
    assert inventory.read().version == 1
    put(inventory, make.operation("o1", args={"a": True, "b": {"c": 2, "d": [1]}}))
    assert inventory.read().version == 2


def test_events_alone_change_no_version(inventory):
    """History is no state to decide on."""
    with inventory.write(actor="root", now=T0) as tx:
        tx.event("login", "alice")
        tx.drop(make.person("nobody"))
    assert inventory.read().version == 0
    assert len(inventory.events()) == 1


def test_the_same_identity_again_is_no_change(inventory):
    """The epoch moves only when it moves."""
    for _ in range(2):
        with inventory.write(actor="root", now=T0) as tx:
            tx.identify(Identity("inv-1", 1))
    assert (inventory.read().version, inventory.read().identity) == (1, Identity("inv-1", 1))


def test_a_decision_on_an_old_version_is_not_written(inventory):
    """Between the reading and the writing nobody else may have written."""
    decided_on = inventory.read().version
    put(inventory, make.person("bob"))
    with pytest.raises(VersionMovedError), inventory.write(actor="root", now=T0, expected=decided_on) as tx:
        tx.put(make.person("alice"))
    assert [row.name for row in inventory.read().persons] == ["bob"]
    with inventory.write(actor="root", now=T0, expected=inventory.read().version) as tx:
        tx.put(make.person("alice"))
    assert len(inventory.read().persons) == 2


def test_a_failure_inside_undoes_everything(inventory):
    """All or nothing: rows, removals, identity, history and version."""
    put(inventory, make.person("alice"), make.assignment("a1"))
    before = inventory.read()

    def fail_late():
        with inventory.write(actor="root", now=T0) as tx:
            tx.put(make.person("bob"), make.person("alice", uid=5), make.assignment("a1", outcome="x"))
            tx.put(make.assignment("a1", state=AssignmentState.CLOSED))
            tx.put(make.assignment("a2"))
            tx.drop(make.person("alice"))
            tx.event("x", "y")
            tx.identify(Identity("other", 9))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_late()
    assert (inventory.read(), inventory.events()) == (before, [])
    put(inventory, make.person("carol"))
    assert inventory.read().version == before.version + 1


@pytest.mark.parametrize("early", [True, False], ids=["asked before the first write", "asked after it"])
def test_a_transaction_shows_what_it_found(inventory, early):
    """`records` stays what it was at the begin, also when it is first asked for after a write."""
    put(inventory, make.person("alice"), make.assignment("a1"), make.assignment("a2", gpu="GPU-2"))
    before = inventory.read()
    with inventory.write(actor="root", now=T0) as tx:
        if early:
            assert tx.records == before
        tx.put(make.person("bob"), make.assignment("a1", state=AssignmentState.CLOSED))
        tx.drop(make.assignment("a2", gpu="GPU-2"))
        tx.identify(Identity("inv-1", 1))
        assert tx.records == before
        assert inventory.read() == before
    assert [row.name for row in inventory.read().persons] == ["alice", "bob"]


def test_a_write_inside_a_write_is_a_fault(inventory):
    """One transaction at a time in a thread; two would wait for each other."""
    with inventory.write(actor="root", now=T0) as tx:
        with pytest.raises(RuntimeError), inventory.write(actor="root", now=T0):
            pass
        tx.put(make.person("alice"))
    assert len(inventory.read().persons) == 1


def test_a_transaction_cannot_be_used_after_its_end(inventory):
    """A late `put` would not be part of anything."""
    with inventory.write(actor="root", now=T0) as tx:
        pass
    for late in (
        lambda: tx.put(make.person()),
        lambda: tx.drop(make.person()),
        lambda: tx.event("x", "y"),
        lambda: tx.identify(Identity("x", 1)),
    ):
        with pytest.raises(RuntimeError):
            late()
    assert inventory.read().version == 0


# ---- what no write may break

HOLDER = make.assignment("a1")
CONFLICTS = {
    "person_uid": (make.person("alice", uid=7), make.person("bob", uid=7), "uid 7 belongs to alice"),
    "person_port": (make.person("alice", ssh_port=7), make.person("bob", ssh_port=7), "SSH port 7 belongs to alice"),
    "instance_owner": (
        make.instance("alice"),
        make.instance("alice-two", owner="alice"),
        "alice has the instance alice on gpu1 already",
    ),
    "instance_address": (
        make.instance("alice", address="10.0.0.9"),
        make.instance("bob", address="10.0.0.9"),
        "address 10.0.0.9 belongs to alice",
    ),
    "instance_hwaddr": (
        make.instance("alice", hwaddr="00:16:3e:00:00:01"),
        make.instance("bob", hwaddr="00:16:3e:00:00:01"),
        "hardware address 00:16:3e:00:00:01 belongs to alice",
    ),
    "slot_holder": (HOLDER, make.assignment("a2", instance="bob"), "GPU-1 is held by alice"),
    "slot_successor": (
        make.assignment("a1", state=AssignmentState.PLANNED),
        make.assignment("a2", state=AssignmentState.PLANNED, instance="bob"),
        "GPU-1 is promised to alice",
    ),
    "one_part": (
        make.assignment("a1", part="1/4"),
        make.assignment("a2", part="2/4"),
        "GPU-1/2/4 cannot be lent to alice, which holds GPU-1/1/4",
    ),
    "card_whole_or_divided": (
        make.assignment("a1", part="1/4"),
        make.assignment("a2", instance="bob"),
        "GPU-1 cannot be lent to bob while alice holds GPU-1/1/4",
    ),
    "instance_operation": (make.operation("o1"), make.operation("o2", kind="delete"), "attach of alice is under way"),
}
PEOPLE = (make.person("alice"), make.person("bob"))


@pytest.mark.parametrize("rule", CONFLICTS)
def test_a_broken_rule_names_who_stands_in_the_way(inventory, rule):
    """The loser of a race is told who has it, and nothing is written."""
    held, new, words = CONFLICTS[rule]
    if not isinstance(held, type(make.person())):
        put(inventory, *PEOPLE)
    put(inventory, held)
    before = inventory.read()

    def grant():
        with inventory.write(actor="root", now=T0) as tx:
            tx.event("granted", "bob")
            tx.put(new)

    with pytest.raises(LxgpuError) as caught:
        grant()
    error = caught.value
    assert (error.code, error.brief, error.details["rule"]) == ("conflict", words, rule)
    assert error.details["held_by"] == "alice"
    assert error.why
    assert error.fix
    assert (inventory.read(), inventory.events()) == (before, [])


def test_runs_stand_beside_a_persons_own_container(inventory):
    """As many as they like; a second container of their own is refused all the same."""
    runs = [make.instance(f"run-{number}", owner="alice", kind=InstanceKind.RUN) for number in (1, 2)]
    put(inventory, *PEOPLE, make.instance("alice"), *runs)
    assert {row.name: row.throw_away for row in inventory.read().instances} == {
        "alice": False,
        "run-1": True,
        "run-2": True,
    }
    with pytest.raises(LxgpuError):
        put(inventory, make.instance("alice-two", owner="alice"))


@pytest.mark.parametrize("first", sorted(LIVE))
@pytest.mark.parametrize("second", sorted(LIVE))
def test_every_live_state_holds_the_slot(inventory, first, second):
    """From attaching to quarantined a slot has one holder, whatever state the second one would have."""
    put(inventory, make.assignment("a1", state=first))
    with pytest.raises(LxgpuError, match="GPU-1 is held by alice"):
        put(inventory, make.assignment("a2", state=second))


def test_a_rule_holds_when_a_row_is_changed(inventory):
    """Not only new rows are checked: an assignment that goes live, or a card that becomes whole."""
    put(inventory, make.assignment("a1"), make.assignment("a2", state=AssignmentState.PLANNED, instance="bob"))
    with pytest.raises(LxgpuError, match="GPU-1 is held by alice"):
        put(inventory, make.assignment("a2", state=AssignmentState.ATTACHING, instance="bob"))
    put(inventory, make.assignment("a1", part="1/2"), make.assignment("a3", part="2/2", instance="carol"))
    with pytest.raises(LxgpuError, match="cannot be lent to carol"):
        put(inventory, make.assignment("a3", part="whole", instance="carol"))


NEIGHBOURS = {
    "a successor beside the holder": (HOLDER, make.assignment("a2", state=AssignmentState.PLANNED)),
    "closed ones of one slot": (
        replace(HOLDER, state=AssignmentState.CLOSED),
        make.assignment("a2", state=AssignmentState.CLOSED),
        make.assignment("a3"),
    ),
    "parts of one card": (make.assignment("a1", part="1/2"), make.assignment("a2", part="2/2", instance="bob")),
    "a whole successor of a divided card": (
        make.assignment("a1", part="1/2"),
        make.assignment("a2", state=AssignmentState.PLANNED),
    ),
    "the trash and a new one": (
        make.instance("old", owner="alice", state=InstanceState.TRASHED),
        make.instance("older", owner="alice", state=InstanceState.TRASHED),
        make.instance("alice"),
    ),
    "a sibling on another host": (
        make.instance("alice", address="10.0.0.9", hwaddr="h"),
        make.instance("alice-b", owner="alice", host="gpu2", address="10.0.0.9", hwaddr="h"),
    ),
    "no addresses yet": (make.instance("alice"), make.instance("bob")),
    "a done operation and the next": (make.operation("o1", state=OperationState.DONE), make.operation("o2")),
    "operations of no instance": (make.operation("o1", instance=""), make.operation("o2", instance="")),
    "one key of two people": (make.key("alice"), make.key("bob")),
}


@pytest.mark.parametrize("case", NEIGHBOURS)
def test_what_is_no_conflict_is_written(inventory, case):
    """The rules forbid no more than they must."""
    put(inventory, *PEOPLE, *NEIGHBOURS[case])
    assert inventory.read().version == 1


def test_a_slot_passes_on_in_one_transaction(inventory):
    """The old holder is closed and the successor attaches at once; nobody sees the slot free in between."""
    successor = make.assignment("a2", state=AssignmentState.PLANNED, instance="bob")
    put(inventory, HOLDER, successor)
    attaching = replace(successor, state=AssignmentState.ATTACHING)
    put(inventory, replace(HOLDER, state=AssignmentState.CLOSED, closed_at=at(5)), attaching)
    assert inventory.read().assignments == (attaching,)


def test_after_a_conflict_the_transaction_can_go_on(inventory):
    """Who catches the conflict keeps what was written before it, and may try another slot."""
    put(inventory, HOLDER)
    other = make.assignment("a3", gpu="GPU-2", instance="bob")
    with inventory.write(actor="root", now=T0) as tx:
        with pytest.raises(LxgpuError, match="held by alice"):
            tx.put(make.person("bob"), make.assignment("a2", instance="bob"), make.person("never"))
        tx.put(other)
    records = inventory.read()
    assert ([row.name for row in records.persons], records.assignments) == (["bob"], (HOLDER, other))


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (make.key("zoe"), "there is no person zoe, but the key SHA256:aaaa would be theirs"),
        (make.instance("zoe"), "there is no person zoe, but the instance zoe would be theirs"),
    ],
    ids=["key", "instance"],
)
def test_keys_and_instances_belong_to_somebody(inventory, row, words):
    """A key or an instance without its person is refused at the end of the transaction."""
    with pytest.raises(LxgpuError) as caught:
        put(inventory, row)
    assert (caught.value.code, caught.value.brief) == ("conflict", words)
    put(inventory, row, make.person("zoe"))
    with pytest.raises(LxgpuError, match="no person zoe"), inventory.write(actor="root", now=T0) as tx:
        tx.drop(make.person("zoe"))
    assert inventory.read().version == 1


# ---- history


def test_closed_rows_stay_as_history(inventory):
    """What is over is not in the way of decisions, and not forgotten."""
    closed = make.assignment("a1", state=AssignmentState.CLOSED, closed_at=at(10), outcome="released")
    done = make.operation("o1", state=OperationState.UNDONE, closed_at=at(1), error="disk full")
    put(inventory, closed, done)
    records = inventory.read()
    assert (records.assignments, records.operations) == ((), ())
    assert inventory.operation("o1") == done
    assert inventory.operation("o2") is None
    assert inventory.assignments_at(at(5)).assignments == (closed,)


def test_who_held_what_in_the_past(inventory):
    """From the attach to the close, the close not included; what was only planned was not held."""
    first = make.assignment("a1", since=at(10), state=AssignmentState.CLOSED, closed_at=at(20))
    second = make.assignment("a2", since=at(20), instance="bob")
    planned = make.assignment("a3", since=None, state=AssignmentState.PLANNED)
    gone = make.instance("bob", created_at=at(10), deleted_at=at(20), state=InstanceState.TRASHED)
    put(inventory, *PEOPLE, first, second, planned, gone, make.instance("alice"))

    def held(minutes):
        then = inventory.assignments_at(at(minutes))
        return [row.id for row in then.assignments], [row.name for row in then.instances]

    assert held(9) == ([], ["alice"])
    assert held(10) == (["a1"], ["alice", "bob"])
    assert held(19.999) == (["a1"], ["alice", "bob"])
    assert held(20) == (["a2"], ["alice"])


def test_events_of_some_kinds(inventory):
    """Whoever wants a few lines of a long history reads no others; together with subject, time and length."""
    for minute, kind in enumerate(("refused", "released", "renamed", "refused")):
        with inventory.write(actor="root", now=at(minute)) as tx:
            tx.event(kind, "alice" if minute else "bob")
    last, renamed, released, first = inventory.events()
    assert inventory.events(kinds=["refused", "renamed"]) == [last, renamed, first]
    assert inventory.events(kinds=("refused",), since=at(1)) == [last]
    assert inventory.events(kinds={"refused"}, subject="bob") == [first]
    assert inventory.events(kinds=("released", "refused"), limit=2) == [last, released]
    assert inventory.events(kinds=["nothing"]) == []


def test_events_tell_who_did_what_newest_first(inventory):
    """History has actor, time, rule and numbers, and can be asked by subject, time and length."""
    for minute, subject in enumerate(("alice", "bob", "alice")):
        with inventory.write(actor=f"admin{minute}", now=at(minute)) as tx:
            tx.event("released", subject, rule="idle", detail={"below": 0.5, "of": [1, None]})
    events = inventory.events()
    assert [(event.actor, event.at, event.subject) for event in events] == [
        ("admin2", at(2), "alice"),
        ("admin1", at(1), "bob"),
        ("admin0", at(0), "alice"),
    ]
    assert (events[0].kind, events[0].rule) == ("released", "idle")
    assert events[0].detail == {"below": 0.5, "of": [1, None]}
    assert [event.id for event in inventory.events(subject="alice")] == [events[0].id, events[2].id]
    assert inventory.events(since=at(1)) == events[:2]
    assert inventory.events(subject="alice", since=at(1), limit=5) == events[:1]
    assert inventory.events(limit=1) == events[:1]
    first, second, third = (event.id for event in reversed(events))
    assert [event.id for event in inventory.events_after(0)] == [first, second, third]
    assert [event.id for event in inventory.events_after(first, limit=1)] == [second]
    assert inventory.events_after(third) == []


# ---- values


def test_a_time_without_a_zone_is_a_fault(inventory):
    """A naive time would be read as another one elsewhere."""
    naive = datetime(2026, 11, 30, 8, 0)  # noqa: DTZ001 -- this is what must be refused
    with pytest.raises(ValueError, match="no time zone"):
        put(inventory, make.person("alice", created_at=naive))
    with pytest.raises(ValueError, match="no time zone"):
        put(inventory, make.person("alice"), now=naive)
    assert inventory.read().version == 0


@pytest.mark.parametrize("args", [{"n": float("nan")}, {"when": T0}, {"set": {1}}], ids=["nan", "datetime", "set"])
def test_arguments_that_are_no_json_are_a_fault(inventory, args):
    """What the journal cannot give back exactly is refused when it is written."""
    with pytest.raises((ValueError, TypeError)):
        put(inventory, make.operation("o1", args=args))
    assert inventory.read().operations == ()


def test_what_was_written_is_nobody_elses(inventory):
    """Changing a dict after it was written changes no journal and no history."""
    args: dict[str, object] = {"cards": ("GPU-1",)}
    with inventory.write(actor="root", now=T0) as tx:
        tx.put(make.operation("o1", args=args))
        tx.event("x", "y", detail=args)
    args["cards"] = "other"
    assert inventory.read().operations[0].args == {"cards": ["GPU-1"]}
    assert inventory.events()[0].detail == {"cards": ["GPU-1"]}


def test_threads_lose_no_update(inventory):
    """Eight threads that read, decide and write with `expected` end with all their changes made."""

    def add(number):
        while True:
            seen = inventory.read()
            try:
                with inventory.write(actor="root", now=T0, expected=seen.version) as tx:
                    tx.put(make.card("GPU-1", memory_bytes=(seen.cards[0].memory_bytes if seen.cards else 0) + 1))
                    tx.event("add", str(number))
            except VersionMovedError:
                continue
            return

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, range(40)))
    assert inventory.read().cards[0].memory_bytes == 40
    assert (inventory.read().version, len(inventory.events())) == (40, 40)
