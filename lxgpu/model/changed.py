"""A row with some fields changed, in less time than `dataclasses.replace` takes: decisions change rows all the time."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import fields
from functools import cache
from operator import attrgetter
from typing import Any, TypeVar, cast

Row = TypeVar("Row")


def changed(row: Row, /, **changes: Any) -> Row:  # noqa: ANN401 -- the fields' own types, as in dataclasses.replace
    """As `dataclasses.replace`, for a dataclass of two fields or more that are all given to its `__init__`.

    Raises:
        KeyError: there is no such field.
    """
    values_of, places = _shape(cast("Hashable", type(row)))
    values = [*values_of(row)]
    for name, value in changes.items():
        values[places[name]] = value
    return type(row)(*values)


@cache
def _shape(kind: Hashable) -> tuple[Callable[[object], tuple[object, ...]], dict[str, int]]:
    names = [field.name for field in fields(cast("Any", kind))]
    return attrgetter(*names), {name: place for place, name in enumerate(names)}
