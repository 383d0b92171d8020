"""From JSON back to our values: what `lxgpu.plain` wrote of a dataclass, read again by the types of its fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from functools import cache
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")


def revive(kind: type[T], value: object) -> T:
    """A value of a dataclass; keys that it does not have are left out, so that a newer writer can be read.

    Raises:
        ValueError: the JSON is not of that shape.
    """
    try:
        found: T = _revive(kind, value)
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"no {kind.__name__}: {error}") from error
    return found


def _revive(kind: Any, value: Any) -> Any:  # noqa: ANN401 -- types and values of any kind
    if isinstance(kind, type) and is_dataclass(kind):
        hints = _hints(kind)
        known = {field.name for field in fields(kind)}
        given = {name: value[name.rstrip("_")] for name in known if name.rstrip("_") in value}
        return kind(**{name: _revive(hints[name], inner) for name, inner in given.items()})
    if get_origin(kind) in (Union, UnionType):
        (inner,) = (one for one in get_args(kind) if one is not type(None))
        return None if value is None else _revive(inner, value)
    if get_origin(kind) is tuple:
        return tuple(_revive(get_args(kind)[0], inner) for inner in value)
    if isinstance(get_origin(kind), type) and issubclass(get_origin(kind), Mapping):
        of = get_args(kind)[1]
        return {key: _revive(of, inner) for key, inner in value.items()}
    if kind is datetime:
        return datetime.fromisoformat(value)
    return kind(value) if isinstance(kind, type) and issubclass(kind, Enum) else value


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)
