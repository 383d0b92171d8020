"""Reading the inventory's YAML: every mistake at once, each with its line."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import MISSING, Field, dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from typing import Any, get_origin, get_type_hints

from lxgpu.config.source import Source
from lxgpu.config.yamlload import Document, Steps, parse_yaml
from lxgpu.errors import LxgpuError, Problem
from lxgpu.instants import parse_utc
from lxgpu.inventory.heap import Heap
from lxgpu.inventory.rows import json_text, tables, without_none
from lxgpu.inventory.transfer import Contents
from lxgpu.model.gpu import WHOLE, Slot
from lxgpu.model.instance import Limits
from lxgpu.model.operation import Event, Identity, Operation
from lxgpu.model.snapshot import Records, Row

_SECTIONS: dict[str, type[Row]] = {table.name: kind for kind, table in tables().items() if kind is not Operation}
_SCALARS = {str: "a text", int: "a whole number", bool: "true or false"}


class _BadValueError(Exception):
    """A value is wrong, and its problem has been noted."""


def read_contents(text: str, *, name: str, form: int) -> Contents:
    """Reads the text of a file of the given form; see `transfer.import_yaml`.

    Raises:
        LxgpuError: `bad_file`.
    """
    document = parse_yaml(Source(name=name, text=text))
    reader = _Reader(document)
    contents = reader.contents(form)
    problems = [*document.problems, *reader.problems]
    if problems:
        raise document.source.error(problems)
    return contents


@dataclass(slots=True)
class _Reader:
    """Builds rows from a document and notes what is wrong with it."""

    document: Document
    problems: list[Problem] = field(default_factory=list)

    def contents(self, form: int) -> Contents:
        """All that the document holds; what is wrong is left out, and noted."""
        root = self.document.value
        if not isinstance(root, dict) or root.get("lxgpu_inventory") != form:
            self._note((), f"no inventory of lxgpu: it must say lxgpu_inventory: {form}")
            return Contents(Records(version=0, identity=None))
        for unknown in root.keys() - _SECTIONS.keys() - {"lxgpu_inventory", "version", "identity", "events"}:
            self._note((unknown,), "not a section of an inventory", at_key=True)
        rows = {section: self._section(section, kind) for section, kind in _SECTIONS.items()}
        self._check_rules(rows)
        records = Records(
            version=self._version(root.get("version", 0)),
            identity=self._one(Identity, ("identity",)) if "identity" in root else None,
            **{name: tuple(row for _, row in found) for name, found in rows.items()},
        )
        return Contents(records, tuple(row for _, row in self._section("events", Event)))

    def _version(self, value: object) -> int:
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
        self._note(("version",), "must be a whole number, 0 or more")
        return 0

    def _section(self, name: str, kind: type[Any]) -> list[tuple[Steps, Any]]:
        found = self.document.value.get(name, []) if isinstance(self.document.value, dict) else []
        if not isinstance(found, list):
            self._note((name,), "must be a list")
            return []
        places: Iterable[Steps] = ((name, number) for number in range(len(found)))
        return [(steps, row) for steps in places if (row := self._one(kind, steps)) is not None]

    def _one(self, kind: type[Any], steps: Steps) -> Any:  # noqa: ANN401 -- a value of `kind`, or None
        value: Any = self.document.value
        for step in steps:
            value = value[step]
        try:
            return self._built(kind, value, steps)
        except _BadValueError:
            return None

    def _built(self, kind: type[Any], value: object, steps: Steps) -> Any:  # noqa: ANN401 -- a value of `kind`
        if not isinstance(value, dict):
            raise self._bad(steps, "must be a mapping of fields")
        hints, required = _FORMS[kind]
        made: dict[str, object] = {}
        good = True
        for name, hint in hints.items():
            if name not in value:
                if name in required:
                    good = False
                    self._note(steps, f"{name} is missing")
                continue
            try:
                made[name] = self._value(hint, value[name], (*steps, name))
            except _BadValueError:
                good = False
        for unknown in value.keys() - hints.keys():
            good = False
            self._note((*steps, unknown), f"unknown; there are {', '.join(hints)}", at_key=True)
        if not good:
            raise _BadValueError
        if "gpu" in hints:
            made["slot"] = Slot.of(str(made.pop("gpu")), str(made.pop("part", WHOLE)))
        return kind(**made)

    def _value(self, hint: Any, value: object, steps: Steps) -> object:  # noqa: ANN401 -- a type hint
        plain = without_none(hint)
        if value is None and plain is not hint:
            return None
        if plain in _SCALARS:
            if type(value) is not plain:
                raise self._bad(steps, f"must be {_SCALARS[plain]}" + ("; put it in quotes" if plain is str else ""))
            return value
        if plain is Limits:
            return self._built(Limits, value, steps)
        if not isinstance(value, str):
            raise self._bad(steps, "must be a text in quotes")
        try:
            return _from_text(plain, value)
        except LxgpuError as error:
            raise self._bad(steps, "; ".join((error.brief, *error.why))) from error
        except (ValueError, RecursionError) as error:
            raise self._bad(steps, str(error)) from error

    def _check_rules(self, rows: dict[str, list[tuple[Steps, Any]]]) -> None:
        heap = Heap()
        for table in tables().values():
            for steps, row in rows.get(table.name, []):
                key = table.key_of(row)
                if not table.is_living(row):
                    self._note((*steps, "state"), "a closed row is history, which is in backups only")
                elif heap.get(table.kind, key) is not None:
                    self._note(steps, f"a second one of this {' and '.join(table.key)}")
                elif (refused := heap.conflict(row)) is not None:
                    self._note(steps, "; ".join((refused.brief, *refused.why)))
                else:
                    heap.change(table.kind, key, row)
        people = self._people()
        for section, owner in (("keys", "person"), ("instances", "owner")):
            for steps, row in rows[section]:
                if getattr(row, owner) not in people:
                    self._note((*steps, owner), f"there is no person {getattr(row, owner)}")

    def _people(self) -> set[object]:
        """All that the file calls a person, also where a mistake is in the rest: it need not be told twice."""
        root = self.document.value
        listed = root.get("persons") if isinstance(root, dict) else None
        return {each.get("name") for each in listed or () if isinstance(each, dict)}

    def _bad(self, steps: Steps, text: str) -> _BadValueError:
        self._note(steps, text)
        return _BadValueError()

    def _note(self, steps: Steps, text: str, *, at_key: bool = False) -> None:
        self.problems.append(self.document.problem(steps, text, at_key=at_key))


def _from_text(plain: Any, value: str) -> object:  # noqa: ANN401 -- a type hint
    if plain is datetime:
        return parse_utc(value)
    if isinstance(plain, type) and issubclass(plain, StrEnum):
        if value not in set(plain):
            raise ValueError(f"must be one of {', '.join(plain)}")
        return plain(value)
    if get_origin(plain) is not None:
        found = json.loads(value)
        if not isinstance(found, dict):
            raise ValueError("must be a JSON object")
        json_text(found)
        return found
    raise TypeError(f"the file has no form for {plain}")


def _hints(kind: type[Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, hint in get_type_hints(kind).items():
        if hint is Slot:
            found |= {"gpu": str, "part": str}
        elif not (kind is Event and name == "id"):
            found[name] = hint
    return found


def _required(kind: type[Any]) -> frozenset[str]:
    def needed(each: Field[Any]) -> bool:
        return each.default is MISSING and each.default_factory is MISSING

    return frozenset("gpu" if each.name == "slot" else each.name for each in fields(kind) if needed(each))


# By kind: the fields as they stand in the file (a slot as gpu and part, an event without its number) with their types,
# and those that must be there.
_FORMS: dict[type[Any], tuple[dict[str, Any], frozenset[str]]] = {
    kind: (_hints(kind), _required(kind)) for kind in (*_SECTIONS.values(), Limits, Identity, Event)
}
