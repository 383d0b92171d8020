"""Fields and cells: what tables and CSV show of our values."""

from __future__ import annotations

from collections.abc import Mapping
from keyword import iskeyword

from lxgpu.plain import plain


def pick(item: object, path: str) -> object:
    """Returns the attribute or key at a dotted path (`class` is the attribute `class_`); None where something is None.

    Raises:
        AttributeError: a dataclass has no such field.
        KeyError: a mapping has no such key.
    """
    value: object = item
    for name in path.split("."):
        if value is None:
            return None
        value = value[name] if isinstance(value, Mapping) else getattr(value, f"{name}_" if iskeyword(name) else name)
    return value


def cell(value: object, *, unknown: str = "-") -> str:
    """Returns one line of text for a value: lists joined by commas, yes and no, `unknown` for None."""
    simple = plain(value)
    match simple:
        case None:
            return unknown
        case bool():
            return "yes" if simple else "no"
        case list():
            return ",".join(cell(item, unknown=unknown) for item in simple) or ("-" if unknown else "")
        case dict():
            return ",".join(f"{cell(key)}={cell(item, unknown=unknown)}" for key, item in simple.items())
        case _:
            from lxgpu.cli.screen import tame  # noqa: PLC0415 -- it imports this module

            return tame(" ".join(str(simple).split()))
