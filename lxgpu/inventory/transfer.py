"""The inventory as readable YAML: to move it, to look at it, to mend it by hand.

It holds the living rows and, if wanted, events; the whole history is in backups. Operations under way are left out:
their steps fit the world as it was, and would be resumed in another one. So are fields with their usual value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields
from datetime import datetime
from enum import StrEnum
from typing import Any

from lxgpu.inventory.rows import instant_text, json_text, tables
from lxgpu.model.gpu import WHOLE, Slot
from lxgpu.model.instance import Limits
from lxgpu.model.operation import Event, Identity, Operation
from lxgpu.model.snapshot import Records, Row
from lxgpu.ports import Inventory, Tx

FORMAT = 1
"""Rises when an older lxgpu could misread what a newer one wrote."""


@dataclass(frozen=True, slots=True)
class Contents:
    """What a file holds: living rows but operations, with their version and identity, and events, oldest first."""

    records: Records
    events: tuple[Event, ...] = ()


def export_yaml(inventory: Inventory, *, events: int = 0) -> str:
    """Writes the living rows and the newest `events` events."""
    records = inventory.read()
    history = inventory.events(limit=events) if events else []
    return export_contents(Contents(records=records, events=tuple(reversed(history))))


def export_contents(contents: Contents) -> str:
    """Writes rows and events; `import_yaml` gives the same back, but for operations."""
    from lxgpu.inventory.yamlwrite import write_yaml  # noqa: PLC0415 -- loading YAML takes longer than most commands

    records = contents.records
    sections: dict[str, object] = {"lxgpu_inventory": FORMAT, "version": records.version}
    if records.identity is not None:
        sections["identity"] = _plain(records.identity)
    for kind, table in tables().items():
        rows = getattr(records, table.name)
        if rows and kind is not Operation:
            sections[table.name] = [_plain(row) for row in rows]
    if contents.events:
        sections["events"] = [_plain(event) for event in contents.events]
    return write_yaml(sections, notes=_notes(records))


def import_yaml(text: str, *, name: str = "inventory.yaml") -> Contents:
    """Reads what `export_yaml` wrote, or a person after it; `name` is what mistakes are shown under.

    Raises:
        LxgpuError: `bad_file`, with every mistake and its line: no YAML, unknown or missing fields, values of the wrong
            kind, rows given twice, rules that two rows break together, keys and instances without their person.
    """
    from lxgpu.inventory.yamlread import read_contents  # noqa: PLC0415 -- as above

    return read_contents(text, name=name, form=FORMAT)


def replace_rows(tx: Tx, records: Records) -> None:
    """Makes the living rows those of `records`; operations stay as they are, the identity is the caller's.

    Raises:
        LxgpuError: `conflict`.
    """
    for kind, table in tables().items():
        if kind is Operation:
            continue
        old: Sequence[Row] = getattr(tx.records, table.name)
        new = {table.key_of(row): row for row in getattr(records, table.name)}
        # First away with what changes, or two people could not swap their ports.
        for row in old:
            if new.get(table.key_of(row)) != row:
                tx.drop(row)
        tx.put(*new.values())


def _notes(records: Records) -> list[str]:
    notes = ["The inventory of lxgpu. Times are UTC. `lxgpu inventory import FILE` reads it back."]
    if records.operations:
        notes.append(f"Operations under way, which are not in this file: {len(records.operations)}.")
    return notes


def _plain(row: Row | Identity | Event) -> dict[str, object]:
    """The row as YAML values, in the order of its fields and without those that have their usual value."""
    found: dict[str, object] = {}
    for field in fields(row):
        value = getattr(row, field.name)
        if isinstance(value, Slot):
            found |= {"gpu": value.card} | ({} if value.part == WHOLE else {"part": value.part})
        elif value != _usual(field) and not (isinstance(row, Event) and field.name == "id"):
            found[field.name] = _plain_value(value)
    return found


def _plain_value(value: object) -> object:
    if isinstance(value, datetime):
        return instant_text(value).replace(".000000Z", "Z")
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, Limits):
        return {field.name: amount for field in fields(value) if (amount := getattr(value, field.name)) is not None}
    # YAML has fewer numbers than JSON, and history must come back exactly.
    return json_text(value) if isinstance(value, Mapping) else value


def _usual(field: Field[Any]) -> object:
    return field.default_factory() if field.default_factory is not MISSING else field.default
