"""Rows of the model and rows of SQL, in one generic mapping.

A field becomes a column of its name. Instants are text, RFC 3339 in UTC with six digits, such as
`2026-11-30T13:49:13.000000Z`: exact, in order when compared as text, and readable in the sqlite3 shell. A `Slot`
becomes the two columns `gpu` and `part`; `Limits` and mappings become JSON with sorted keys, so that equal values are
equal texts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from enum import StrEnum
from functools import cache
from operator import attrgetter
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from lxgpu.model.assignment import Assignment, AssignmentState, Card, SlotRecord
from lxgpu.model.borrowing import Borrowing, BorrowState
from lxgpu.model.gpu import Slot
from lxgpu.model.instance import Instance, Key, Limits, Person
from lxgpu.model.operation import Operation
from lxgpu.model.reservation import Keep, Notice, Reservation
from lxgpu.model.snapshot import Row

Scalar = str | int | float | None
RowKey = tuple[Scalar, ...]

# One entry a kind: the table (also the field of `Records`), the key columns, and which rows are living.
_KINDS: tuple[tuple[type[Row], str, tuple[str, ...], str], ...] = (
    (Person, "persons", ("name",), ""),
    (Key, "keys", ("person", "fingerprint"), ""),
    (Instance, "instances", ("name",), ""),
    (Assignment, "assignments", ("id",), "state <> 'closed'"),
    (SlotRecord, "slots", ("gpu", "part"), ""),
    (Card, "cards", ("uuid",), ""),
    (Operation, "operations", ("id",), "state IN ('open', 'undoing')"),
    (Reservation, "reservations", ("id",), "state IN ('waiting', 'scheduled', 'preparing', 'active')"),
    (Keep, "keeps", ("id",), ""),
    (Notice, "notices", ("id",), "sent_at IS NULL"),
    (Borrowing, "borrowings", ("id",), "state <> 'closed'"),
)


@dataclass(frozen=True, slots=True)
class Table:
    """How one kind of row is kept. `living` is an SQL condition, empty when every row is living.

    `encoders` and `decoders` are for the columns, by index, that SQLite cannot keep as they are.
    """

    kind: type[Row]
    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    living: str
    values_of: Callable[[Row], tuple[Any, ...]]
    key_of: Callable[[Row], RowKey]
    encoders: tuple[tuple[int, Callable[[Any], Scalar]], ...]
    decoders: tuple[tuple[int, Callable[[Any], Any]], ...]
    slot_at: int | None

    def encode(self, row: Row) -> tuple[Scalar, ...]:
        """The row as values of `columns`, in their order.

        Raises:
            ValueError, TypeError: an instant without a zone, a mapping that is no JSON.
        """
        values = list(self.values_of(row))
        for at, encoder in self.encoders:
            if values[at] is not None:
                values[at] = encoder(values[at])
        return tuple(values)

    def decode(self, values: tuple[Scalar, ...]) -> Row:
        """The row of such values.

        Raises:
            ValueError, KeyError, TypeError: a value that no row can have.
        """
        made: list[Any] = list(values)
        for at, decoder in self.decoders:
            if made[at] is not None:
                made[at] = decoder(made[at])
        if self.slot_at is not None:
            made[self.slot_at : self.slot_at + 2] = [Slot.of(made[self.slot_at], made[self.slot_at + 1])]
        return self.kind(*made)

    def is_living(self, row: Row) -> bool:
        """The condition of `living`, in Python."""
        if isinstance(row, Assignment):
            return row.state is not AssignmentState.CLOSED
        if isinstance(row, Borrowing):
            return row.state is not BorrowState.CLOSED
        if isinstance(row, Reservation):
            return row.open
        if isinstance(row, Notice):
            return not row.sent
        return row.live if isinstance(row, Operation) else True


@cache
def tables() -> Mapping[type[Row], Table]:
    """The tables by kind of row, parents before children."""
    return {kind: _table(kind, name, key, living) for kind, name, key, living in _KINDS}


def instant_text(at: datetime) -> str:
    """Writes an aware instant as the inventory keeps it."""
    if at.tzinfo is None:
        raise ValueError(f"{at} has no time zone; instants are aware and in UTC")
    return at.astimezone(UTC).isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


def instant(text: str) -> datetime:
    """Reads what `instant_text` wrote."""
    return datetime.fromisoformat(text)


def json_text(value: object) -> str:
    """Writes JSON in one way only: sorted keys, no spaces, no NaN."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _limits_text(value: Limits) -> str:
    return json_text({name: amount for name, amount in asdict(value).items() if amount is not None})


def _limits(text: str) -> Limits:
    return Limits(**json.loads(text))


def _table(kind: type[Row], name: str, key: tuple[str, ...], living: str) -> Table:
    hints = get_type_hints(kind)
    columns: list[str] = []
    paths: dict[str, str] = {}
    encoders: list[tuple[int, Callable[[Any], Scalar]]] = []
    decoders: list[tuple[int, Callable[[Any], Any]]] = []
    for field in fields(kind):
        plain = without_none(hints[field.name])
        if plain is Slot:
            paths |= {"gpu": f"{field.name}.card", "part": f"{field.name}.part"}
            columns += ("gpu", "part")
            continue
        encoder, decoder = _codec(plain)
        if encoder and decoder:
            encoders.append((len(columns), encoder))
            decoders.append((len(columns), decoder))
        columns.append(field.name)
    return Table(
        kind=kind,
        name=name,
        columns=tuple(columns),
        key=key,
        living=living,
        values_of=_getter([paths.get(column, column) for column in columns]),
        key_of=_getter([paths.get(column, column) for column in key]),
        encoders=tuple(encoders),
        decoders=tuple(decoders),
        slot_at=columns.index("gpu") if paths else None,
    )


def _getter(paths: Sequence[str]) -> Callable[[Row], tuple[Any, ...]]:
    if len(paths) > 1:
        return attrgetter(*paths)
    single = attrgetter(*paths)
    return lambda row: (single(row),)


def without_none(hint: Any) -> Any:  # noqa: ANN401 -- a type hint has no better type
    """The type hint of a field without its `| None`."""
    if get_origin(hint) is UnionType:
        (hint,) = (arm for arm in get_args(hint) if arm is not NoneType)
    return hint


def _codec(plain: Any) -> tuple[Callable[[Any], Scalar] | None, Callable[[Any], Any] | None]:  # noqa: ANN401 -- as above
    if plain in (str, int):
        return None, None
    if plain is bool:
        return int, bool
    if plain is datetime:
        return instant_text, instant
    if plain is Limits:
        return _limits_text, _limits
    if isinstance(plain, type) and issubclass(plain, StrEnum):
        # A dict is several times faster than calling the enum.
        return str, {member.value: member for member in plain}.__getitem__
    if get_origin(plain) is Mapping:
        return json_text, json.loads
    raise TypeError(f"the inventory has no column for {plain}")
