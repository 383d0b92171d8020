"""From our values to what JSON can carry: the command line, status.json and the HTTP interface write the same."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import Enum


def plain(value: object) -> object:
    """Returns a value made of dicts, lists, text, numbers, booleans and None only.

    Dataclasses become objects with their fields in order (`class_` is written `class`), enums their values, times
    RFC 3339 in UTC, sets sorted lists. None stays None: unknown is not zero.

    Raises:
        TypeError: for a value that has no such form, and for a time without a zone.
    """
    match value:
        case Enum():
            return plain(value.value)
        case None | bool() | int() | float() | str():
            return value
        case Mapping():
            return {str(plain(key)): plain(item) for key, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
        case set() | frozenset():
            return sorted((plain(item) for item in value), key=str)
        case _:
            return _of_object(value)


def _of_object(value: object) -> object:
    if isinstance(value, datetime):
        return _time(value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    from dataclasses import fields, is_dataclass  # noqa: PLC0415 -- `ls` shows bare values, and this takes 10 ms

    if is_dataclass(value) and not isinstance(value, type):
        return {field.name.rstrip("_"): plain(getattr(value, field.name)) for field in fields(value)}
    raise TypeError(f"{type(value).__name__} has no form for output")


def _time(value: datetime) -> str:
    """As `instants.format_utc` writes it, which would take 10 ms to load."""
    if value.tzinfo is None:
        raise TypeError(f"a time without a zone: {value}")
    return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
