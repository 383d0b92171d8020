"""The rules that no write may break, and the words for who stands in the way.

SQLite holds the same rules as unique indexes and triggers (`sql/`); it names an index, not a person, so both the store
and its twin in memory take their words from here.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lxgpu.errors import LxgpuError
from lxgpu.inventory.rows import tables
from lxgpu.model.assignment import Assignment, AssignmentState
from lxgpu.model.borrowing import Borrowing
from lxgpu.model.gpu import WHOLE
from lxgpu.model.instance import Instance, InstanceState, Person
from lxgpu.model.operation import Operation
from lxgpu.model.snapshot import Row


@dataclass(frozen=True, slots=True)
class Rule:
    """Of all rows of `kind` with the same `group`, no two may `clash`. A row whose group is None is free of it.

    `words` gives (what, why) for the row that was to be written and the one that is there.
    """

    name: str
    kind: type[Row]
    group: Callable[[Any], Hashable | None]
    words: Callable[[Any, Any], tuple[str, str]]
    clash: Callable[[Any, Any], bool] = lambda _new, _held: True


def _when(at: datetime) -> str:
    from lxgpu.instants import format_utc  # noqa: PLC0415 -- loads the time zones, and is for errors only

    return format_utc(at)


def _is_free(row: Instance) -> bool:
    return row.state is InstanceState.TRASHED or row.throw_away


def _slot_taken(new: Assignment, held: Assignment) -> tuple[str, str]:
    since = held.since or held.created_at
    return (
        f"{new.slot} is held by {held.instance}",
        f"assignment {held.id} is {held.state} since {_when(since)}, and a slot has one holder",
    )


def _promised(new: Assignment, held: Assignment) -> tuple[str, str]:
    return (
        f"{new.slot} is promised to {held.instance}",
        f"assignment {held.id} is planned since {_when(held.created_at)}, and a slot has one successor",
    )


def _divided(new: Assignment, held: Assignment) -> tuple[str, str]:
    return (
        f"{new.slot} cannot be lent to {new.instance} while {held.instance} holds {held.slot}",
        "a card is lent whole or in parts, never both at once",
    )


def _busy(new: Operation, held: Operation) -> tuple[str, str]:
    return (
        f"{held.kind} of {held.instance} is under way",
        f"operation {held.id} of {held.actor} began at {_when(held.created_at)}, so {new.kind} has to wait",
    )


def _second(new: Instance, held: Instance) -> tuple[str, str]:
    return (
        f"{new.owner} has the instance {held.name} on {held.host} already",
        f"a person has one instance on a host; {held.name} is {held.state}",
    )


# In the order in which they are told when a row breaks several.
RULES: tuple[Rule, ...] = (
    Rule(
        "person_uid",
        Person,
        lambda row: row.uid,
        lambda new, held: (f"uid {new.uid} belongs to {held.name}", "a uid belongs to one person for life"),
    ),
    Rule(
        "person_port",
        Person,
        lambda row: row.ssh_port,
        lambda new, held: (f"SSH port {new.ssh_port} belongs to {held.name}", "a port belongs to one person for life"),
    ),
    Rule("instance_owner", Instance, lambda row: None if _is_free(row) else (row.owner, row.host), _second),
    Rule(
        "instance_address",
        Instance,
        lambda row: (row.host, row.address) if row.address else None,
        lambda new, held: (f"address {new.address} belongs to {held.name}", f"both are on {held.host}"),
    ),
    Rule(
        "instance_hwaddr",
        Instance,
        lambda row: (row.host, row.hwaddr) if row.hwaddr else None,
        lambda new, held: (f"hardware address {new.hwaddr} belongs to {held.name}", f"both are on {held.host}"),
    ),
    Rule("slot_holder", Assignment, lambda row: row.slot if row.live else None, _slot_taken),
    Rule(
        "slot_successor",
        Assignment,
        lambda row: row.slot if row.state is AssignmentState.PLANNED else None,
        _promised,
    ),
    Rule(
        "card_whole_or_divided",
        Assignment,
        lambda row: row.slot.card if row.live else None,
        _divided,
        clash=lambda new, held: (new.slot.part == WHOLE) != (held.slot.part == WHOLE),
    ),
    Rule(
        "one_part",
        Assignment,
        lambda row: (row.slot.card, row.instance) if row.live and row.slot.part != WHOLE else None,
        lambda new, held: (
            f"{new.slot} cannot be lent to {new.instance}, which holds {held.slot}",
            "an instance has one part of a card at most",
        ),
    ),
    Rule(
        "card_borrower",
        Borrowing,
        lambda row: row.slot.card if row.live else None,
        lambda new, held: (f"{new.slot} is lent on to {held.instance}", "an idle card has one borrower at a time"),
    ),
    Rule("instance_operation", Operation, lambda row: (row.instance or None) if row.live else None, _busy),
)


def broken(rule: Rule, new: Row, held: Row) -> LxgpuError:
    """The error for `new`, which breaks `rule` because of `held`."""
    what, why = rule.words(new, held)
    details = {"rule": rule.name, "held_by": getattr(held, "instance", None) or getattr(held, "name", "")}
    return LxgpuError("conflict", what, why=why, fix="look again, then repeat", details=details)


def first_broken(new: Row, others: Iterable[Row]) -> LxgpuError | None:
    """The error for the first rule that `new` would break among `others`, or None."""
    key_of = tables()[type(new)].key_of
    mine = key_of(new)
    rest = [row for row in others if key_of(row) != mine]
    for rule in RULES:
        group = rule.group(new) if isinstance(new, rule.kind) else None
        if group is None:
            continue
        held = next((row for row in rest if rule.group(row) == group and rule.clash(new, row)), None)
        if held is not None:
            return broken(rule, new, held)
    return None


def no_person(person: str, child: str) -> LxgpuError:
    """The error for a key or an instance whose person is not there when the write ends. `child` names it."""
    return LxgpuError(
        "conflict",
        f"there is no person {person}, but {child} would be theirs",
        why="keys and instances belong to a person the inventory knows",
        fix="look again, then repeat",
        details={"rule": "owner_known", "held_by": person},
    )


def child_words(table: str, name: str) -> str:
    """How a row of `keys` or `instances` is called in `no_person`."""
    return f"{'the key' if table == 'keys' else 'the instance'} {name}"
