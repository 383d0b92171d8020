"""The host probe's port as lines of JSON: its methods are the requests, their types say how values are written.

A line is one object. The server says `hello` first; then each request has an `id` and gets one answer of that `id`:
`{"id": 7, "do": "limits", "with": {"init": 41}, "before": 1234.5}`, `{"id": 7, "is": {"cpu": 1, …}}` or
`{"id": 7, "error": {"code", "brief", "why", "fix"}}`. `before` is a time of the server's clock: what was not begun by
then is not done any more, since whoever asked has given it up.
"""

from __future__ import annotations

import base64
import inspect
import json
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from functools import cache, partial

from lxgpu.errors import CATALOGUE, LxgpuError
from lxgpu.ports import HostProbe

PROTOCOL = "lxgpu.probe/1"
LONGEST_LINE = 1 << 24
"""Bytes; a line that is longer is none of ours."""

Line = dict[str, typing.Any]


def line_of(value: Mapping[str, object]) -> bytes:
    """One line."""
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def parsed(line: bytes) -> Line | None:
    """The object of a line; None: it is none."""
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


@cache
def methods() -> Mapping[str, Mapping[str, object]]:
    """What may be asked: each method of the port with the types of its parameters and, as `return`, of its answer."""
    found = inspect.getmembers(HostProbe, inspect.isfunction)
    return {name: typing.get_type_hints(one) for name, one in found if not name.startswith("_")}


def written(value: object) -> object:
    """A value of the model as JSON can carry it."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case bytes():
            return base64.b64encode(value).decode()
        case datetime():
            return value.isoformat()
        case Mapping():
            return {str(key): written(one) for key, one in value.items()}
        case _ if is_dataclass(value):
            return {one.name: written(getattr(value, one.name)) for one in fields(value)}
        case Iterable():
            return [written(one) for one in value]
    raise TypeError(f"{type(value).__name__} has no form on the wire")


def read(kind: object, value: object) -> typing.Any:  # noqa: ANN401 -- of the type `kind`
    """What was written, as a value of the type `kind`.

    Raises:
        ValueError: it is no such value.
    """
    try:
        return _reader(kind)(value)
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"no {kind}: {error}") from error


@cache
def _reader(kind: object) -> Callable[[typing.Any], object]:
    origin, inner = typing.get_origin(kind) or kind, typing.get_args(kind)
    if origin in {typing.Union, types.UnionType}:
        return _maybe(_reader(next(one for one in inner if one is not types.NoneType)))
    if inner:
        return _several(origin, inner)
    if isinstance(origin, type) and is_dataclass(origin):
        return _object(origin)
    return _ATOMS.get(origin) or partial(_checked, typing.cast("type", origin))


def _several(origin: object, inner: tuple[object, ...]) -> Callable[[typing.Any], object]:
    if origin is Mapping:
        of = _reader(inner[1])
        return lambda value: {key: of(one) for key, one in value.items()}
    if origin is tuple and inner[-1] is not ...:
        each = [_reader(one) for one in inner]
        return lambda value: tuple(one(item) for one, item in zip(each, _listed(value), strict=True))
    of, made = _reader(inner[0]), frozenset if origin is frozenset else tuple
    return lambda value: made(of(one) for one in _listed(value))


def _maybe(of: Callable[[object], object]) -> Callable[[object], object]:
    return lambda value: None if value is None else of(value)


def _object(kind: type) -> Callable[[typing.Any], object]:
    """Fields that the other side does not know have their defaults; those that this side does not know are left out.

    How each is read is looked up when there is one: a card may be within another, as the samples of MIG slices are.
    """
    hints = typing.get_type_hints(kind)
    names = [one.name for one in fields(kind)]
    return lambda value: kind(**{name: _reader(hints[name])(value[name]) for name in names if name in value})


def _listed(value: object) -> list[object]:
    if not isinstance(value, list):
        raise TypeError(f"{type(value).__name__} is no list")
    return value


def _checked(kind: type, value: object) -> object:
    wanted = (int, float) if kind is float else kind
    if not isinstance(value, wanted) or (isinstance(value, bool) and kind is not bool):
        raise TypeError(f"{value!r} is no {kind.__name__}")
    return value


_ATOMS: Mapping[object, Callable[[typing.Any], object]] = {
    datetime: datetime.fromisoformat,
    bytes: partial(base64.b64decode, validate=True),
}


def failure(error: LxgpuError) -> Line:
    """An error, to be sent."""
    return {"code": error.code, "brief": error.brief, "why": list(error.why), "fix": error.fix}


def error_from(value: Line) -> LxgpuError:
    """An error that was sent; one of a kind that this side does not know says that something is not to be had."""
    code = value.get("code")
    known = isinstance(code, str) and code in CATALOGUE
    return LxgpuError(
        str(code) if known else "unavailable",
        str(value.get("brief", "")),
        why=[str(one) for one in value.get("why", ())],
        fix=str(value.get("fix", "")),
    )
